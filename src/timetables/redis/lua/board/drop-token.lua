#!lua flags=allow-oom
-- Deletes an access token. allow-oom: it must be possible to revoke a token in a full Redis.
--
-- KEYS        board and tokens (shared/board.lua)
-- ARGV        token id
-- Reply       now, 1 deleted | 0 there is no such token
-- Repeatable  yes
--@include board

return { now, redis.call('HDEL', KEYS[6], ARGV[1]) }
