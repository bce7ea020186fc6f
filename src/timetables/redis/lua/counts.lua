#!lua flags=no-writes
-- Counts the tasks of a cell by state, and reads the counters of the cell (the books).
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        none
-- Reply       now, pending, due, claimed, dead, scheduled, done, cancelled, obsolete, purged
-- Repeatable  yes: reads only
--@include cell claims

local pending, due = 0, 0
for _, lane in pairs(LANE_OF) do
  pending = pending + redis.call('ZCARD', lane)
  due = due + redis.call('ZCOUNT', lane, '-inf', now * 1000 + FAILURES_MAX)
end
local answer = { now, pending, due, count_held(), redis.call('ZCARD', DEAD) }
local books = redis.call('HMGET', META, 'scheduled', 'done', 'cancelled', 'obsolete', 'purged')
for i = 1, 5 do answer[5 + i] = tonumber(books[i] or 0) end
return answer
