#!lua flags=no-writes
-- Reads the full state of some tasks.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        '1' to read dead tasks only | '0' to read the live task of each key, or the dead task if there is no live
--             one; then the keys
-- Reply       now, a list for each key: state letter ('p' pending, 'c' claimed, 'd' dead, '' none), score (of a dead
--             task: time of death in ms * 1000), stamp ('' if not claimed), body, tries ('' for none), cause of death
--             ('' if not dead)
-- Repeatable  yes: reads only
--@include cell claims lanes

local only_dead = table.remove(ARGV, 1) == '1'
local keys = ARGV
local bodies = redis.call('HMGET', POOL, unpack(keys))
local tries_of = redis.call('HMGET', TRIES, unpack(keys))
local graves = redis.call('HMGET', GRAVES, unpack(keys))
local letters, scores, stamps = {}, {}, {}
if not only_dead then
  local elsewhere
  letters, scores, elsewhere = waiting(keys)
  local left = {}
  for at, i in ipairs(elsewhere) do left[at] = keys[i] end
  if #left > 0 then
    for at, stamp in ipairs(stamps_of(left)) do stamps[elsewhere[at]] = stamp end
  end
end
local found = {}
for i, key in ipairs(keys) do
  local tries = tries_of[i] or ''
  if letters[i] then
    found[i] = { 'p', scores[i], '', bodies[i] or '', tries, '' }
  elseif stamps[i] then
    local stamp = text_of(stamps[i])
    local _, score_of = places_of(stamp, { [key] = true })
    found[i] = { 'c', text_of(score_of[key]), stamp, bodies[i] or '', tries, '' }
  elseif graves[i] then
    local cause, text, body = string.match(graves[i], '^([^\n]*)\n([^\n]*)\n(.*)$')
    found[i] = { 'd', redis.call('ZSCORE', DEAD, key) .. '000', '', body, text, cause }
  else
    found[i] = { '', '0', '', '', '', '' }
  end
end
return { now, found }
