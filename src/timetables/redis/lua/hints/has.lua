#!lua flags=no-writes
-- Which hints are there, waiting or in flight.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     packed: keys
-- Returns  now, a row of '1' there and '0' not
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
