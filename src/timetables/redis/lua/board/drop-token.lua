#!lua flags=allow-oom
-- Deletes an access token. allow-oom: a token must be revocable in a full Redis, too.
--
-- KEYS        board and tokens (shared/board.lua)
-- ARGV        token id
-- Reply       now, 1 deleted | 0 there was none
-- Repeatable  yes
--@include board

return { now, redis.call('HDEL', KEYS[6], ARGV[1]) }
