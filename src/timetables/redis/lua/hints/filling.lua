#!lua flags=allow-oom
-- Returns the epoch and the frontier of a topic. The hints of all tasks up to the frontier have been loaded from the
-- ledger. If hints may have been lost (shared/epoch.lua), begins a new epoch without a frontier.
--
-- KEYS        cell (shared/cell.lua): cell 0 of the topic
-- ARGV        a unique name for a new epoch
-- Reply       now, epoch, frontier as 'ring cell key' ('' for none)
-- Repeatable  yes
--@include cell epoch

if not epoch then
  epoch = ARGV[1]
  redis.call('HDEL', META, 'filled')
  redis.call('HSET', META, 'epoch', epoch, 'server', server, 'format', format)
end
return { now, epoch, filled }
