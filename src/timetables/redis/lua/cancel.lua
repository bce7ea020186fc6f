#!lua flags=allow-oom
-- Ends tasks that wait; marks those in flight, so that this attempt is their last. NOT to be repeated when its reply
-- was lost: in between, somebody may have scheduled the key again.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     seed of the spread of rescued tasks, packed: keys
-- Returns  now, '' when all were cancelled, else a row of 'c' cancelled, 'f' in flight, 'n' not found
--@include cell tries claims lanes bury rescue

local keys = cmsgpack.unpack(ARGV[2])
-- A task under an expired lease is nobody's: back with it first, then the answer.
rescue_all(tonumber(ARGV[1]))

-- Most cancels name tasks that wait in the normal lane, and one ZREM ends and counts them. Where it took fewer, the
-- pool has all that were live: what is in no other lane and not held was among those it took.
local ended, stamps = keys, nil
if redis.call('ZREM', NORMAL, unpack(keys)) < #keys then
  ended, stamps = {}, stamps_of(keys)
  local bodies, letters = redis.call('HMGET', POOL, unpack(keys)), waiting(keys)
  local left, left_letters = {}, {}
  for i, key in ipairs(keys) do
    if bodies[i] and not stamps[i] then
      ended[#ended + 1] = key
      if letters[i] then left[#left + 1], left_letters[#left_letters + 1] = key, letters[i] end
    end
  end
  leave_lanes(left, left_letters)
end
if #ended > 0 then
  if redis.call('EXISTS', TAGS, TRIES) > 0 then
    untag(ended)
    redis.call('HDEL', TRIES, unpack(ended))
  end
  redis.call('HDEL', POOL, unpack(ended))
  count('cancelled', #ended)
end
tell_rings()
if #ended == #keys then return { now, '' } end

local answers, fenced, marked, over = {}, {}, {}, {}
for _, key in ipairs(ended) do over[key] = true end
for i, key in ipairs(keys) do
  local stamp = stamps[i]
  answers[i] = over[key] and 'c' or stamp and 'f' or 'n'
  if stamp then
    marked[#marked + 1] = key
    fenced[#fenced + 1], fenced[#fenced + 2] = text_of(stamp), key
  end
end
if #marked > 0 then redis.call('SADD', MARKS, unpack(marked)) end
tell_fence('cancelled', fenced)
return { now, table.concat(answers) }
