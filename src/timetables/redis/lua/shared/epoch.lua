-- How far a topic was filled with hints. META of its cell 0 holds 'epoch' (a name for this filling), 'server' (the
-- replication id at its start) and 'filled' (the frontier: ring time, cell, key).

-- The replication id changes with a restart and with a failover. The last writes before either may be lost.
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local filling = redis.call('HMGET', META, 'epoch', 'server', 'filled')

-- Nil if nothing was filled, or if the server has changed since.
local epoch = filling[1] and filling[2] == server and filling[1] or nil
local filled = epoch and filling[3] or ''
