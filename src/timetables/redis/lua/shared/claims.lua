-- The held tasks. CLAIMS has three fields for each claim call: <request id> → stamp, <stamp> → request id, and 'm' ..
-- <stamp> → the tasks that the claim took (its members). The members are MessagePack: for each lane its letter, then a
-- flat list of keys and scores. Which of its members a claim still holds is stored in one of two shapes:
--
--   record  CLAIMS has the field 'k' .. <stamp>: a line end, then each held key and a line end. (Keys have no control
--           characters.) RECORDS has the end of the lease.
--   tasks   Each held key is in PREPARE, with the stamp. LEASES has the end of the lease. This is the shape of format
--           1 of a cell, which an older version of Tocsin can read.
--
-- A claim is a record if the cell has format 2, or if the cell has hints (claim.lua). All scripts read both shapes.
local RECORDS_PER_READ = 1000
-- Up to this many keys are searched in the text of a record. For more, the text is split once.
local FEW_KEYS = 8

-- Calls visit(key, lane letter, score) for every task that a claim took, including tasks that it no longer holds.
local function each_member(stamp_text, visit)
  local packed = redis.call('HGET', CLAIMS, 'm' .. stamp_text)
  if not packed then return end
  local lanes = cmsgpack.unpack(packed)
  for at = 1, #lanes, 2 do
    local letter, found = lanes[at], lanes[at + 1]
    for i = 1, #found, 2 do visit(found[i], letter, found[i + 1]) end
  end
end

-- Returns two tables by key: the lane letter and the score that each task had when the claim took it. Contains only the
-- tasks in `wanted`, a set whose keys are the keys of tasks.
local function places_of(stamp_text, wanted)
  local letter_of, score_of = {}, {}
  each_member(stamp_text, function(key, letter, score)
    if wanted[key] then letter_of[key], score_of[key] = letter, tonumber(score) end
  end)
  return letter_of, score_of
end

-- The text of the field 'k' of a record that holds these keys.
local function text_of_keys(keys)
  return '\n' .. table.concat(keys, '\n') .. '\n'
end

local function each_key(text)
  return string.gmatch(text, '[^\n]+')
end

