-- Where tasks wait. For each key the letter of its lane and its score there; false where it is in none.
local function waiting(keys)
  local letter_of, score_of, missing = {}, {}, keys
  for _, letter in ipairs({ 'n', 'h', 'l', 's' }) do
    if #missing == 0 then break end
    local scores = redis.call('ZMSCORE', LANE_OF[letter], unpack(missing))
    local still = {}
    for i, key in ipairs(missing) do
      if scores[i] then letter_of[key], score_of[key] = letter, tonumber(scores[i])
      else still[#still + 1] = key end
    end
    missing = still
  end
  return letter_of, score_of, missing
end

-- Out of the lanes they are in.
local function leave_lanes(keys, letter_of)
  local leaving = {}
  for _, key in ipairs(keys) do
    local letter = letter_of[key]
    leaving[letter] = leaving[letter] or {}
    table.insert(leaving[letter], key)
  end
  for letter, gone in pairs(leaving) do redis.call('ZREM', LANE_OF[letter], unpack(gone)) end
end
