-- Finds the lanes in which tasks wait. Returns the lane letter of each key (nil if the key is in no lane), the score of
-- each key (false if the key is in no lane), and a list of the positions of the keys that are in no lane.
local function waiting(keys)
  local letters, found = {}, redis.call('ZMSCORE', NORMAL, unpack(keys))
  local missing = {}
  for i = 1, #keys do
    if found[i] then letters[i] = 'n' else missing[#missing + 1] = i end
  end
  for _, letter in ipairs({ 'h', 'l', 's' }) do
    if #missing == 0 then break end
    local left, still = {}, {}
    for at, i in ipairs(missing) do left[at] = keys[i] end
    for at, score in ipairs(redis.call('ZMSCORE', LANE_OF[letter], unpack(left))) do
      local i = missing[at]
      if score then letters[i], found[i] = letter, score else still[#still + 1] = i end
    end
    missing = still
  end
  return letters, found, missing
end

-- Removes each key from the lane of its letter.
local function leave_lanes(keys, letters)
  local leaving = {}
  for i, key in ipairs(keys) do
    local gone = leaving[letters[i]]
    if gone then gone[#gone + 1] = key else leaving[letters[i]] = { key } end
  end
  for letter, gone in pairs(leaving) do redis.call('ZREM', LANE_OF[letter], unpack(gone)) end
end

-- Adds tasks to the lanes. `added` maps lane letters to flat lists of scores and keys.
local function enter_lanes(added)
  for letter, lane in pairs(added) do
    if #lane > 0 then redis.call('ZADD', LANE_OF[letter], unpack(lane)) end
  end
end
