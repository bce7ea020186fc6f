#!lua flags=no-writes
-- Finds the keys of a selection, page by page. Every key that exists during the whole scan is returned, some keys more
-- than once.
--
-- KEYS        cell (shared/cell.lua)
-- ARGV        'live' | 'dead', 'tag' | 'prefix' | 'all', the tag or prefix, cursor ('' to start)
-- Reply       now, next cursor ('' at the end), keys
-- Repeatable  yes: reads only
--@include cell

local PAGE = 1000
local dead, kind, wanted, cursor = ARGV[1] == 'dead', ARGV[2], ARGV[3], ARGV[4]
local keys = {}

if kind == 'tag' and not dead then
  local from = '[' .. wanted .. '\0'
  local found = redis.call('ZRANGE', TAGS, cursor == '' and from or '(' .. wanted .. '\0' .. cursor,
    '(' .. wanted .. '\1', 'BYLEX', 'LIMIT', 0, PAGE)
  for i, member in ipairs(found) do keys[i] = string.sub(member, #wanted + 2) end
  return { now, #found == PAGE and keys[#keys] or '', keys }
end

local function selects(key, body)
  if kind == 'all' then return true end
  if kind == 'prefix' then return key == wanted or string.sub(key, 1, #wanted + 1) == wanted .. ':' end
  local has = false
  each_tag(string.match(body, '^[^\n]*\n[^\n]*\n(.*)$'), function(tag) has = has or tag == wanted end)
  return has
end

-- Filter in the script, so that the reply contains only keys and no bodies.
local page = redis.call('HSCAN', dead and GRAVES or POOL, cursor == '' and '0' or cursor, 'COUNT', PAGE)
local found = page[2]
for i = 1, #found, 2 do
  if selects(found[i], found[i + 1]) then keys[#keys + 1] = found[i] end
end
return { now, page[1] == '0' and '' or page[1], keys }
