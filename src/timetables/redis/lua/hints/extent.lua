#!lua flags=no-writes
-- How many hints there are, waiting or in flight, and when the first of those that wait rings.
--
-- KEYS     the cell's (shared/cell.lua)
-- Returns  now, how many, the first ring (-1: none)
--@include cell

local size, head = redis.call('ZCARD', PREPARE), nil
for _, lane in pairs(LANE_OF) do
  size = size + redis.call('ZCARD', lane)
  local first = redis.call('ZRANGE', lane, 0, 0, 'WITHSCORES')[2]
  if first and (head == nil or ring_of(first) < head) then head = ring_of(first) end
end
return { now, size, head or -1 }
