#!lua
-- Keeps an access token, in the place of the one with that id. May be repeated.
--
-- KEYS     the board's (shared/board.lua), then the tokens
-- ARGV     id, token as JSON
-- Returns  now
--@include board

redis.call('HSET', KEYS[6], ARGV[1], ARGV[2])
return { now }
