-- Included by every script of lua/board/. Contains the keys of the board (types and contents: keys.ts), the time, the
-- check of the format, and the notification of other processes.
local BEATS, CARDS, TOPICS, META, NEWS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local FORMAT = 1

-- Read the time once, so that all writes of a script have the same time.
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

-- Gives the board a new revision after a change of topics, and notifies the other processes. A revision contains a
-- counter and the time, because the counter repeats its values after a data loss.
local function revise()
  local count = tonumber(string.match(revision, '^%d+') or 0) + 1
  revision = string.format('%.0f-%s-%s', count, TIME[1], TIME[2])
  redis.call('HSET', META, 'format', FORMAT, 'revision', revision)
  tell()
end

-- A topic is stored as three lines: its version, the JSON of the part that was fixed at its creation, and the JSON of
-- the part that may change. Lua never decodes the JSON: cjson would encode an empty list as an empty object.
local function topic_text(version, fixed, state)
  return string.format('%.0f', version) .. '\n' .. fixed .. '\n' .. state
end
