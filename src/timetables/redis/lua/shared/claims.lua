-- The held tasks. CLAIMS has three fields for each claim call: <request id> → stamp, <stamp> → request id, and 'm' ..
-- <stamp> → the tasks that the claim took (its members). The members are MessagePack: for each lane its letter, then a
-- flat list of keys and scores.

-- Calls visit(key, lane letter, score) for every task that a claim took, including tasks that it no longer holds.
local function each_member(stamp_text, visit)
  local packed = redis.call('HGET', CLAIMS, 'm' .. stamp_text)
  if not packed then return end
  local lanes = cmsgpack.unpack(packed)
  for at = 1, #lanes, 2 do
    local letter, found = lanes[at], lanes[at + 1]
    for i = 1, #found, 2 do visit(found[i], letter, found[i + 1]) end
  end
end

-- Returns two tables by key: the lane letter and the score that each task had when the claim took it. Contains only the
-- tasks in `wanted`, a set whose keys are the keys of tasks.
local function places_of(stamp_text, wanted)
  local letter_of, score_of = {}, {}
  each_member(stamp_text, function(key, letter, score)
    if wanted[key] then letter_of[key], score_of[key] = letter, tonumber(score) end
  end)
  return letter_of, score_of
end

-- Returns the stamps under which these keys are held; false for keys that are not held. A score in PREPARE is stamp *
-- 1000 + failures, so ring_of returns the stamp.
local function stamps_of(keys)
  local stamps = redis.call('ZMSCORE', PREPARE, unpack(keys))
  for i = 1, #keys do stamps[i] = stamps[i] and ring_of(stamps[i]) end
  return stamps
end

-- Deletes the record and the lease of each claim that holds no task any more. `stamps` is a set: its keys are the
-- stamps.
local function drop_if_empty(stamps)
  for stamp in pairs(stamps) do
    if redis.call('ZCOUNT', PREPARE, stamp * 1000, stamp * 1000 + FAILURES_MAX) == 0 then
      local name = text_of(stamp)
      local req = redis.call('HGET', CLAIMS, name)
      if req then redis.call('HDEL', CLAIMS, req, name, 'm' .. name) end
      redis.call('ZREM', LEASES, name)
    end
  end
end
