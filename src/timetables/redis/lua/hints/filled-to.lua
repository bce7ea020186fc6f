#!lua flags=allow-oom
-- All up to a frontier is in. One that is behind the last changes nothing. May be repeated.
--
-- KEYS     those of the topic's cell 0 (shared/cell.lua)
-- ARGV     epoch, the frontier: ring, cell, key
-- Returns  now, 1 noted | 0 the epoch is another one by now
--@include cell epoch

if epoch ~= ARGV[1] then return { now, 0 } end
local ring, cell, key = ARGV[2], ARGV[3], ARGV[4]

-- By their bytes: Lua's own order of texts is that of the server's language.
local function is_less(a, b)
  local at = 1
  while at <= #a and string.byte(a, at) == string.byte(b, at) do at = at + 1 end
  return (string.byte(a, at) or -1) < (string.byte(b, at) or -1)
end

local last_ring, last_cell, last_key = string.match(filled, '^(%S+) (%S+) (.*)$')
local function is_behind()
  if not last_ring then return false end
  if tonumber(ring) ~= tonumber(last_ring) then return tonumber(ring) < tonumber(last_ring) end
  if tonumber(cell) ~= tonumber(last_cell) then return tonumber(cell) < tonumber(last_cell) end
  return is_less(key, last_key)
end

if not is_behind() then redis.call('HSET', META, 'filled', ring .. ' ' .. cell .. ' ' .. key) end
return { now, 1 }
