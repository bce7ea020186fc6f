#!lua flags=allow-oom
-- Ends held tasks as done or obsolete. Nearly every task ends this way, so this script uses as few commands as
-- possible.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        'done' | 'obsolete', MessagePack of two lists: the keys; the stamps of the keys, run-length encoded (a
--             stamp, then the number of consecutive keys with this stamp)
-- Reply       now, '' if all tasks were held, else a letter for each key: '1' settled, '0' stale
-- Repeatable  yes: a second run finds that the tasks are not held, answers '0' and changes nothing
--@include cell claims

local keys, stamps = cmsgpack.unpack(ARGV[2])
local scores = redis.call('ZMSCORE', PREPARE, unpack(keys))
local held, touched, answers, at = {}, {}, {}, 0
for group = 1, #stamps, 2 do
  local stamp = tonumber(stamps[group])
  local untried = stamps[group] .. '000'
  touched[stamp] = true
  for i = at + 1, at + stamps[group + 1] do
    local is_held = scores[i] and (scores[i] == untried or ring_of(scores[i]) == stamp)
    if is_held then held[#held + 1] = keys[i] end
    answers[i] = is_held and '1' or '0'
  end
  at = at + stamps[group + 1]
end
if #held > 0 then
  -- Most cells have none of these Redis keys. One EXISTS saves them three commands.
  if redis.call('EXISTS', TAGS, TRIES, MARKS) > 0 then
    untag(held)
    redis.call('HDEL', TRIES, unpack(held))
    redis.call('SREM', MARKS, unpack(held))
  end
  redis.call('ZREM', PREPARE, unpack(held))
  redis.call('HDEL', POOL, unpack(held))
  drop_if_empty(touched)
  count(ARGV[1], #held)
end
return { now, #held == #keys and '' or table.concat(answers) }
