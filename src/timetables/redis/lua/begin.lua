#!lua flags=allow-oom
-- Records that the handler of a suspect is about to start. If the lease expires after this record, the task is poison
-- and becomes dead. If it expires without this record, the task only waits again.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        key, stamp
-- Reply       now, 1 recorded | 0 the task is no longer held under this stamp
-- Repeatable  yes
--@include cell tries claims

local key, stamp = ARGV[1], tonumber(ARGV[2])
local group = { name = ARGV[2], keys = { key } }
check_held({ group })
if held_flags({ group }, 1) then return { now, 0 } end
local _, score_of = places_of(ARGV[2], { [key] = true })
local tries = read_tries(redis.call('HGET', TRIES, key), ring_of(score_of[key]), stamp)
tries.started = stamp
redis.call('HSET', TRIES, key, write_tries(tries))
return { now, 1 }
