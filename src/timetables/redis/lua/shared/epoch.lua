-- Reads the epoch and the frontier of a topic. The hints of all tasks up to the frontier have been loaded from the
-- ledger. An epoch ends when hints may have been lost. META of the topic's cell 0 has the fields 'epoch' (a unique
-- name), 'server' (the replication id of Redis when the epoch began) and 'filled' (the frontier: ring time, cell, key).

-- The replication id of Redis changes after a restart and after a failover. Either may lose the last writes.
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local filling = redis.call('HMGET', META, 'epoch', 'server', 'filled')

-- The current epoch. Nil if no epoch has begun, or if the replication id has changed since it began.
local epoch = filling[1] and filling[2] == server and filling[1] or nil
local filled = epoch and filling[3] or ''
