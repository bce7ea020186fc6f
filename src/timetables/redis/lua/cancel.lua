#!lua flags=allow-oom
-- Cancels tasks. A waiting task ends. A held task is marked as cancelled, so that its current attempt is the last, and
-- its lease holder is notified.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        random number from 0 to 1 for the delays of tasks whose lease expired (shared/rescue.lua), MessagePack of
--             keys, not after (shared/not-after.lua)
-- Reply       now, '' if all tasks were cancelled, else a letter for each key: 'c' cancelled, 'f' in flight, 'n' not
--             found
-- Repeatable  no: a second run would cancel a task that was scheduled under the key in between
--@include cell not-after tries claims lanes bury rescue

local keys = cmsgpack.unpack(ARGV[2])
-- First put tasks whose lease has expired back into the lanes, because they count as waiting.
rescue_all(tonumber(ARGV[1]))

-- Most cancelled tasks wait in the normal lane: one ZREM removes and counts them. If ZREM removed fewer keys than
-- given, check each key. A key that has a body and is not held was just removed from the normal lane, or waits in
-- another lane.
local ended, stamps = keys, nil
if redis.call('ZREM', NORMAL, unpack(keys)) < #keys then
  ended, stamps = {}, stamps_of(keys)
  local bodies, letters = redis.call('HMGET', POOL, unpack(keys)), waiting(keys)
  local left, left_letters = {}, {}
  for i, key in ipairs(keys) do
    if bodies[i] and not stamps[i] then
      ended[#ended + 1] = key
      if letters[i] then left[#left + 1], left_letters[#left_letters + 1] = key, letters[i] end
    end
  end
  leave_lanes(left, left_letters)
end
if #ended > 0 then
  if redis.call('EXISTS', TAGS, TRIES) > 0 then
    untag(ended)
    redis.call('HDEL', TRIES, unpack(ended))
  end
  redis.call('HDEL', POOL, unpack(ended))
  count('cancelled', #ended)
end
tell_rings()
if #ended == #keys then return { now, '' } end

local answers, fenced, marked, over = {}, {}, {}, {}
for _, key in ipairs(ended) do over[key] = true end
for i, key in ipairs(keys) do
  local stamp = stamps[i]
  answers[i] = over[key] and 'c' or stamp and 'f' or 'n'
  if stamp then
    marked[#marked + 1] = key
    fenced[#fenced + 1], fenced[#fenced + 2] = text_of(stamp), key
  end
end
if #marked > 0 then redis.call('SADD', MARKS, unpack(marked)) end
tell_fence('cancelled', fenced)
return { now, table.concat(answers) }
