#!lua flags=allow-oom
-- Removes waiting hints. Marks held hints as cancelled, so that they are removed when their claim ends, and notifies
-- their lease holders.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        MessagePack of keys
-- Reply       now
-- Repeatable  yes: a second run may remove a hint that was put in between; when the task is overdue, the sweeper
--             (store/sweeper.ts) puts the hint back
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
