#!lua
-- Creates a topic, unless somebody did before. May be repeated.
--
-- KEYS     the board's (shared/board.lua)
-- ARGV     topic, what is fixed and what may change of it, as JSON
-- Returns  now, the topic as text
--@include board

local text = redis.call('HGET', TOPICS, ARGV[1])
if not text then
  text = topic_text(0, ARGV[2], ARGV[3])
  redis.call('HSET', TOPICS, ARGV[1], text)
  revise()
end
return { now, text }
