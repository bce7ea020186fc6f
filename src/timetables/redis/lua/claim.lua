#!lua flags=allow-oom
-- Rescues expired claims, that is, puts their tasks back into the lanes. Then takes due tasks, lane by lane, under one
-- stamp and one lease. If the reply is lost, a repeat with the same request id returns the tasks that the claim still
-- holds. If the process dies, the tasks are rescued after the lease expires.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        request id, limit, lease in ms, 'lanes' | 'suspects' (where to take tasks from), '1' to keep tasks of one
--             prefix and ring time in one claim, random number from 0 to 1 for the delays of rescued tasks, size of
--             bodies in bytes at which the claim is full, shape of the claim (shared/claims.lua): 'tasks' unless the
--             cell has format 2 | 'record', which gives the cell format 2 | 'hints', a record of hints, whatever the
--             format of the cell
-- Reply       now, stamp, next ring of the lanes, next ring of the suspects, ms to the first lease end (each -1 if
--             there is none), number of rescued tasks, keys of poison tasks separated by line ends; then for the
--             claimed tasks: keys, each with a line end before it; scores separated by spaces; bodies separated by
--             BODY_END ('' for hints); a list of tries (shared/tries.lua; false for a task without tries; an empty list
--             if no task has tries). Three texts take less time than three lists, here and in the client.
-- Repeatable  yes
--@include cell tries claims lanes bury rescue

local RESCUES_PER_CLAIM = 4
-- The number of bodies that the first command reads. Each further command reads four times as many. So few commands
-- read a thousand small bodies, and not many large bodies are read in vain.
local BODIES_FIRST_READ = 16
-- A body contains no such character: it is JSON, which escapes control characters, after a line of tags without any.
local BODY_END = '\30'

local req, limit, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local alone, whole_prefixes = ARGV[4] == 'suspects', ARGV[5] == '1'
local bytes_max = tonumber(ARGV[7])
local are_hints = ARGV[8] == 'hints'
local is_record = are_hints or ARGV[8] == 'record' or format == '2'
local keys, scores, bodies = {}, {}, {}
local bytes, read_next = 0, BODIES_FIRST_READ

local function prefix_of(key)
  return string.match(key, '^[^:]*')
end

