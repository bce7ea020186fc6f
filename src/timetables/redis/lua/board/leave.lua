#!lua flags=allow-oom
-- Takes a node's card down, and tells the others. May be repeated.
--
-- KEYS     the board's (shared/board.lua)
-- ARGV     id
-- Returns  now
--@include board

redis.call('HDEL', CARDS, ARGV[1])
if redis.call('HDEL', BEATS, ARGV[1]) > 0 then tell() end
return { now }
