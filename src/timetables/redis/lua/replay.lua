#!lua flags=allow-oom
-- Revives dead tasks: each task keeps its id, is due now and has no failures. Does not change a key that has a live
-- task. 'newest' does not revive a task that a newer task of its key superseded.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        'any' | 'newest', then the keys, not after (shared/not-after.lua)
-- Reply       now, a letter for each key: 'r' replayed, 'l' live, 's' superseded, 'n' not found
-- Repeatable  no: a second run answers 'l' or 'n', or revives a task that died again in between
--@include cell not-after tries lanes graves

local newest = table.remove(ARGV, 1) == 'newest'
local graves = redis.call('HMGET', GRAVES, unpack(ARGV))
local living = redis.call('HMGET', POOL, unpack(ARGV))
local answers, keys, bodies, tried, tags = {}, {}, {}, {}, {}
local added = { h = {}, n = {}, l = {} }
for i, key in ipairs(ARGV) do
  if not graves[i] then answers[i] = 'n'
  elseif living[i] then answers[i] = 'l'
  elseif newest and is_superseded(graves[i]) then answers[i] = 's'
  else
    answers[i] = 'r'
    local text, body = string.match(graves[i], '^[^\n]*\n([^\n]*)\n(.*)$')
    local tries = read_tries(text)
    tries.due, tries.failures, tries.lost, tries.error = now, 0, 0, ''
    keys[#keys + 1] = key
    bodies[#bodies + 1], bodies[#bodies + 2] = key, body
    tried[#tried + 1], tried[#tried + 2] = key, write_tries(tries)
    local lane = added[priority_of(body)]
    lane[#lane + 1], lane[#lane + 2] = text_of(now * 1000), key
    each_tag(body, function(tag) tags[#tags + 1], tags[#tags + 2] = 0, tag .. '\0' .. key end)
  end
end
if #keys > 0 then
  redis.call('HSET', POOL, unpack(bodies))
  redis.call('HSET', TRIES, unpack(tried))
  enter_lanes(added)
  call_in_pieces('ZADD', TAGS, tags)
  redis.call('ZREM', DEAD, unpack(keys))
  redis.call('HDEL', GRAVES, unpack(keys))
  ring_put('n', now)
  tell_rings()
end
return { now, table.concat(answers) }