-- Returns how many tasks of `found` to take so that tasks with the same prefix and ring time are not split. `found` is
-- a flat list of keys and scores, with one task more than there is room for.
local function uncut(found, room)
  local next_ring, prefix = ring_of(found[2 * room + 2]), prefix_of(found[2 * room + 1])
  local keep = room
  while keep > 0 and ring_of(found[2 * keep]) == next_ring and prefix_of(found[2 * keep - 1]) == prefix do
    keep = keep - 1
  end
  -- If the tasks of a single prefix exceed the limit, split them.
  return (keep == 0 and #keys == 0) and room or keep
end

-- Appends the bodies of `found`, a flat list of keys and scores, to `bodies`, until they reach the limit of bytes or
-- `room` bodies are read. Returns the number of bodies.
local function read_bodies(found, room)
  local count, read = math.min(room, #found / 2), 0
  if are_hints then return count end
  while read < count and bytes < bytes_max do
    local some = {}
    for i = read + 1, math.min(read + read_next, count) do some[#some + 1] = found[2 * i - 1] end
    read_next = read_next * 4
    for _, body in ipairs(redis.call('HMGET', POOL, unpack(some))) do
      if bytes >= bytes_max then break end
      read = read + 1
      bodies[#bodies + 1] = body or ''
      bytes = bytes + #bodies[#bodies]
    end
  end
  return read
end

-- Most cells have only the normal lane. One EXISTS saves them five commands.
local has_other_lanes = true
local function is_absent(letter)
  return letter ~= 'n' and not has_other_lanes
end

-- Removes due tasks from a lane. Returns a flat list of keys and scores.
local function take(letter, room)
  if room <= 0 or bytes >= bytes_max or is_absent(letter) then return {} end
  local lane = LANE_OF[letter]
  local found = redis.call('ZRANGE', lane, '-inf', now * 1000 + FAILURES_MAX, 'BYSCORE',
    'LIMIT', 0, whole_prefixes and room + 1 or room, 'WITHSCORES')
  local fitting = read_bodies(found, room)
  if fitting < #found / 2 then
    local keep = whole_prefixes and uncut(found, fitting) or fitting
    for i = #found, 2 * keep + 1, -1 do found[i] = nil end
    for i = #bodies, #bodies - (are_hints and 0 or fitting - keep) + 1, -1 do
      bytes = bytes - #bodies[i]
      bodies[i] = nil
    end
  end
  -- Remove by rank: `found` is the head of the lane, and the lane has not changed since `found` was read.
  if #found > 0 then redis.call('ZREMRANGEBYRANK', lane, 0, #found / 2 - 1) end
  return found
end

local function head(letter)
  if is_absent(letter) then return nil end
  local first = redis.call('ZRANGE', LANE_OF[letter], 0, 0, 'WITHSCORES')
  return first[2] and ring_of(first[2])
end

local stamp = redis.call('HGET', CLAIMS, req)
local lease_end, rescued = first_lease_end(), 0
local stamped = {}

if stamp then
  -- This request was made before, and its reply was lost. Return the tasks that the claim still holds, and take no
  -- others.
  local held, _, held_scores = held_members(stamp)
  keys, scores = held, held_scores
  stamp = tonumber(stamp)
  if #keys > 0 and not are_hints then
    for i, body in ipairs(redis.call('HMGET', POOL, unpack(keys))) do bodies[i] = body or '' end
  end
else
  if lease_end and tonumber(lease_end) <= now then
    rescued = rescue(RESCUES_PER_CLAIM, tonumber(ARGV[6]))
    lease_end = first_lease_end()
  end
  has_other_lanes = redis.call('EXISTS', HIGH, LOW, SUSPECTS) > 0
  stamp = math.max(now, (redis.call('HGET', META, 'stamp') or 0) + 1)
  local stamp_text = string.format('%.0f', stamp)
  local record, held = {}, {}
  for _, letter in ipairs(alone and { 's' } or { 'h', 'n', 'l' }) do
    local found = take(letter, (alone and math.min(1, limit) or limit) - #keys)
    if #found > 0 then
      record[#record + 1], record[#record + 2] = letter, found
      local n = #keys
      for i = 1, #found, 2 do
        n = n + 1
        local key, score = found[i], found[i + 1]
        keys[n], scores[n] = key, score
        if not is_record then
          -- In PREPARE, as in a lane, the last three digits of the score count failures.
          local failures = #score > 2 and string.sub(score, -3) or string.format('%03d', score)
          held[2 * n - 1], held[2 * n] = stamp_text .. failures, key
        end
      end
    end
  end
  if #keys > 0 then
    local members = cmsgpack.pack(record)
    if is_record then
      if not are_hints then format = '2' end
      redis.call('ZADD', RECORDS, now + lease_ms, stamp_text)
      redis.call('HSET', CLAIMS, req, stamp_text, stamp_text, req, 'm' .. stamp_text, members,
        'k' .. stamp_text, text_of_keys(keys))
    else
      redis.call('ZADD', PREPARE, unpack(held))
      redis.call('ZADD', LEASES, now + lease_ms, stamp_text)
      redis.call('HSET', CLAIMS, req, stamp_text, stamp_text, req, 'm' .. stamp_text, members)
    end
    if not lease_end or now + lease_ms < tonumber(lease_end) then lease_end = text_of(now + lease_ms) end
    stamped = { 'stamp', stamp_text, 'format', format }
  end
end

local tries = {}
if #keys > 0 and redis.call('EXISTS', TRIES) == 1 then tries = redis.call('HMGET', TRIES, unpack(keys)) end

local next_ring
for _, letter in ipairs({ 'h', 'n', 'l' }) do
  local ring = head(letter)
  if ring and (next_ring == nil or ring < next_ring) then next_ring = ring end
end
local next_suspect = head('s')
local poisoned = redis.call('HGET', CLAIMS, 'poisoned')
if poisoned then redis.call('HDEL', CLAIMS, 'poisoned') end

-- Wake other consumers if the rescue put back a task that rings before the stored fields `next` or `suspect`.
tell_rings()
-- Store the exact times of the next ring, the next suspect and the next lease end, which consumers poll. The old values
-- are too early if the first task was taken or cancelled.
local known, gone = stamped, {}
local function note(field, value)
  if value then known[#known + 1], known[#known + 2] = field, value else gone[#gone + 1] = field end
end
note('next', next_ring)
note('suspect', next_suspect)
note('lease', lease_end)
if #known > 0 then redis.call('HSET', META, unpack(known)) end
if #gone > 0 then redis.call('HDEL', META, unpack(gone)) end

return {
  now, stamp, next_ring or -1, next_suspect or -1, lease_end and math.max(0, lease_end - now) or -1,
  rescued, poisoned or '', #keys > 0 and '\n' .. table.concat(keys, '\n') or '', table.concat(scores, ' '),
  table.concat(bodies, BODY_END), tries,
}
