#!lua
-- Puts new tasks into their lanes. A key that has a live task: 'replace' supersedes it, also one in flight, whose
-- holder is fenced; 'keep' leaves it, unless it is in flight and cancelled, for then there is nothing left to keep.
-- No allow-oom: a full Redis refuses it before anything is written. NOT to be repeated when its reply was lost.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     'replace' | 'keep', quantum in ms, n, lane letters in a row ('n' alone: all normal), '1' if any has tags,
--          n keys and bodies in turn, n times ('+ms' a delay, a bare number an instant)
-- Returns  now, '' when all were created, else a row of 'c' created, 'r' replaced, 'f' replaced in flight, 'k' kept,
--          'K' kept in flight; then the due times of the kept ones, in order
--@include cell tries claims lanes

local keeps, quantum, n, letters, tagged = ARGV[1] == 'keep', tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1'
local FIRST = 6
local all_normal = letters == 'n'

local function key_at(i) return ARGV[FIRST + 2 * i - 2] end
local function body_at(i) return ARGV[FIRST + 2 * i - 1] end
local function letter_at(i) return all_normal and 'n' or string.sub(letters, i, i) end

-- Which of them go in: all, or with 'keep' only those whose key is free.
local entering, answers, kept_due = {}, nil, {}

local function keep_the_living()
  local keys = {}
  for i = 1, n do keys[i] = key_at(i) end
  local _, score_of = waiting(keys)
  local stamps = stamps_of(keys)
  local marked = redis.call('SMISMEMBER', MARKS, unpack(keys))
  local tries_of = redis.call('HMGET', TRIES, unpack(keys))
  answers = {}
  for i, key in ipairs(keys) do
    local held = stamps[i] and marked[i] == 0
    if score_of[key] or held then
      local score = score_of[key]
      if held then _, score = place_of(members_of(stamps[i]), key) end
      answers[i] = held and 'K' or 'k'
      kept_due[#kept_due + 1] = read_tries(tries_of[i], ring_of(score), 0).due
    else
      entering[#entering + 1] = i
    end
  end
end

if keeps then keep_the_living() else for i = 1, n do entering[i] = i end end
if #entering == 0 then return { now, table.concat(answers), kept_due } end

-- Tags of those about to be replaced, while their bodies are still there.
local keys = {}
for at, i in ipairs(entering) do keys[at] = key_at(i) end
untag(keys)

local fresh
if #entering == n then
  fresh = redis.call('HSET', POOL, unpack(ARGV, FIRST, FIRST + 2 * n - 1))
else
  local pairs_in = {}
  for at, i in ipairs(entering) do pairs_in[2 * at - 1], pairs_in[2 * at] = key_at(i), body_at(i) end
  fresh = redis.call('HSET', POOL, unpack(pairs_in))
end

local fenced = {}
if fresh < #entering then
  answers = answers or {}
  local letter_of, _, elsewhere = waiting(keys)
  local old = {}
  for at, i in ipairs(entering) do
    answers[i] = letter_of[keys[at]] and 'r' or 'c'
    if letter_of[keys[at]] then old[#old + 1] = keys[at] end
  end
  leave_lanes(old, letter_of)
  if #elsewhere > 0 then
    local stamps, held, touched, stamp_of = stamps_of(elsewhere), {}, {}, {}
    for at, key in ipairs(elsewhere) do
      if stamps[at] then
        held[#held + 1] = key
        old[#old + 1] = key
        touched[stamps[at]] = true
        stamp_of[key] = stamps[at]
        fenced[#fenced + 1], fenced[#fenced + 2] = string.format('%.0f', stamps[at]), key
      end
    end
    if #held > 0 then
      redis.call('ZREM', PREPARE, unpack(held))
      redis.call('SREM', MARKS, unpack(held))
      drop_if_empty(touched)
      for at, i in ipairs(entering) do if stamp_of[keys[at]] then answers[i] = 'f' end end
    end
  end
  if #old > 0 then redis.call('HDEL', TRIES, unpack(old)) end
end

local added, tags, earliest = { h = {}, n = {}, l = {} }, {}, math.huge
for at, i in ipairs(entering) do
  local key, ring = keys[at], ring_at(ARGV[FIRST + 2 * n - 1 + i], quantum)
  local lane = added[letter_at(i)]
  lane[#lane + 1], lane[#lane + 2] = ring * 1000, key
  if ring < earliest then earliest = ring end
  if tagged then
    each_tag(body_at(i), function(tag) tags[#tags + 1], tags[#tags + 2] = 0, tag .. '\0' .. key end)
  end
end
for letter, lane in pairs(added) do
  if #lane > 0 then redis.call('ZADD', LANE_OF[letter], unpack(lane)) end
end
if #tags > 0 then redis.call('ZADD', TAGS, unpack(tags)) end
count('scheduled', fresh)
tell_ring(earliest)
tell_fence('replaced', fenced)
if not answers then return { now, '', kept_due } end
for i = 1, n do answers[i] = answers[i] or 'c' end
return { now, table.concat(answers), kept_due }
