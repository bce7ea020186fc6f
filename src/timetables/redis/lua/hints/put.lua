#!lua
-- Puts hints into their lanes. 'set' replaces any hint of the key; if that hint is held, its lease holder is notified.
-- 'lower' puts a hint only if the key has no hint, or a hint that waits for a later time.
-- No allow-oom: a full Redis rejects the script. The ledger still has the tasks.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        'set' | 'lower', a lane letter for each hint (a single 'n' if all are normal), MessagePack of two lists:
--             the keys; the scores as text
-- Reply       now, '' if all hints were put, else a letter for each hint: '1' put, '0' not put
-- Repeatable  yes: a second run may replace a hint that was put in between. If the hint then rings too early, the
--             ledger refuses the claim. If it rings too late, the sweeper (store/sweeper.ts) corrects it.
--@include cell tries claims lanes hints

local letters = ARGV[2]
local all_normal = letters == 'n'
local keys, scores = cmsgpack.unpack(ARGV[3])

-- Returns the lane letters and scores of the keys, and the positions of missing keys, as `waiting` in shared/lanes.lua
-- does. Uses fewer commands for a cell that has only the normal lane, as most cells do.
local function whereabouts()
  if redis.call('EXISTS', HIGH, LOW, SUSPECTS) > 0 then return waiting(keys) end
  local found, old_scores, missing = {}, redis.call('ZMSCORE', NORMAL, unpack(keys)), {}
  for i = 1, #keys do
    if old_scores[i] then found[i] = 'n' else missing[#missing + 1] = i end
  end
  return found, old_scores, missing
end

-- For 'lower': removes old hints that wait for a later time. Returns the positions of the hints to put.
local function lowered()
  local old_letters, old_scores, elsewhere = whereabouts()
  local entering, later, later_keys = {}, {}, {}
  for i, key in ipairs(keys) do
    if old_letters[i] and ring_of(old_scores[i]) > ring_of(scores[i]) then
      later[#later + 1], later_keys[#later_keys + 1] = i, key
    end
  end
  if #elsewhere > 0 then
    local left = {}
    for at, i in ipairs(elsewhere) do left[at] = keys[i] end
    for at, stamp in ipairs(stamps_of(left)) do
      -- Do not change a held hint. It is not lost: its lease holder settles it, or it waits again after its lease
      -- expires.
      if not stamp then entering[#entering + 1] = elsewhere[at] end
    end
  end
  if #later > 0 then
    local tries_of = redis.call('HMGET', TRIES, unpack(later_keys))
    local moved, from = {}, {}
    for at, i in ipairs(later) do
      -- A hint with tries waits for a later time than its due time, because it lost a lease. Compare the due time:
      -- loading the same hint again from the ledger must not undo the delay.
      if not tries_of[at] or read_tries(tries_of[at]).due > ring_of(scores[i]) then
        entering[#entering + 1] = i
        moved[#moved + 1], from[#from + 1] = keys[i], old_letters[i]
      end
    end
    if #moved > 0 then
      leave_lanes(moved, from)
      redis.call('HDEL', TRIES, unpack(moved))
    end
  end
  return entering
end

local added = { h = {}, n = {}, l = {}, s = {} }
local function enter(i)
  local letter = all_normal and 'n' or string.sub(letters, i, i)
  local lane = added[letter]
  local size = #lane
  lane[size + 1], lane[size + 2] = scores[i], keys[i]
  ring_put(letter, ring_of(scores[i]))
end

local fenced, answers = {}, nil
if ARGV[1] == 'set' then
  fenced = take_out(keys, all_normal)
  for i = 1, #keys do enter(i) end
else
  local entering = lowered()
  for _, i in ipairs(entering) do enter(i) end
  if #entering < #keys then
    answers = {}
    for i = 1, #keys do answers[i] = '0' end
    for _, i in ipairs(entering) do answers[i] = '1' end
  end
end
enter_lanes(added)
tell_rings()
tell_fence('replaced', fenced)
return { now, answers and table.concat(answers) or '' }
