#!lua flags=allow-oom
-- Trusts a claim call for another lease. Its stamp stays. May be repeated.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     req, lease in ms
-- Returns  now, 1 extended | 0 the claim is not there any more
--@include cell

local name = redis.call('HGET', CLAIMS, ARGV[1])
if not name then return { now, 0 } end
redis.call('ZADD', LEASES, 'XX', now + ARGV[2], name)
redis.call('HSET', META, 'lease', redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2])
return { now, 1 }
