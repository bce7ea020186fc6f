-- Hints: the keys and ring times of a ledger's tasks. Hints are in the lanes and in claims, like tasks. They have no
-- bodies: the ledger has the bodies.

-- Removes hints from the lanes, with their tries (shared/tries.lua) and their marks as cancelled. If `are_put` is true,
-- the caller puts all of them into the normal lane next, which replaces what that lane has of them.
local function leave(keys, are_put)
  if #keys == 0 then return end
  if not are_put then redis.call('ZREM', NORMAL, unpack(keys)) end
  -- Most cells have none of these Redis keys and skip the commands.
  if redis.call('EXISTS', HIGH, LOW, SUSPECTS, TRIES, MARKS) > 0 then
    for _, lane in ipairs({ HIGH, LOW, SUSPECTS }) do redis.call('ZREM', lane, unpack(keys)) end
    redis.call('HDEL', TRIES, unpack(keys))
    redis.call('SREM', MARKS, unpack(keys))
  end
end

-- Removes waiting and held hints. Returns a flat list of the stamps and keys of the held hints, for tell_fence, which
-- notifies the lease holders. `are_put` as in `leave`.
local function take_out(keys, are_put)
  local held, names, fenced = {}, {}, {}
  for i, stamp in ipairs(stamps_of(keys)) do
    if stamp then
      held[#held + 1] = keys[i]
      names[#names + 1] = text_of(stamp)
      fenced[#fenced + 1], fenced[#fenced + 2] = text_of(stamp), keys[i]
    end
  end
  leave(keys, are_put)
  if #held > 0 then take_from_claims(held, names) end
  return fenced
end
