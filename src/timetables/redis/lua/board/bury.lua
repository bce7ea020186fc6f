#!lua flags=allow-oom
-- Deletes the card of a node that was judged dead, unless the node has sent a beat since. Sends no notification,
-- because every process decides for itself which nodes are dead.
--
-- KEYS        board (shared/board.lua)
-- ARGV        node id, the node's count of beats when it was judged dead
-- Reply       now
-- Repeatable  yes
--@include board

local heartbeat = redis.call('HGET', BEATS, ARGV[1])
if heartbeat and string.match(heartbeat, '^%S+') == ARGV[2] then
  redis.call('HDEL', BEATS, ARGV[1])
  redis.call('HDEL', CARDS, ARGV[1])
end
return { now }
