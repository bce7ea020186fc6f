#!lua flags=allow-oom
-- Settles tasks with retry, snooze, return or dead. ('return' puts a task back whose handler was not started. The
-- outcomes done and obsolete are in finish.lua.) A task that is not held under the given stamp is stale and stays
-- unchanged.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        number of settlements, then five values for each: key, stamp, 'retry' | 'snooze' | 'return' | 'dead',
--             delay or cause (retry, snooze: delay in ms; dead: cause of death; return: ''), error (retry: the error;
--             dead: '1' if the death counts as a failure, else '0', then the error; snooze, return: '')
-- Reply       now, a letter for each settlement: '1' settled, '0' stale
-- Repeatable  yes: a second run finds that the tasks are not held, answers '0' and changes nothing
--@include cell tries claims lanes bury

local n = tonumber(ARGV[1])
local all, names = {}, {}
for i = 1, n do all[i], names[i] = ARGV[5 * i - 3], ARGV[5 * i - 2] end
local groups = groups_of(all, names)
check_held(groups)
local flags = held_flags(groups, n)
local answers, held = {}, {}
for i = 1, n do
  local is_held = not flags or flags[i]
  answers[i] = is_held and '1' or '0'
  if is_held then held[#held + 1] = i end
end
if #held == 0 then return { now, table.concat(answers) } end

local keys, wanted_of = {}, {}
for at, i in ipairs(held) do
  keys[at] = all[i]
  wanted_of[names[i]] = wanted_of[names[i]] or {}
  wanted_of[names[i]][all[i]] = true
end
local letter_of, score_of = {}, {}
for name, wanted in pairs(wanted_of) do letter_of[name], score_of[name] = places_of(name, wanted) end
local tries_of = redis.call('HMGET', TRIES, unpack(keys))
local marked = redis.call('SMISMEMBER', MARKS, unpack(keys))
local bodies = redis.call('HMGET', POOL, unpack(keys))

local added = { h = {}, n = {}, l = {}, s = {} }
local cancelled, deaths, tried = {}, {}, {}

local function wait(letter, score, key)
  local lane = added[letter]
  lane[#lane + 1], lane[#lane + 2] = text_of(score), key
  ring_put(letter, ring_of(score))
end

for at, i in ipairs(held) do
  local key, kind, number, text = keys[at], ARGV[5 * i - 1], ARGV[5 * i], ARGV[5 * i + 1]
  local letter, score = letter_of[names[i]][key], score_of[names[i]][key]
  local tries = read_tries(tries_of[at], ring_of(score), tonumber(names[i]))
  if kind == 'dead' then
    if string.byte(text) == 49 then tries.failures = tries.failures + 1 end
    tries.deliveries = tries.deliveries + 1
    tries.error = string.sub(text, 2)
    deaths[#deaths + 1] = { key = key, tries = tries, cause = number }
  elseif marked[at] == 1 then
    -- The task was cancelled while it was held, so this attempt was its last.
    cancelled[#cancelled + 1] = key
  elseif kind == 'return' then
    if tries_of[at] then
      tries.started = 0
      tried[#tried + 1], tried[#tried + 2] = key, write_tries(tries, tries.updated)
    end
    wait(letter, score, key)
  else
    tries.deliveries = tries.deliveries + 1
    tries.lost = 0
    if kind == 'retry' then
      tries.failures = tries.failures + 1
      tries.error = text
    end
    tried[#tried + 1], tried[#tried + 2] = key, write_tries(tries)
    wait(priority_of(bodies[at]), score_at(math.min(now + number, LAST_INSTANT_MS), tries), key)
  end
end

release(groups)
if #tried > 0 then redis.call('HSET', TRIES, unpack(tried)) end
enter_lanes(added)
forget(cancelled)
count('cancelled', #cancelled)
bury(deaths)
tell_rings()
return { now, table.concat(answers) }
