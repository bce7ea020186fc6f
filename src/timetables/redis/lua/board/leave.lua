#!lua flags=allow-oom
-- Deletes a node's card and notifies the other processes.
--
-- KEYS        board (shared/board.lua)
-- ARGV        node id
-- Reply       now
-- Repeatable  yes
--@include board

redis.call('HDEL', CARDS, ARGV[1])
if redis.call('HDEL', BEATS, ARGV[1]) > 0 then tell() end
return { now }
