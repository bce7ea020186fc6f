#!lua flags=allow-oom
-- Removes hints, whether they wait or are held, and fences the holders.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        MessagePack of keys
-- Reply       now
-- Repeatable  yes: the ledger decides what rings
--@include cell claims hints

tell_fence('replaced', take_out(cmsgpack.unpack(ARGV[1])))
return { now }
