-- Count one call in every limit, or in none. Runs alone on the server, whose clock is the only one.
--
-- KEYS    one list for each pair of user and tool: the times of its calls in microseconds, the
--         newest first
-- ARGV    "1" to count, "0" to look; then, for each limit, the number of its key, the calls a
--         minute and the calls an hour
-- returns microseconds until one call would fit in all of them; 0: it fits, and was counted

local MINUTE, HOUR = 60000000, 3600000000
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function newest_of(key)
  return tonumber(redis.call('LINDEX', key, 0) or 0)
end

-- A clock that was set back moves everything counted back with it, so that nobody waits for days.
local function follow_the_clock(key)
  local ahead = newest_of(key) - now
  if ahead <= MINUTE then return end
  local times = redis.call('LRANGE', key, 0, -1)
  redis.call('DEL', key)
  for _, at in ipairs(times) do
    redis.call('RPUSH', key, string.format('%.0f', at - ahead))
  end
end

local function wait_for(key, limit, window)
  local at = redis.call('LINDEX', key, string.format('%.0f', limit - 1))
  return at and at + window - now or 0
end

local counting = ARGV[1] == '1'
local wait = 0
if counting then
  for _, key in ipairs(KEYS) do follow_the_clock(key) end
end
for i = 2, #ARGV, 3 do
  local key = KEYS[tonumber(ARGV[i])]
  wait = math.max(wait, wait_for(key, ARGV[i + 1], MINUTE), wait_for(key, ARGV[i + 2], HOUR))
end
if wait > 0 or not counting then return wait end

for _, key in ipairs(KEYS) do
  -- A clock that is a little behind is read as the newest time: the list stays in order.
  local at = math.max(now, newest_of(key))
  redis.call('LPUSH', key, string.format('%.0f', at))
  while tonumber(redis.call('LINDEX', key, -1)) <= now - HOUR do
    redis.call('RPOP', key)
  end
  -- A second longer than the window: Redis forgets by the millisecond, calls count by less.
  redis.call('PEXPIRE', key, 3601000)
end
return 0
