#!lua flags=allow-oom
-- Deletes dead tasks.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        keys, not after (shared/not-after.lua)
-- Reply       now, a letter for each key: 'p' purged, 'n' not found
-- Repeatable  no: a second run finds the tasks gone and answers 'n'
--@include cell not-after

local scores = redis.call('ZMSCORE', DEAD, unpack(ARGV))
local answers, gone = {}, {}
for i, key in ipairs(ARGV) do
  answers[i] = scores[i] and 'p' or 'n'
  if scores[i] then gone[#gone + 1] = key end
end
if #gone > 0 then
  redis.call('ZREM', DEAD, unpack(gone))
  redis.call('HDEL', GRAVES, unpack(gone))
  count('purged', #gone)
end
return { now, table.concat(answers) }
