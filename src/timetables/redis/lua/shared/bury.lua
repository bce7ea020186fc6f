-- The dead tasks of a cell. DEAD maps a key to its time of death in ms. GRAVES maps a key to three lines: cause of
-- death (marked once the key is scheduled again: shared/graves.lua), tries (shared/tries.lua), body. When a task dies,
-- dead tasks over the limit GRAVES_MAX or older than GRAVE_AGE_MAX_MS are deleted.
local GRAVES_MAX = 15625
local GRAVE_AGE_MAX_MS = 30 * 86400000

-- Moves tasks to the dead tasks. `deaths` is a list of { key, tries, cause }. The caller removes the tasks from the
-- lanes and from their claims. The bodies must still be in POOL.
local function bury(deaths)
  if #deaths == 0 then return end
  local keys, graves, died = {}, {}, {}
  for i, death in ipairs(deaths) do keys[i] = death.key end
  local bodies = redis.call('HMGET', POOL, unpack(keys))
  for i, death in ipairs(deaths) do
    graves[2 * i - 1], graves[2 * i] = death.key, death.cause .. '\n' .. write_tries(death.tries) .. '\n' .. (bodies[i] or '')
    died[2 * i - 1], died[2 * i] = now, death.key
  end
  forget(keys)
  -- A new grave replaces an older grave of the same key. The older grave counts as purged.
  local purged = #keys - redis.call('HSET', GRAVES, unpack(graves))
  redis.call('ZADD', DEAD, unpack(died))
  -- Purge dead tasks over the limits, oldest first, at most 1,000 per call.
  local excess = math.min(redis.call('ZCARD', DEAD) - GRAVES_MAX, 1000)
  local old = excess > 0 and redis.call('ZRANGE', DEAD, 0, excess - 1)
    or redis.call('ZRANGE', DEAD, '-inf', '(' .. text_of(now - GRAVE_AGE_MAX_MS), 'BYSCORE', 'LIMIT', 0, 1000)
  if #old > 0 then
    redis.call('ZREM', DEAD, unpack(old))
    purged = purged + redis.call('HDEL', GRAVES, unpack(old))
  end
  count('purged', purged)
end
