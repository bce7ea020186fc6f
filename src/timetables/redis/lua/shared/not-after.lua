-- Included by the scripts that write for a user, after shared/cell.lua or shared/board.lua, which read the time. The last argument is the
-- latest time, by Redis's clock, at which the script may take effect. At that time the caller stops waiting for the
-- reply: it may have written the key again by now. So a call that was delayed, on its way or by a frozen server,
-- changes nothing.
local NOT_AFTER = tonumber(table.remove(ARGV))
if now > NOT_AFTER then return redis.error_reply('TOCSINLATE ' .. string.format('%.0f', now)) end
