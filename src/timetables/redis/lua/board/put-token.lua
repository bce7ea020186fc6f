#!lua
-- Stores an access token. Replaces a token with the same id.
--
-- KEYS        board and tokens (shared/board.lua)
-- ARGV        token id, token as JSON
-- Reply       now
-- Repeatable  yes
--@include board

redis.call('HSET', KEYS[6], ARGV[1], ARGV[2])
return { now }
