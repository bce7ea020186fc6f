#!lua flags=allow-oom
-- How far a topic was filled. Where something may have been lost since, a new epoch begins, and nothing is known.
-- May be repeated.
--
-- KEYS     those of the topic's cell 0 (shared/cell.lua)
-- ARGV     a name for a new epoch that nobody else has
-- Returns  now, epoch, frontier as 'ring cell key' ('' for none)
--@include cell epoch

if not epoch then
  epoch = ARGV[1]
  redis.call('HDEL', META, 'filled')
  redis.call('HSET', META, 'epoch', epoch, 'server', server, 'format', FORMAT)
end
return { now, epoch, filled }
