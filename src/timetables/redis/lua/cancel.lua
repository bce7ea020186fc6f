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
local letters, _, elsewhere = waiting(keys)
local ended, in_letters = keys, letters
if #elsewhere > 0 then
  ended, in_letters = {}, {}
  for i, key in ipairs(keys) do
    if letters[i] then ended[#ended + 1], in_letters[#in_letters + 1] = key, letters[i] end
  end
end
if #ended > 0 then
  if redis.call('EXISTS', TAGS, TRIES) > 0 then
    untag(ended)
    redis.call('HDEL', TRIES, unpack(ended))
  end
  leave_lanes(ended, in_letters)
  redis.call('HDEL', POOL, unpack(ended))
  count('cancelled', #ended)
end
tell_rings()
if #elsewhere == 0 then return { now, '' } end

local answers, left, fenced, marked = {}, {}, {}, {}
for i = 1, #keys do answers[i] = letters[i] and 'c' or 'n' end
for at, i in ipairs(elsewhere) do left[at] = keys[i] end
for at, stamp in ipairs(stamps_of(left)) do
  if stamp then
    answers[elsewhere[at]] = 'f'
    marked[#marked + 1] = left[at]
    fenced[#fenced + 1], fenced[#fenced + 2] = text_of(stamp), left[at]
  end
end
if #marked > 0 then redis.call('SADD', MARKS, unpack(marked)) end
tell_fence('cancelled', fenced)
return { now, table.concat(answers) }
