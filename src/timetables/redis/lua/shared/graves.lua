-- The first line of a grave (shared/bury.lua) is the cause of death. Once the key was scheduled again, the line ends in
-- ' superseded'.
local SUPERSEDED = ' superseded'

local function is_superseded(grave)
  return string.find(grave, '^[^\n]*' .. SUPERSEDED .. '\n') ~= nil
end

-- Marks the dead tasks of keys that are scheduled again.
local function supersede(keys)
  local marked = {}
  for i, grave in ipairs(redis.call('HMGET', GRAVES, unpack(keys))) do
    if grave and not is_superseded(grave) then
      marked[#marked + 1], marked[#marked + 2] = keys[i], (string.gsub(grave, '\n', SUPERSEDED .. '\n', 1))
    end
  end
  if #marked > 0 then redis.call('HSET', GRAVES, unpack(marked)) end
end
