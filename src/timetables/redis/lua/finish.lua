#!lua flags=allow-oom
-- Ends held tasks as done or obsolete: the way of nearly every task, so it takes the fewest commands.
-- May be repeated: a second time the tasks are not held, and nothing changes.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     'done' | 'obsolete', packed: keys; stamps and how many of the keys each is for, in turn
-- Returns  now, '' when all were held, else a row of '1' settled and '0' stale
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
  -- Topics without tags, retries and cancelled claims skip all three.
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
