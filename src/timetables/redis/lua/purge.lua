#!lua flags=allow-oom
-- The dead are forgotten. May be repeated: a second time they are not found.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     keys
-- Returns  now, a row of 'p' purged, 'n' not found
--@include cell

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
