-- What is remembered of earlier claims of a task, in TRIES, once there was one that did not end it:
-- 'due|first stamp|failures|deliveries|lost|started stamp|updated|error'.
local function read_tries(text, due, stamp)
  if not text then
    return { due = due, first = stamp, failures = 0, deliveries = 0, lost = 0, started = 0, updated = now, error = '' }
  end
  local d, f, n, c, l, s, u, e = string.match(text, '^(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(.*)$')
  return {
    due = tonumber(d), first = tonumber(f), failures = tonumber(n), deliveries = tonumber(c),
    lost = tonumber(l), started = tonumber(s), updated = tonumber(u), error = e,
  }
end

-- `updated`: now, unless nothing happened that anybody would call a change.
local function write_tries(tries, updated)
  return string.format('%.0f|%.0f|%d|%d|%d|%.0f|%.0f|%s', tries.due, tries.first, tries.failures,
    tries.deliveries, tries.lost, tries.started, updated or now, tries.error)
end

local function score_at(ring, tries)
  return ring * 1000 + math.min(tries.failures, FAILURES_MAX)
end
