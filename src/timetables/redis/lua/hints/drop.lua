#!lua flags=allow-oom
-- Removes waiting and held hints, and notifies the lease holders.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        MessagePack of keys
-- Reply       now
-- Repeatable  yes: a second run may remove a hint that was put in between; when the task is overdue, the sweeper
--             (store/sweeper.ts) puts the hint back
--@include cell claims hints

tell_fence('replaced', take_out(cmsgpack.unpack(ARGV[1])))
return { now }
