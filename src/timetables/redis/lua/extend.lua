#!lua flags=allow-oom
-- Extends the lease of a claim: the lease ends the given time from now. The stamp stays the same.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        request id of the claim, lease in ms
-- Reply       now, 1 extended | 0 the claim holds no task any more
-- Repeatable  yes
--@include cell claims

local name = redis.call('HGET', CLAIMS, ARGV[1])
if not name then return { now, 0 } end
local leases = redis.call('ZSCORE', RECORDS, name) and RECORDS or LEASES
redis.call('ZADD', leases, 'XX', now + ARGV[2], name)
redis.call('HSET', META, 'lease', first_lease_end())
return { now, 1 }
