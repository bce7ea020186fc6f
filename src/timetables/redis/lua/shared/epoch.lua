-- How far a topic was filled with hints, in the META of its cell 0: 'epoch' is the name of what was filled, 'server' who
-- it was then, 'filled' the frontier: ring time, cell and key.

-- Another one after a restart and after a failover: what was written just before may be lost then.
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local filling = redis.call('HMGET', META, 'epoch', 'server', 'filled')

-- Nil when there is none, or when it is over.
local epoch = filling[1] and filling[2] == server and filling[1] or nil
local filled = epoch and filling[3] or ''
