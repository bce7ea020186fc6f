#!lua flags=allow-oom
-- Drops an access token: also in a full Redis, nobody may come in by one that was withdrawn. May be repeated.
--
-- KEYS     the board's (shared/board.lua), then the tokens
-- ARGV     id
-- Returns  now, 1 it was there | 0 it was not
--@include board

return { now, redis.call('HDEL', KEYS[6], ARGV[1]) }
