-- The rescue puts tasks back into the lanes after the lease of their claim has expired. Lost leases are counted
-- separately from failures. A rescued task rings after a random part of SPREAD_MS. SPREAD_MS is doubled for each lease
-- that the task lost in a row, at most DOUBLINGS_MAX times.
local SPREAD_MS = 1000
local DOUBLINGS_MAX = 4
local LOSSES_OF_A_SUSPECT = 2
-- The delay advances by the golden ratio from task to task, from a random start. So the tasks of one lost claim come
-- back far apart, and a task that crashes its process does not run beside the same tasks again.
local GOLDEN = 0.6180339887498949
local spread

-- Rescues at most `claims_max` expired claims. Returns how many tasks wait again. `seed` is the random start of the
-- delays.
local function rescue(claims_max, seed)
  local rescued = 0
  local expired = redis.call('ZRANGE', RECORDS, '-inf', now, 'BYSCORE', 'LIMIT', 0, claims_max)
  local records = #expired
  if records < claims_max then
    local others = redis.call('ZRANGE', LEASES, '-inf', now, 'BYSCORE', 'LIMIT', 0, claims_max - records)
    for i, name in ipairs(others) do expired[records + i] = name end
  end
  for at, name in ipairs(expired) do
    local stamp = tonumber(name)
    local held, letters, scores = held_members(name)
    if #held == 0 and at > records then
      -- The claim's members are missing. No script deletes the members of a claim that holds tasks, so something else
      -- did. Find the tasks in PREPARE.
      held = redis.call('ZRANGE', PREPARE, stamp * 1000, stamp * 1000 + FAILURES_MAX, 'BYSCORE', 'LIMIT', 0, 1000)
      for i = 1, #held do letters[i], scores[i] = 'n', now * 1000 end
    end
    if #held > 0 then
      local tries_of = redis.call('HMGET', TRIES, unpack(held))
      local bodies = redis.call('HMGET', POOL, unpack(held))
      local marked = redis.call('SMISMEMBER', MARKS, unpack(held))
      local cancelled, deaths, tried, poisoned = {}, {}, {}, {}
      local added = { h = {}, n = {}, l = {}, s = {} }
      for i, key in ipairs(held) do
        local tries = read_tries(tries_of[i], ring_of(scores[i]), stamp)
        spread = spread and (spread + GOLDEN) % 1 or seed
        tries.lost = tries.lost + 1
        tries.deliveries = tries.deliveries + 1
        if marked[i] == 1 then
          cancelled[#cancelled + 1] = key
        elseif letters[i] == 's' and tries.started == stamp then
          -- The suspect is poison, because begin.lua recorded that its handler was started under this claim.
          tries.error = 'its lease ran out ' .. tries.lost .. ' times in a row, the last time running alone'
          deaths[#deaths + 1] = { key = key, tries = tries, cause = 'poison' }
          poisoned[#poisoned + 1] = key
        else
          local ring = now + math.ceil(spread * SPREAD_MS * 2 ^ math.min(tries.lost, DOUBLINGS_MAX))
          local letter = tries.lost >= LOSSES_OF_A_SUSPECT and 's' or priority_of(bodies[i])
          -- A hint has no body, so priority_of returned 'n' whatever the priority of the task. Put the hint back into
          -- the lane from which it was claimed. Exception: a hint from the suspects' lane whose lost leases do not make
          -- it a suspect goes to the normal lane. If the task is a suspect in the ledger, the ledger refuses the claim.
          if not bodies[i] and letter == 'n' and letters[i] ~= 's' then letter = letters[i] end
          local lane = added[letter]
          lane[#lane + 1], lane[#lane + 2] = text_of(score_at(ring, tries)), key
          tried[#tried + 1], tried[#tried + 2] = key, write_tries(tries)
          ring_put(letter, ring)
          rescued = rescued + 1
        end
      end
      if #tried > 0 then redis.call('HSET', TRIES, unpack(tried)) end
      enter_lanes(added)
      forget(cancelled)
      count('cancelled', #cancelled)
      bury(deaths)
      if #poisoned > 0 then
        -- Store the poisoned keys for the next reply of claim.lua, which reports them.
        local told = redis.call('HGET', CLAIMS, 'poisoned')
        if told then table.insert(poisoned, 1, told) end
        redis.call('HSET', CLAIMS, 'poisoned', table.concat(poisoned, '\n'))
      end
    end
    if at <= records then
      drop_claims({ name }, RECORDS)
    else
      if #held > 0 then redis.call('ZREM', PREPARE, unpack(held)) end
      drop_if_empty({ name })
    end
  end
  return rescued
end

-- Rescues all expired claims. cancel.lua and reschedule.lua call this first, because a task whose lease has expired
-- counts as waiting.
local function rescue_all(seed)
  while redis.call('ZCOUNT', LEASES, '-inf', now) + redis.call('ZCOUNT', RECORDS, '-inf', now) > 0 do rescue(16, seed) end
end
