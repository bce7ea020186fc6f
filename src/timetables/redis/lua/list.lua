#!lua flags=no-writes
-- Lists tasks of a cell. From each lane, or from the dead tasks, lists at most `limit` tasks after a position, in order
-- of score, then key. Lists all held tasks if requested.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        '1' to list waiting tasks, '1' to list held tasks, '1' to list dead tasks instead, limit, score to start
--             at, key to start after at that score ('' for none)
-- Reply       now, flat list of keys and scores, score and key of the position up to which the list is complete (both
--             '' if it is complete to the end)
-- Repeatable  yes: reads only
--@include cell claims bytes

local CHUNK = 1000
local limit, from_score, from_key = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local found = {}
-- The position up to which the list is complete: the first such position of all lanes. A lane that may have more tasks
-- is complete up to its last listed task, any other lane to its end.
local end_score, end_key = nil, ''

local function page(lane, from)
  -- If `from_key` still has the score `from`, start after its rank instead of reading all keys of that score.
  local rank = from_key ~= '' and redis.call('ZSCORE', lane, from_key)
  if rank and tonumber(rank) == from then
    local first = redis.call('ZRANK', lane, from_key) + 1
    return redis.call('ZRANGE', lane, first, first + limit - 1, 'WITHSCORES')
  end
  local taken, offset = {}, 0
  while #taken < 2 * limit do
    local some = redis.call('ZRANGE', lane, from, '+inf', 'BYSCORE', 'LIMIT', offset, CHUNK, 'WITHSCORES')
    for i = 1, #some, 2 do
      local passed = from_key ~= '' and tonumber(some[i + 1]) == from and not is_before(from_key, some[i])
      if not passed and #taken < 2 * limit then taken[#taken + 1], taken[#taken + 2] = some[i], some[i + 1] end
    end
    if #some < 2 * CHUNK then break end
    offset = offset + CHUNK
  end
  return taken
end

local function add(lane, from, scale)
  local some = page(lane, from)
  for i = 1, #some, 2 do found[#found + 1], found[#found + 2] = some[i], some[i + 1] .. scale end
  if #some == 2 * limit then
    local key, score = found[#found - 1], tonumber(found[#found])
    if end_score == nil or score < end_score or (score == end_score and is_before(key, end_key)) then
      end_score, end_key = score, key
    end
  end
end

if ARGV[3] == '1' then
  -- Scores in DEAD are times in ms, without failures.
  add(DEAD, ring_of(from_score), '000')
else
  if ARGV[1] == '1' then
    for _, lane in ipairs({ HIGH, NORMAL, LOW, SUSPECTS }) do add(lane, from_score, '') end
  end
  if ARGV[2] == '1' then
    local held = redis.call('ZRANGE', PREPARE, 0, -1, 'WITHSCORES')
    local stamp_of, stamps = {}, {}
    for i = 1, #held, 2 do
      local stamp = text_of(ring_of(held[i + 1]))
      stamp_of[held[i]] = stamp
      stamps[stamp] = true
    end
    each_record(function(name, text)
      stamps[name] = true
      for key in each_key(text) do stamp_of[key] = name end
    end)
    for stamp in pairs(stamps) do
      each_member(stamp, function(key, _, score)
        if stamp_of[key] == stamp then found[#found + 1], found[#found + 2] = key, score end
      end)
    end
  end
end
return { now, found, end_score and text_of(end_score) or '', end_key }
