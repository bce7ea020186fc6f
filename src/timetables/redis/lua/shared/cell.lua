-- Included by every script that works on a cell. Contains the keys of the cell (types and contents: keys.ts), the time,
-- the check of the format, and the notification of consumers when the next ring becomes earlier.
local HIGH, NORMAL, LOW, SUSPECTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local CLAIMS, RECORDS, PREPARE, LEASES = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local POOL, TRIES, TAGS, MARKS = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local DEAD, GRAVES, META, CHANNEL = KEYS[13], KEYS[14], KEYS[15], KEYS[16]

-- The highest format of a cell that these scripts can read. A cell begins with format 1. In format 2, claims are records
-- (shared/claims.lua), which older scripts would not see.
local FORMAT_MAX = 2
local LAST_INSTANT_MS = 9007199254739
local FAILURES_MAX = 999

local LANE_OF = { h = HIGH, n = NORMAL, l = LOW, s = SUSPECTS }

-- Read the time once, so that all writes of a script have the same time.
local TIME = redis.call('TIME')
local now = TIME[1] * 1000 + math.floor(TIME[2] / 1000)

-- The field `next` of META is never later than the first ring of the lanes. `suspect` is never later than the first
-- ring of the suspects. A script that adds an earlier ring lowers the field and wakes the consumers. There are two
-- fields because a suspect may wait long after its ring time. In a shared field, that old time would be earlier than
-- any new ring, and no new ring would wake the consumers.
local meta = redis.call('HMGET', META, 'format', 'next', 'suspect')
local format = meta[1] or '1'
if tonumber(format) > FORMAT_MAX then
  return redis.error_reply('TOCSINFORMAT ' .. format)
end

local function ring_of(score)
  return math.floor(score / 1000)
end

-- Returns the ring time in ms, rounded up to a multiple of `quantum` and limited to valid times. `when` is '+1000' (a
-- delay from now), '~-1000' (a shift of `was`, the present ring time), or an instant as a number or as text.
local function ring_at(when, quantum, was)
  local mark = type(when) == 'string' and string.byte(when)
  local wanted
  if mark == 43 then wanted = now + string.sub(when, 2)
  elseif mark == 126 then wanted = was + string.sub(when, 2)
  else wanted = tonumber(when) end
  if quantum > 0 then wanted = math.ceil(wanted / quantum) * quantum end
  return math.min(math.max(wanted, 0), LAST_INSTANT_MS)
end

-- Formats a score, which Redis takes as text. Formatting is slow, so the last result is cached: most tasks of a batch
-- have the same score.
local text_of_last, last_number
local function text_of(number)
  if number ~= last_number then
    last_number, text_of_last = number, string.format('%.0f', number)
  end
  return text_of_last
end

local function count(counter, n)
  if n > 0 then redis.call('HINCRBY', META, counter, n) end
end

-- The earliest ring that this script added to the lanes, and the earliest ring that it added to the suspects.
local put_ring, put_suspect

local function ring_put(letter, ring)
  if letter == 's' then
    if put_suspect == nil or ring < put_suspect then put_suspect = ring end
  elseif put_ring == nil or ring < put_ring then
    put_ring = ring
  end
end

-- Wakes the consumers if this script added a ring before `next` or `suspect`. Call it after all rings were added.
local function tell_rings()
  local sooner
  if put_ring and not (meta[2] and put_ring >= tonumber(meta[2])) then
    redis.call('HSET', META, 'next', put_ring, 'format', format)
    sooner = put_ring
  end
  if put_suspect and not (meta[3] and put_suspect >= tonumber(meta[3])) then
    redis.call('HSET', META, 'suspect', put_suspect, 'format', format)
    sooner = math.min(sooner or put_suspect, put_suspect)
  end
  if sooner then redis.call('SPUBLISH', CHANNEL, string.format('wake %.0f %.0f', sooner, now)) end
end

-- Notifies lease holders that their tasks were cancelled or replaced (`cause`). `fenced` is a flat list of stamps and
-- keys.
local function tell_fence(cause, fenced)
  if #fenced > 0 then redis.call('SPUBLISH', CHANNEL, 'fence ' .. cause .. '\n' .. table.concat(fenced, '\n')) end
end

-- A body (body.ts) is the creation time in 7 characters, then JSON. If the task has tags, or a priority other than
-- normal, a line '#<h|n|l>\t<tag>\t<tag>' precedes the JSON. JSON never starts with '#'.
local function has_header(body)
  return body and string.byte(body, 8) == 35
end

local function priority_of(body)
  return has_header(body) and string.sub(body, 9, 9) or 'n'
end

local function each_tag(body, visit)
  if not has_header(body) then return end
  local line = string.sub(body, 10, string.find(body, '\n', 10, true) - 1)
  for tag in string.gmatch(line, '\t([^\t]*)') do visit(tag) end
end

-- Calls a command with a list of values, in pieces: one unpack is limited to some 8,000 values, and the tags of 1,000
-- tasks may be more.
local PIECE = 4000
local function call_in_pieces(command, key, values)
  for first = 1, #values, PIECE do
    redis.call(command, key, unpack(values, first, math.min(first + PIECE - 1, #values)))
  end
end

-- Removes the tags of these tasks. The tags are read from the bodies, so call this before the bodies are deleted.
local function untag(keys)
  if #keys == 0 or redis.call('EXISTS', TAGS) == 0 then return end
  local gone = {}
  for i, body in ipairs(redis.call('HMGET', POOL, unpack(keys))) do
    each_tag(body, function(tag) gone[#gone + 1] = tag .. '\0' .. keys[i] end)
  end
  call_in_pieces('ZREM', TAGS, gone)
end

-- Deletes the body, the tags, the tries (shared/tries.lua) and the mark as cancelled of tasks that ended or died. The
-- caller removes the tasks from the lanes and from their claims.
local function forget(keys)
  if #keys == 0 then return end
  untag(keys)
  redis.call('HDEL', POOL, unpack(keys))
  redis.call('HDEL', TRIES, unpack(keys))
  redis.call('SREM', MARKS, unpack(keys))
end
