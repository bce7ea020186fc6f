#!lua
-- Schedules new tasks. If the key has a live task, 'replace' replaces it; if that task is held, its lease holder is
-- notified. 'keep' keeps the live task, unless it is held and cancelled: such a task has no further attempt.
-- No allow-oom: a full Redis rejects the script before it writes anything.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        'replace' | 'keep', quantum in ms (times are rounded up to a multiple of it, unless it is 0), number of
--             tasks, a lane letter for each task (a single 'n' if all are normal), '1' if any task has tags,
--             MessagePack of two lists: keys and bodies in turn; the times, or one time for all ('+ms' is a delay from
--             now, a number is an instant); last of all, not after (shared/not-after.lua)
-- Reply       now, '' if all tasks were created, else a letter for each task: 'c' created, 'r' replaced, 'f' replaced
--             in flight, 'k' kept, 'K' kept in flight; then a list of the due times of the kept tasks
-- Repeatable  no: a second run would replace a task that was scheduled under the key in between
--@include cell not-after tries claims lanes graves

local quantum, n, letters, tagged = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1'
local keys_and_bodies, whens = cmsgpack.unpack(ARGV[6])
local all_normal, one_when = letters == 'n', #whens == 1
local keys = {}
for i = 1, n do keys[i] = keys_and_bodies[2 * i - 1] end

local answers, kept_due = nil, {}

-- For 'keep': writes an answer for each key whose live task is kept. Returns the positions of the other keys.
local function without_the_kept()
  local _, scores = waiting(keys)
  local stamps = stamps_of(keys)
  local marked = redis.call('SMISMEMBER', MARKS, unpack(keys))
  local tries_of = redis.call('HMGET', TRIES, unpack(keys))
  local free = {}
  answers = {}
  for i, key in ipairs(keys) do
    local held = stamps[i] and marked[i] == 0
    if scores[i] or held then
      local score = scores[i]
      if held then
        local _, score_of = places_of(text_of(stamps[i]), { [key] = true })
        score = score_of[key]
      end
      answers[i] = held and 'K' or 'k'
      kept_due[#kept_due + 1] = read_tries(tries_of[i], ring_of(score), 0).due
    else
      free[#free + 1] = i
    end
  end
  return free
end

local entering
if ARGV[1] == 'keep' then
  entering = without_the_kept()
  if #entering == 0 then return { now, table.concat(answers), kept_due } end
  local free, flat = {}, {}
  for at, i in ipairs(entering) do
    free[at], flat[2 * at - 1], flat[2 * at] = keys[i], keys[i], keys_and_bodies[2 * i]
  end
  keys, keys_and_bodies = free, flat
end
local function position(at) return entering and entering[at] or at end

-- Remove the tags of replaced tasks before HSET overwrites the bodies, which contain these tags. Most cells have neither
-- tags nor dead tasks: one command finds that out.
if redis.call('EXISTS', TAGS, GRAVES) > 0 then
  untag(keys)
  supersede(keys)
end

local fresh = redis.call('HSET', POOL, unpack(keys_and_bodies))

local fenced = {}
if fresh < #keys then
  answers = answers or {}
  local old_letters, _, elsewhere = waiting(keys)
  local old, in_letters = {}, {}
  for at, key in ipairs(keys) do
    if old_letters[at] then
      answers[position(at)] = 'r'
      old[#old + 1], in_letters[#in_letters + 1] = key, old_letters[at]
    end
  end
  leave_lanes(old, in_letters)
  if #elsewhere > 0 then
    local left, held, names = {}, {}, {}
    for at, i in ipairs(elsewhere) do left[at] = keys[i] end
    for at, stamp in ipairs(stamps_of(left)) do
      if stamp then
        answers[position(elsewhere[at])] = 'f'
        held[#held + 1] = left[at]
        old[#old + 1] = left[at]
        names[#names + 1] = text_of(stamp)
        fenced[#fenced + 1], fenced[#fenced + 2] = text_of(stamp), left[at]
      end
    end
    if #held > 0 then
      take_from_claims(held, names)
      redis.call('SREM', MARKS, unpack(held))
    end
  end
  if #old > 0 then redis.call('HDEL', TRIES, unpack(old)) end
end

local added = { h = {}, n = {}, l = {} }
local last_when, ring, score
for at, key in ipairs(keys) do
  local i = position(at)
  local when = whens[one_when and 1 or i]
  if when ~= last_when then
    last_when = when
    ring = ring_at(last_when, quantum)
    score = text_of(ring * 1000)
    ring_put('n', ring)
  end
  local lane = added[all_normal and 'n' or string.sub(letters, i, i)]
  local size = #lane
  lane[size + 1], lane[size + 2] = score, key
end
enter_lanes(added)
if tagged then
  local tags = {}
  for at, key in ipairs(keys) do
    each_tag(keys_and_bodies[2 * at], function(tag) tags[#tags + 1], tags[#tags + 2] = 0, tag .. '\0' .. key end)
  end
  call_in_pieces('ZADD', TAGS, tags)
end
count('scheduled', fresh)
tell_rings()
tell_fence('replaced', fenced)
if not answers then return { now, '', kept_due } end
for i = 1, n do answers[i] = answers[i] or 'c' end
return { now, table.concat(answers), kept_due }
