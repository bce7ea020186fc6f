#!lua flags=allow-oom
-- Forgets hints that wait. Those in flight are marked, so that they are over with their claim, and their holders told.
-- May be repeated.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     packed: keys
-- Returns  now
--@include cell claims hints

local keys = cmsgpack.unpack(ARGV[1])
local free, held, fenced = {}, {}, {}
for i, stamp in ipairs(stamps_of(keys)) do
  if stamp then
    held[#held + 1] = keys[i]
    fenced[#fenced + 1], fenced[#fenced + 2] = text_of(stamp), keys[i]
  else
    free[#free + 1] = keys[i]
  end
end
leave(free)
if #held > 0 then redis.call('SADD', MARKS, unpack(held)) end
tell_fence('cancelled', fenced)
return { now }
