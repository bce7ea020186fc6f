#!lua flags=allow-oom
-- Stores a node's card and counts a beat. Notifies the other processes if the card has a new edition, that is, if the
-- node's topics, capacities or slots have changed.
-- allow-oom: a full Redis must not make live nodes look dead.
--
-- KEYS        board (shared/board.lua)
-- ARGV        node id, edition, card as JSON
-- Reply       now, revision, flat list of all node ids and '<beats> <edition> <ms of the last beat>'
-- Repeatable  yes: a second run counts one beat more, which does no harm
--@include board

local id, edition = ARGV[1], ARGV[2]
local all = redis.call('HGETALL', BEATS)
local at
for i = 1, #all, 2 do
  if all[i] == id then at = i + 1 end
end

-- The count starts at the current time in ms. So a node that was buried and comes back never repeats an earlier count.
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
