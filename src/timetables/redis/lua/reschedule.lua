#!lua flags=allow-oom
-- Moves waiting tasks to another time, and resets their failures. Does not change held tasks.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        random number from 0 to 1 for the delays of tasks whose lease expired (shared/rescue.lua), quantum in ms
--             (times are rounded up to a multiple of it, unless it is 0), flat list of keys and times ('+ms' is a delay
--             from now, '~ms' is a shift of the ring time, a number is an instant), not after (shared/not-after.lua)
-- Reply       now, for each key its new due time, or -1 if it is in flight, or -2 if it is not found
-- Repeatable  no: a second run would apply a shift again
--@include cell not-after tries claims lanes bury rescue

local quantum = tonumber(ARGV[2])
local keys, whens = {}, {}
for i = 3, #ARGV, 2 do keys[#keys + 1], whens[#whens + 1] = ARGV[i], ARGV[i + 1] end
rescue_all(tonumber(ARGV[1]))
local letters, scores, elsewhere = waiting(keys)
local answers = {}
if #elsewhere > 0 then
  local left = {}
  for at, i in ipairs(elsewhere) do left[at] = keys[i] end
  for at, stamp in ipairs(stamps_of(left)) do answers[elsewhere[at]] = stamp and -1 or -2 end
end

local tries_of = redis.call('EXISTS', TRIES) == 1 and redis.call('HMGET', TRIES, unpack(keys)) or {}
local bodies
local added, suspects, tried = { h = {}, n = {}, l = {} }, {}, {}
for i, key in ipairs(keys) do
  local letter = letters[i]
  if letter then
    local due = ring_at(whens[i], quantum, ring_of(scores[i]))
    if letter == 's' then
      suspects[#suspects + 1] = key
      bodies = bodies or redis.call('HMGET', POOL, unpack(keys))
      letter = priority_of(bodies[i])
    end
    local lane = added[letter]
    lane[#lane + 1], lane[#lane + 2] = text_of(due * 1000), key
    if tries_of[i] then
      local tries = read_tries(tries_of[i])
      tries.due, tries.failures, tries.lost = due, 0, 0
      tried[#tried + 1], tried[#tried + 2] = key, write_tries(tries)
    end
    ring_put(letter, due)
    answers[i] = due
  end
end
if #suspects > 0 then redis.call('ZREM', SUSPECTS, unpack(suspects)) end
enter_lanes(added)
if #tried > 0 then redis.call('HSET', TRIES, unpack(tried)) end
tell_rings()
return { now, answers }
