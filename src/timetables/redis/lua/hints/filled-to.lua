#!lua flags=allow-oom
-- Records the frontier of a topic: the hints of all tasks up to this position have been loaded from the ledger. Ignores
-- a frontier that is behind the recorded frontier.
--
-- KEYS        cell (shared/cell.lua): cell 0 of the topic
-- ARGV        epoch, the frontier: ring time in ms, cell, key
-- Reply       now, 1 recorded | 0 the epoch has changed
-- Repeatable  yes
--@include cell epoch bytes

if epoch ~= ARGV[1] then return { now, 0 } end
local ring, cell, key = ARGV[2], ARGV[3], ARGV[4]

local last_ring, last_cell, last_key = string.match(filled, '^(%S+) (%S+) (.*)$')
local function is_behind()
  if not last_ring then return false end
  if tonumber(ring) ~= tonumber(last_ring) then return tonumber(ring) < tonumber(last_ring) end
  if tonumber(cell) ~= tonumber(last_cell) then return tonumber(cell) < tonumber(last_cell) end
  return is_before(key, last_key)
end

if not is_behind() then redis.call('HSET', META, 'filled', ring .. ' ' .. cell .. ' ' .. key) end
return { now, 1 }
