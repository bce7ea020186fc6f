#!lua flags=allow-oom
-- Rescues expired claims, then takes what is due, lane by lane, under one stamp and one lease.
-- Dies or loses its reply after this: a repeat with the same req brings what it holds; else the lease runs out.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     req, limit, lease in ms, 'lanes' | 'suspects', '1' to leave a prefix whole, seed of the spread
-- Returns  now, stamp, next ring, next suspect, ms to the first lease end (-1: none), rescued, poisoned keys in
--          lines, members and scores in turn, bodies, tries (false where there are none)
--@include cell tries claims bury rescue

local RESCUES_PER_CLAIM = 4

local req, limit, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local alone, whole_prefixes = ARGV[4] == 'suspects', ARGV[5] == '1'

local function prefix_of(key)
  return string.match(key, '^[^:]*')
end

-- How many of `found` (flat, one more than fits) to take, so that no prefix is cut; all, if it is one prefix.
local function uncut(found, room)
  local next_key, next_ring = found[2 * room + 1], ring_of(found[2 * room + 2])
  local prefix = prefix_of(next_key)
  local keep = room
  while keep > 0 and ring_of(found[2 * keep]) == next_ring and prefix_of(found[2 * keep - 1]) == prefix do
    keep = keep - 1
  end
  return keep
end

local members, letters = {}, {}

local function take(letter, room, whole)
  if room <= 0 then return 0 end
  local lane = LANE_OF[letter]
  local found = redis.call('ZRANGE', lane, '-inf', now * 1000 + FAILURES_MAX, 'BYSCORE',
    'LIMIT', 0, whole and room + 1 or room, 'WITHSCORES')
  local n = math.floor(#found / 2)
  if whole and n > room then
    local kept = uncut(found, room)
    n = (kept == 0 and #members == 0) and room or kept
  end
  if n == 0 then return 0 end
  -- Right because they are the lane's first and nothing was added in between.
  redis.call('ZREMRANGEBYRANK', lane, 0, n - 1)
  for i = 1, 2 * n do members[#members + 1] = found[i] end
  letters[#letters + 1] = string.rep(letter, n)
  return n
end

local function head(letter)
  local first = redis.call('ZRANGE', LANE_OF[letter], 0, 0, 'WITHSCORES')
  return first[2] and ring_of(first[2])
end

local known = redis.call('HGET', CLAIMS, req)
local stamp = known and tonumber(known)
local rescued, earliest = 0, nil

if known then
  -- The reply was lost and the call repeated: hand out what it still holds, and nothing more.
  local record = members_of(stamp)
  local keys, places = {}, {}
  for key, letter, score in string.gmatch(record, '([^\n\t]+)\t(%a)(%d+)') do
    keys[#keys + 1], places[#places + 1] = key, { letter, score }
  end
  local stamps = stamps_of(keys)
  for i, key in ipairs(keys) do
    if stamps[i] == stamp then
      members[#members + 1], members[#members + 2] = key, places[i][2]
      letters[#letters + 1] = places[i][1]
    end
  end
else
  rescued, earliest = rescue(RESCUES_PER_CLAIM, tonumber(ARGV[6]))
  stamp = math.max(now, (tonumber(redis.call('HGET', META, 'stamp') or 0)) + 1)
  if alone then take('s', math.min(1, limit), false)
  else
    local room = limit
    for _, letter in ipairs({ 'h', 'n', 'l' }) do room = room - take(letter, room, whole_prefixes) end
  end
  local n = #members / 2
  if n > 0 then
    local held, lines, at = {}, { '' }, 0
    local all_letters = table.concat(letters)
    for i = 1, n do
      local key, score = members[2 * i - 1], members[2 * i]
      held[2 * i - 1], held[2 * i] = stamp * 1000 + score % 1000, key
      lines[i + 1] = key .. '\t' .. string.sub(all_letters, i, i) .. score
    end
    lines[n + 2] = ''
    local name = string.format('%.0f', stamp)
    redis.call('ZADD', PREPARE, unpack(held))
    redis.call('ZADD', LEASES, now + lease_ms, name)
    redis.call('HSET', CLAIMS, req, name, name, req, 'm' .. name, table.concat(lines, '\n'))
    redis.call('HSET', META, 'stamp', name, 'format', FORMAT)
  end
end

local bodies, tries = {}, {}
local n = #members / 2
if n > 0 then
  local keys = {}
  for i = 1, n do keys[i] = members[2 * i - 1] end
  bodies = redis.call('HMGET', POOL, unpack(keys))
  if redis.call('EXISTS', TRIES) == 1 then tries = redis.call('HMGET', TRIES, unpack(keys)) end
end

local next_ring
for _, letter in ipairs({ 'h', 'n', 'l' }) do
  local ring = head(letter)
  if ring and (next_ring == nil or ring < next_ring) then next_ring = ring end
end
local next_suspect = head('s')
local lease_end = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
local poisoned = redis.call('HGET', CLAIMS, 'poisoned')
if poisoned then redis.call('HDEL', CLAIMS, 'poisoned') end

-- What a rescue put back may ring for other consumers, too.
tell_ring(earliest)
-- The truth, for those who look now and then: it was stale wherever a first task was taken or cancelled.
local next_of_all = math.min(next_ring or math.huge, next_suspect or math.huge)
if next_of_all == math.huge then redis.call('HDEL', META, 'next')
else redis.call('HSET', META, 'next', next_of_all) end
if lease_end then redis.call('HSET', META, 'lease', lease_end) else redis.call('HDEL', META, 'lease') end

return {
  now, stamp, next_ring or -1, next_suspect or -1, lease_end and math.max(0, lease_end - now) or -1,
  rescued, poisoned or '', members, bodies, tries,
}
