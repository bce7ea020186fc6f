#!lua
-- Changes a topic if it has the expected version. A caller that repeats a change after a lost reply finds it in the
-- history, also if other changes followed.
--
-- KEYS        board and changes (shared/board.lua): the sixth is the list of this topic's changes, newest first
-- ARGV        topic, expected version, id of the change as JSON, changeable part as JSON, author and patch as JSON,
--             number of changes to keep
-- Reply       now, 1 changed by this call or by an earlier one with this id | 0 has another version, the topic as text
--             ('' if there is none)
-- Repeatable  no: the caller repeats it, with the same id, after it was told that the outcome is unknown
--@include board

local CHANGES = KEYS[6]
local topic, expected, change_id = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local text = redis.call('HGET', TOPICS, topic)
if not text then return { now, 0, '' } end
local version, fixed = string.match(text, '^(%d+)\n([^\n]*)\n')
version = tonumber(version)

if version ~= expected then
  -- The index at which this change is, if it was made. LINDEX takes a negative index, too (from the oldest), so that
  -- version and id are compared.
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
