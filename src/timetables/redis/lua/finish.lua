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
local groups
if #stamps == 2 then
  -- All keys are of one claim.
  groups = { { name = stamps[1], keys = keys } }
else
  local names = {}
  for run = 1, #stamps, 2 do
    for _ = 1, stamps[run + 1] do names[#names + 1] = stamps[run] end
  end
  groups = groups_of(keys, names)
end
check_held(groups)
local held, answers, flags = keys, {}, held_flags(groups, #keys)
if flags then
  held = {}
  for i, key in ipairs(keys) do
    answers[i] = flags[i] and '1' or '0'
    if flags[i] then held[#held + 1] = key end
  end
end
if #held > 0 then
  -- Most cells have none of these Redis keys. One EXISTS saves them three commands.
  if redis.call('EXISTS', TAGS, TRIES, MARKS) > 0 then
    untag(held)
    redis.call('HDEL', TRIES, unpack(held))
    redis.call('SREM', MARKS, unpack(held))
  end
  -- Hints have no bodies.
  if redis.call('EXISTS', POOL) == 1 then redis.call('HDEL', POOL, unpack(held)) end
  release(groups)
  count(ARGV[1], #held)
end
return { now, table.concat(answers) }