-- Calls visit(stamp as text, text of the held keys) for every record of the cell.
local function each_record(visit)
  local names = redis.call('ZRANGE', RECORDS, 0, -1)
  for first = 1, #names, RECORDS_PER_READ do
    local fields = {}
    for i = first, math.min(first + RECORDS_PER_READ - 1, #names) do fields[#fields + 1] = 'k' .. names[i] end
    for i, text in ipairs(redis.call('HMGET', CLAIMS, unpack(fields))) do
      if text then visit(names[first + i - 1], text) end
    end
  end
end

-- Returns the stamps under which these keys are held; false for keys that are not held. Looks through all records of
-- the cell, so call it only for keys that no lane has. A score in PREPARE is stamp * 1000 + failures, so ring_of
-- returns the stamp.
local function stamps_of(keys)
  local stamps = redis.call('ZMSCORE', PREPARE, unpack(keys))
  for i = 1, #keys do stamps[i] = stamps[i] and ring_of(stamps[i]) end
  local wanted, found
  each_record(function(name, text)
    if #keys <= FEW_KEYS then
      for i, key in ipairs(keys) do
        if string.find(text, text_of_keys({ key }), 1, true) then stamps[i] = tonumber(name) end
      end
      return
    end
    if not wanted then
      wanted, found = {}, {}
      for _, key in ipairs(keys) do wanted[key] = true end
    end
    for key in each_key(text) do
      if wanted[key] then found[key] = tonumber(name) end
    end
  end)
  if found then
    for i, key in ipairs(keys) do stamps[i] = found[key] or stamps[i] end
  end
  return stamps
end

-- Returns the keys, lane letters and scores of the members that a claim still holds, in the order of the claim.
local function held_members(name)
  local keys, letters, scores = {}, {}, {}
  local function add(key, letter, score)
    keys[#keys + 1], letters[#letters + 1], scores[#scores + 1] = key, letter, score
  end
  local text = redis.call('HGET', CLAIMS, 'k' .. name)
  if text then
    local is_held = {}
    for key in each_key(text) do is_held[key] = true end
    each_member(name, function(key, letter, score)
      if is_held[key] then add(key, letter, score) end
    end)
    return keys, letters, scores
  end
  local members = {}
  each_member(name, function(key, letter, score) members[#members + 1] = { key, letter, score } end)
  for first = 1, #members, PIECE do
    local some = {}
    for i = first, math.min(first + PIECE - 1, #members) do some[#some + 1] = members[i][1] end
    for i, score in ipairs(redis.call('ZMSCORE', PREPARE, unpack(some))) do
      if score and ring_of(score) == tonumber(name) then add(unpack(members[first + i - 1])) end
    end
  end
  return keys, letters, scores
end

-- Groups keys by the claims that they are said to be held by: `names` has the stamp of each key, as text. A group has
-- the name of its claim, its keys, and their positions.
local function groups_of(keys, names)
  local groups, group_of = {}, {}
  for i, key in ipairs(keys) do
    local group = group_of[names[i]]
    if not group then
      group = { name = names[i], keys = {}, at = {} }
      groups[#groups + 1], group_of[names[i]] = group, group
    end
    group.keys[#group.keys + 1], group.at[#group.at + 1] = key, i
  end
  return groups
end

-- Finds out which keys of a group a record holds: `group.held` is a list of booleans, or nil if it holds them all.
-- `group.rest` is the text of the record without them, or nil if it holds none of them.
local function check_record(group, text)
  group.is_record = true
  -- Most often the keys are next to each other in the record: all of it, a single key, or the first ones.
  local first, last = string.find(text, text_of_keys(group.keys), 1, true)
  if first then
    group.rest = string.sub(text, 1, first - 1) .. string.sub(text, last)
    return
  end
  group.held = {}
  if #group.keys <= FEW_KEYS then
    for i, key in ipairs(group.keys) do
      first, last = string.find(text, text_of_keys({ key }), 1, true)
      group.held[i] = first ~= nil
      if first then
        text = string.sub(text, 1, first - 1) .. string.sub(text, last)
        group.rest = text
      end
    end
    return
  end
  local position, left = {}, {}
  for i, key in ipairs(group.keys) do position[key], group.held[i] = i, false end
  for key in each_key(text) do
    if position[key] then group.held[position[key]] = true else left[#left + 1] = key end
  end
  local rest = #left == 0 and '\n' or text_of_keys(left)
  if #rest < #text then group.rest = rest end
end

-- Finds out which keys of the groups their claims hold. Changes nothing. The number of commands does not depend on the
-- number of groups.
local function check_held(groups)
  local fields = {}
  for i, group in ipairs(groups) do fields[i] = 'k' .. group.name end
  local texts = redis.call('HMGET', CLAIMS, unpack(fields))
  local tasks = {}
  for i, group in ipairs(groups) do
    if texts[i] then
      check_record(group, texts[i])
    else
      for _, key in ipairs(group.keys) do tasks[#tasks + 1] = key end
    end
  end
  if #tasks == 0 then return end
  local scores, read = redis.call('ZMSCORE', PREPARE, unpack(tasks)), 0
  for _, group in ipairs(groups) do
    if not group.is_record then
      local held, are_all_held = {}, true
      for i = 1, #group.keys do
        local score = scores[read + i]
        held[i] = score and ring_of(score) == tonumber(group.name)
        are_all_held = are_all_held and held[i]
      end
      if not are_all_held then group.held = held end
      read = read + #group.keys
    end
  end
end

-- Returns for each of `n` keys, by position, whether its claim holds it; nil if all are held.
local function held_flags(groups, n)
  local flags
  for _, group in ipairs(groups) do
    if group.held then
      if not flags then
        flags = {}
        for i = 1, n do flags[i] = true end
      end
      for i, is_held in ipairs(group.held) do flags[group.at and group.at[i] or i] = is_held end
    end
  end
  return flags
end

-- Deletes claims, and their leases in LEASES or RECORDS.
local function drop_claims(names, leases)
  if #names == 0 then return end
  local fields = redis.call('HMGET', CLAIMS, unpack(names))
  for i, name in ipairs(names) do
    fields[i] = fields[i] or name
    fields[#fields + 1], fields[#fields + 2], fields[#fields + 3] = name, 'm' .. name, 'k' .. name
  end
  redis.call('HDEL', CLAIMS, unpack(fields))
  redis.call('ZREM', leases, unpack(names))
end

-- Deletes those of the claims in PREPARE that hold no task any more.
local function drop_if_empty(names)
  local empty = {}
  for _, name in ipairs(names) do
    if redis.call('ZCOUNT', PREPARE, name * 1000, name * 1000 + FAILURES_MAX) == 0 then empty[#empty + 1] = name end
  end
  drop_claims(empty, LEASES)
end

-- Takes the held keys of checked groups out of their claims, and deletes each claim that holds no task any more.
local function release(groups)
  local over, shrunk, tasks, touched = {}, {}, {}, {}
  for _, group in ipairs(groups) do
    if group.rest == '\n' then
      over[#over + 1] = group.name
    elseif group.rest then
      shrunk[#shrunk + 1], shrunk[#shrunk + 2] = 'k' .. group.name, group.rest
    elseif not group.is_record then
      for i, key in ipairs(group.keys) do
        if not group.held or group.held[i] then tasks[#tasks + 1] = key end
      end
      touched[#touched + 1] = group.name
    end
  end
  if #shrunk > 0 then redis.call('HSET', CLAIMS, unpack(shrunk)) end
  drop_claims(over, RECORDS)
  if #tasks > 0 then redis.call('ZREM', PREPARE, unpack(tasks)) end
  drop_if_empty(touched)
end

-- Takes keys out of the claims that hold them. `names` has the stamp of each key, as text.
local function take_from_claims(keys, names)
  local groups = groups_of(keys, names)
  check_held(groups)
  release(groups)
end

-- Returns the number of held tasks.
local function count_held()
  local held = redis.call('ZCARD', PREPARE)
  each_record(function(_, text)
    for _ in each_key(text) do held = held + 1 end
  end)
  return held
end

-- Returns the end of the first lease in ms, as text; nil if there is none.
local function first_lease_end()
  local of_tasks = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
  local of_records = redis.call('ZRANGE', RECORDS, 0, 0, 'WITHSCORES')[2]
  if not (of_tasks and of_records) then return of_tasks or of_records end
  return tonumber(of_tasks) < tonumber(of_records) and of_tasks or of_records
end
