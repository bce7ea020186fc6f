-- Reads how far a topic is filled with hints. META of the topic's cell 0 has the fields 'epoch' (the name of the
-- epoch), 'server' (the replication id of Redis when the epoch began) and 'filled' (the frontier: ring time, cell,
-- key).

-- The replication id of Redis changes after a restart and after a failover. Either may lose the last writes.
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local filling = redis.call('HMGET', META, 'epoch', 'server', 'filled')

-- The current epoch. Nil if no epoch has begun, or if the replication id has changed since it began.
local epoch = filling[1] and filling[2] == server and filling[1] or nil
local filled = epoch and filling[3] or ''
