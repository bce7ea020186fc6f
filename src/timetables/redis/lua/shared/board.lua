-- What every script of lua/board/ knows: the board's keys, its clock, its format, and how to tell the others.
local BEATS, CARDS, TOPICS, META, NEWS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local FORMAT = 1

-- Once: two readings in one script differ, and a step must have one moment.
local TIME = redis.call('TIME')
local now = TIME[1] * 1000 + math.floor(TIME[2] / 1000)

local meta = redis.call('HMGET', META, 'format', 'revision')
if meta[1] and tonumber(meta[1]) > FORMAT then
  return redis.error_reply('TOCSINFORMAT ' .. meta[1])
end
local revision = meta[2] or ''

local function tell()
  redis.call('SPUBLISH', NEWS, '')
end

-- Topics are not what they were. Counted, and with the time in it: after a loss the same count comes again, for others.
local function revise()
  local count = tonumber(string.match(revision, '^%d+') or 0) + 1
  revision = string.format('%.0f-%s-%s', count, TIME[1], TIME[2])
  redis.call('HSET', META, 'format', FORMAT, 'revision', revision)
  tell()
end

-- A topic is three lines of text: its version, as JSON what was fixed at its creation, and as JSON what may change.
-- JSON is never taken apart here: an empty list would come out as an empty object.
local function topic_text(version, fixed, state)
  return string.format('%.0f', version) .. '\n' .. fixed .. '\n' .. state
end
