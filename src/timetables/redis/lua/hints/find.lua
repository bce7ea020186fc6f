#!lua flags=no-writes
-- Finds the keys of hints, page by page. Each page has some of the waiting hints and all held hints. So a hint that
-- moves from its lane into a claim and back during the scan is not missed. Some keys are returned more than once.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        cursor ('' to start): a lane's letter and the ZSCAN cursor within it
-- Reply       now, next cursor ('' at the end), keys
-- Repeatable  yes: reads only
--@include cell claims

local PAGE = 1000
local AFTER = { h = 'n', n = 'l', l = 's' }
local letter, cursor = string.match(ARGV[1] == '' and 'h0' or ARGV[1], '^(%a)(%d+)$')
local keys = redis.call('ZRANGE', PREPARE, 0, -1)
each_record(function(_, text)
  for key in each_key(text) do keys[#keys + 1] = key end
end)
repeat
  local page = redis.call('ZSCAN', LANE_OF[letter], cursor, 'COUNT', PAGE)
  local found = page[2]
  for i = 1, #found, 2 do keys[#keys + 1] = found[i] end
  cursor = page[1]
  if cursor == '0' then letter = AFTER[letter] end
until cursor ~= '0' or letter == nil
return { now, letter and letter .. cursor or '', keys }
