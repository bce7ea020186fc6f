#!lua flags=no-writes
-- Counts the waiting and held hints of a cell, and returns the first ring of the waiting hints.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        none
-- Reply       now, count, first ring (-1 if no hint waits)
-- Repeatable  yes: reads only
--@include cell claims

local size, head = count_held(), nil
for _, lane in pairs(LANE_OF) do
  size = size + redis.call('ZCARD', lane)
  local first = redis.call('ZRANGE', lane, 0, 0, 'WITHSCORES')[2]
  if first and (head == nil or ring_of(first) < head) then head = ring_of(first) end
end
return { now, size, head or -1 }
