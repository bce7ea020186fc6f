#!lua flags=allow-oom
-- Ends held tasks as done or obsolete: the way of nearly every task, so it takes the fewest commands.
-- May be repeated: a second time the tasks are not held, and nothing changes.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     n, how many of them are done (the others are obsolete), n keys, n stamps
-- Returns  now, '' when all were held, else a row of '1' settled and '0' stale
--@include cell claims

local n, done_max = tonumber(ARGV[1]), tonumber(ARGV[2])
local scores = redis.call('ZMSCORE', PREPARE, unpack(ARGV, 3, 2 + n))
local held, stamps, answers, done = {}, {}, {}, 0
local last_text, stamp
for i = 1, n do
  if ARGV[2 + n + i] ~= last_text then
    last_text = ARGV[2 + n + i]
    stamp = tonumber(last_text)
    stamps[stamp] = true
  end
  if scores[i] and ring_of(scores[i]) == stamp then
    held[#held + 1] = ARGV[2 + i]
    answers[i] = '1'
    if i <= done_max then done = done + 1 end
  else
    answers[i] = '0'
  end
end
if #held > 0 then
  -- Topics without tags, retries and cancelled claims skip all three.
  if redis.call('EXISTS', TAGS, TRIES, MARKS) > 0 then
    untag(held)
    redis.call('HDEL', TRIES, unpack(held))
    redis.call('SREM', MARKS, unpack(held))
  end
  redis.call('ZREM', PREPARE, unpack(held))
  redis.call('HDEL', POOL, unpack(held))
  drop_if_empty(stamps)
  count('done', done)
  count('obsolete', #held - done)
end
return { now, #held == n and '' or table.concat(answers) }
