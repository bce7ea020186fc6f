#!lua
-- Creates a topic if no topic has that name.
--
-- KEYS        board (shared/board.lua)
-- ARGV        topic, fixed part as JSON, changeable part as JSON
-- Reply       now, the topic as text
-- Repeatable  yes
--@include board

local text = redis.call('HGET', TOPICS, ARGV[1])
if not text then
  text = topic_text(0, ARGV[2], ARGV[3])
  redis.call('HSET', TOPICS, ARGV[1], text)
  revise()
end
return { now, text }
