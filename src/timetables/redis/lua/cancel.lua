#!lua flags=allow-oom
-- Ends tasks that wait; marks those in flight, so that this attempt is their last. NOT to be repeated when its reply
-- was lost: in between, somebody may have scheduled the key again.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     seed of the spread of rescued tasks, keys
-- Returns  now, '' when all were cancelled, else a row of 'c' cancelled, 'f' in flight, 'n' not found
--@include cell tries claims bury rescue lanes

local keys = {}
for i = 2, #ARGV do keys[i - 1] = ARGV[i] end
-- A task under an expired lease is nobody's: back with it first, then the answer.
local earliest = rescue_all(tonumber(ARGV[1]))
local letter_of, _, elsewhere = waiting(keys)
local ended = {}
for _, key in ipairs(keys) do if letter_of[key] then ended[#ended + 1] = key end end
if #ended > 0 then
  if redis.call('EXISTS', TAGS, TRIES) > 0 then
    untag(ended)
    redis.call('HDEL', TRIES, unpack(ended))
  end
  leave_lanes(ended, letter_of)
  redis.call('HDEL', POOL, unpack(ended))
  count('cancelled', #ended)
end
tell_ring(earliest)
if #elsewhere == 0 then return { now, '' } end

local stamps, in_flight, fenced = stamps_of(elsewhere), {}, {}
for i, key in ipairs(elsewhere) do
  if stamps[i] then
    in_flight[key] = true
    fenced[#fenced + 1], fenced[#fenced + 2] = string.format('%.0f', stamps[i]), key
    redis.call('SADD', MARKS, key)
  end
end
tell_fence('cancelled', fenced)
local answers = {}
for i, key in ipairs(keys) do answers[i] = letter_of[key] and 'c' or in_flight[key] and 'f' or 'n' end
return { now, table.concat(answers) }
