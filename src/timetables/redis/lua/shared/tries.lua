-- The tries of a task: a record of its earlier claims. TRIES has a field for a live task that was retried, snoozed or
-- replayed, or that lost a lease:
-- 'due|first stamp|failures|deliveries|lost leases in a row|started stamp|updated|error' (times in ms).
--
-- Parses a field of TRIES. If the task has no field (`text` is false), returns the tries of a task in its first claim,
-- with the due time `due` and the first stamp `stamp`.
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

-- Formats the tries as a field of TRIES. `updated` is the current time by default. A caller whose change is not visible
-- to users passes the old time.
local function write_tries(tries, updated)
  return string.format('%.0f|%.0f|%d|%d|%d|%.0f|%.0f|%s', tries.due, tries.first, tries.failures,
    tries.deliveries, tries.lost, tries.started, updated or now, tries.error)
end

local function score_at(ring, tries)
  return ring * 1000 + math.min(tries.failures, FAILURES_MAX)
end
