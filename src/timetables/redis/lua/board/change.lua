#!lua
-- Changes a topic if the topic has the expected version. If a caller repeats a change after a lost reply, the script
-- finds the change in the history, even if other changes followed, and answers 1.
--
-- KEYS        board and changes (shared/board.lua): KEYS[6] is the list of this topic's changes, newest first
-- ARGV        topic, expected version, id of the change as JSON, changeable part as JSON, author and patch as JSON,
--             number of changes to keep, not after (shared/not-after.lua)
-- Reply       now; 1 if this call or an earlier call with this id made the change, 0 if the topic has another version;
--             the topic as text ('' if there is no such topic)
-- Repeatable  no: the caller gets 'unknown-outcome', and may then repeat the change with the same id
--@include board not-after

local CHANGES = KEYS[6]
local topic, expected, change_id = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local text = redis.call('HGET', TOPICS, topic)
if not text then return { now, 0, '' } end
local version, fixed = string.match(text, '^(%d+)\n([^\n]*)\n')
version = tonumber(version)

if version ~= expected then
  -- If an earlier call made this change, the change is at this index of the list. Compare its version and id: the index
  -- is negative if the topic has an older version than expected, and LINDEX counts a negative index from the oldest
  -- entry.
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
