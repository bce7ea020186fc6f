#!lua
-- Changes a topic, if it is of the version that is expected. Whoever repeats a change, because its answer was lost,
-- finds it in the history, also under what others changed since.
--
-- KEYS     the board's (shared/board.lua), then the changes of this topic, newest first
-- ARGV     topic, expected version, id of the change as JSON, what may change as JSON, who and what as JSON,
--          how many changes to keep
-- Returns  now, 1 changed by this | 0 of another version, the topic as text ('': there is none)
--@include board

local CHANGES = KEYS[6]
local topic, expected, change_id = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local text = redis.call('HGET', TOPICS, topic)
if not text then return { now, 0, '' } end
local version, fixed = string.match(text, '^(%d+)\n([^\n]*)\n')
version = tonumber(version)

if version ~= expected then
  -- Where it is if it is there: also beyond the newest there is an answer, counted from the oldest.
  local past = redis.call('LINDEX', CHANGES, version - (expected + 1))
  local past_version, past_id = string.match(past or '', '^(%d+) %d+\n([^\n]*)\n')
  local is_ours = tonumber(past_version) == expected + 1 and past_id == change_id
  return { now, is_ours and 1 or 0, text }
end

text = topic_text(expected + 1, fixed, ARGV[4])
redis.call('HSET', TOPICS, topic, text)
redis.call('LPUSH', CHANGES, string.format('%.0f %.0f\n', expected + 1, now) .. change_id .. '\n' .. ARGV[5])
redis.call('LTRIM', CHANGES, 0, ARGV[6] - 1)
revise()
return { now, 1, text }
