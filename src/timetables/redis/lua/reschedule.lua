#!lua flags=allow-oom
-- Moves tasks that wait and forgets their failures. What is in flight stays as it is. NOT to be repeated when its
-- reply was lost.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     seed of the spread of rescued tasks, quantum in ms, keys and times in turn ('+ms' a delay, '~ms' a shift,
--          a bare number an instant)
-- Returns  now, then for each key its new due time, -1 in flight, -2 not found
--@include cell tries claims bury rescue lanes

local quantum = tonumber(ARGV[2])
local keys, whens = {}, {}
for i = 3, #ARGV, 2 do keys[#keys + 1], whens[#whens + 1] = ARGV[i], ARGV[i + 1] end
local earliest = rescue_all(tonumber(ARGV[1]))
local letter_of, score_of, elsewhere = waiting(keys)
local answers, in_flight = {}, {}
if #elsewhere > 0 then
  for i, stamp in ipairs(stamps_of(elsewhere)) do in_flight[elsewhere[i]] = stamp and true end
end

local added, suspects, tried = { h = {}, n = {}, l = {} }, {}, {}
local found = {}
for _, key in ipairs(keys) do if letter_of[key] then found[#found + 1] = key end end
local tries_of = #found > 0 and redis.call('EXISTS', TRIES) == 1 and redis.call('HMGET', TRIES, unpack(found)) or {}
local at = 0
for i, key in ipairs(keys) do
  local letter = letter_of[key]
  if not letter then
    answers[i] = in_flight[key] and -1 or -2
  else
    at = at + 1
    local due = ring_at(whens[i], quantum, ring_of(score_of[key]))
    if letter == 's' then
      suspects[#suspects + 1] = key
      letter = priority_of(redis.call('HGET', POOL, key))
    end
    local lane = added[letter]
    lane[#lane + 1], lane[#lane + 2] = due * 1000, key
    if tries_of[at] then
      local tries = read_tries(tries_of[at])
      tries.due, tries.failures, tries.lost = due, 0, 0
      tried[#tried + 1], tried[#tried + 2] = key, write_tries(tries)
    end
    if earliest == nil or due < earliest then earliest = due end
    answers[i] = due
  end
end
if #suspects > 0 then redis.call('ZREM', SUSPECTS, unpack(suspects)) end
for letter, lane in pairs(added) do
  if #lane > 0 then redis.call('ZADD', LANE_OF[letter], unpack(lane)) end
end
if #tried > 0 then redis.call('HSET', TRIES, unpack(tried)) end
tell_ring(earliest)
return { now, answers }
