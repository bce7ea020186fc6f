-- The prepare queue. CLAIMS has three fields for each claim call: <req> → stamp, <stamp> → req, and
-- 'm' .. <stamp> → its members, as lines '\n<key>\t<lane letter><score>' that end with '\n'. A key has no control
-- characters, so that a plain search finds it and nothing else.
local function members_of(stamp)
  return redis.call('HGET', CLAIMS, string.format('m%.0f', stamp))
end

-- The lane letter and the score that a member had when it was claimed.
local function place_of(members, key)
  local _, at = string.find(members, '\n' .. key .. '\t', 1, true)
  return string.sub(members, at + 1, at + 1), tonumber(string.match(members, '^%d+', at + 2))
end

-- The stamps under which these keys are held, false where they are not.
local function stamps_of(keys)
  local stamps = redis.call('ZMSCORE', PREPARE, unpack(keys))
  for i = 1, #keys do stamps[i] = stamps[i] and ring_of(stamps[i]) end
  return stamps
end

-- With its last member a claim is gone. `stamps` is a set.
local function drop_if_empty(stamps)
  for stamp in pairs(stamps) do
    if redis.call('ZCOUNT', PREPARE, stamp * 1000, stamp * 1000 + FAILURES_MAX) == 0 then
      local name = string.format('%.0f', stamp)
      local req = redis.call('HGET', CLAIMS, name)
      if req then redis.call('HDEL', CLAIMS, req, name, 'm' .. name) end
      redis.call('ZREM', LEASES, name)
    end
  end
end
