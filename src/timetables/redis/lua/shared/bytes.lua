-- Compares two strings byte by byte, as Redis orders keys of one score. Lua's `<` on strings follows the locale of the
-- server (LC_COLLATE), in which 'a' may come before 'B'.
local function is_before(a, b)
  local at = 1
  while at <= #a and string.byte(a, at) == string.byte(b, at) do at = at + 1 end
  return (string.byte(a, at) or -1) < (string.byte(b, at) or -1)
end
