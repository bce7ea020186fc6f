#!lua flags=allow-oom
-- Takes down the card of a node that is gone, unless it beat since. Nobody is told: each judges for itself who is gone.
-- May be repeated.
--
-- KEYS     the board's (shared/board.lua)
-- ARGV     id, the count of beats at which it was given up
-- Returns  now
--@include board

local heartbeat = redis.call('HGET', BEATS, ARGV[1])
if heartbeat and string.match(heartbeat, '^%S+') == ARGV[2] then
  redis.call('HDEL', BEATS, ARGV[1])
  redis.call('HDEL', CARDS, ARGV[1])
end
return { now }
