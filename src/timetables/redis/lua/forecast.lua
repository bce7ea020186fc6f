#!lua flags=no-writes
-- Counts how many tasks ring in each step of [from, to). Overdue tasks count as due now.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        from, to, step in ms
-- Reply       now, a list of counts, one for each step
-- Repeatable  yes: reads only
--@include cell

local from, to, step = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local steps = {}
for i = 1, math.ceil((to - from) / step) do steps[i] = 0 end

-- Counts the tasks of a lane from the score `first` up to, but not including, the time `last` in ms.
local function rings(lane, first, last)
  return redis.call('ZCOUNT', lane, first, '(' .. string.format('%.0f', last * 1000))
end

for _, lane in pairs(LANE_OF) do
  if redis.call('EXISTS', lane) == 1 then
    local starts = math.max(from, now)
    if now >= from and now < to then
      local i = math.floor((now - from) / step) + 1
      steps[i] = steps[i] + rings(lane, '-inf', now)
    end
    local at = math.floor((starts - from) / step) + 1
    local in_range = starts < to and rings(lane, string.format('%.0f', starts * 1000), to) or 0
    if in_range > #steps - at + 1 then
      -- There are more tasks than steps, so one ZCOUNT for each step is cheaper than reading the tasks.
      for i = at, #steps do
        local first = math.max(starts, from + (i - 1) * step)
        local last = math.min(to, from + i * step)
        steps[i] = steps[i] + rings(lane, string.format('%.0f', first * 1000), last)
      end
    elseif in_range > 0 then
      local offset, found = 0, nil
      repeat
        found = redis.call('ZRANGE', lane, string.format('%.0f', starts * 1000), '(' .. string.format('%.0f', to * 1000),
          'BYSCORE', 'LIMIT', offset, 1000, 'WITHSCORES')
        for i = 2, #found, 2 do
          local s = math.floor((ring_of(found[i]) - from) / step) + 1
          steps[s] = steps[s] + 1
        end
        offset = offset + 1000
      until #found < 2000
    end
  end
end
return { now, steps }
