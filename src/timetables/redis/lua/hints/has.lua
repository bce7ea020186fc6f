#!lua flags=no-writes
-- Returns which of the given keys have a hint, waiting or held.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        MessagePack of keys
-- Reply       now, a letter for each key: '1' has a hint, '0' has none
-- Repeatable  yes: reads only
--@include cell claims lanes

local keys = cmsgpack.unpack(ARGV[1])
local letters, _, elsewhere = waiting(keys)
local answers, left = {}, {}
for i = 1, #keys do answers[i] = letters[i] and '1' or '0' end
for at, i in ipairs(elsewhere) do left[at] = keys[i] end
if #left > 0 then
  for at, stamp in ipairs(stamps_of(left)) do
    if stamp then answers[elsewhere[at]] = '1' end
  end
end
return { now, table.concat(answers) }
