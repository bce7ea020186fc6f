#!lua flags=allow-oom
-- Forgets hints, whether they wait or are in flight; holders are fenced. May be repeated.
--
-- KEYS     the cell's (shared/cell.lua)
-- ARGV     packed: keys
-- Returns  now
--@include cell claims hints

tell_fence('replaced', take_out(cmsgpack.unpack(ARGV[1])))
return { now }
