#!lua flags=allow-oom
-- Puts a node's card up, in the place of the older one, and counts a beat. A full Redis must not look like dead nodes.
-- May be repeated.
--
-- KEYS     the board's (shared/board.lua)
-- ARGV     id, edition, card as JSON
-- Returns  now, revision, in turn: ids, and 'beats edition when' of each
--@include board

local id, edition = ARGV[1], ARGV[2]
local all = redis.call('HGETALL', BEATS)
local at
for i = 1, #all, 2 do
  if all[i] == id then at = i + 1 end
end

-- The first count is the time: who was buried and comes back is never taken for who it was then.
local beats, former_edition = now, nil
if at then
  local former
  former, former_edition = string.match(all[at], '^(%S+) (%S+)')
  beats = former + 1
else
  at = #all + 2
  all[at - 1] = id
end
all[at] = string.format('%.0f %s %.0f', beats, edition, now)
redis.call('HSET', BEATS, id, all[at])
redis.call('HSET', CARDS, id, ARGV[3])
if former_edition ~= edition then tell() end
return { now, revision, all }
