-- What the Redis sink asks of a server: one compare-and-set over the position of a sink and what it has appended.
-- Plain Lua without a header line, so that Redis 6.2 takes it too. docs/format/redis.md draws what it keeps.
--
-- KEYS  1 position: a hash with owner, fence, lineage, sequence, chain, seen
--       2 target:   the stream or list that is appended to; in one slot with the position
-- ARGV  1 operation      look, own, begin, append; add, which knows no position
--       2 owner          who asks
--       3 fence          the number under which he owns; own: the number that he saw, '' for none
--       4 lineage        begin, append: that of the position below. own: the number to take
--       5 sequence       of the position below the first message
--       6 chain          there
--       7 kind           'stream' or 'list'
--       8 trimming       '', 'MAXLEN', 'MINID'
--       9 its threshold
--      10 channel        '' for none
--      11 width          how many of the following make a message
--      12.. messages     stream: chain, body, id, rule, kind, severity. list: chain, body
--
-- Answer: status, owner, fence, lineage, sequence, chain, last id of the stream, witness, trouble; '' is what is not there. The
-- witness is the chain in the entry of the last id, 'none' where that entry has no chain. The status:
--   STANDS    look: this is how things stand
--   OWNED     own: the caller owns the position
--   RACED     own: somebody else was faster; look again
--   BEGUN     begin: the position is the one asked for
--   OK        append: the messages are there and the position is behind them; add: they are there
--   DUP       append: exactly these messages had been appended before
--   GAP       the position is below the one asked for, or in an older lineage; nothing was changed (nor is it below)
--   AHEAD     the position is above the one asked for and not at the end of these messages, or in a newer lineage
--   DIVERGED  the position is of another history: its chain is another one
--   FENCED    somebody else owns the position
--   GONE      nobody owns the position, or it says no sequence
--   FOREIGN   the stream's last id is above the position: somebody else appends

local position, target = KEYS[1], KEYS[2]
local operation, owner, fence = ARGV[1], ARGV[2], ARGV[3]
local lineage, sequence, chain = ARGV[4], ARGV[5], ARGV[6]
local is_stream = ARGV[7] == 'stream'
local width = tonumber(ARGV[11])
local first = 12

local count = (#ARGV - first + 1) / width

-- Numbers are doubles: exact to 2^53, which no sequence reaches, but their text would be 1e+15 from there on.
local function text(number) return string.format('%.0f', number) end

local function put(lineage, below)
  for i = 0, count - 1 do
    local m = first + i * width
    if is_stream then
      local id = lineage and lineage .. '-' .. text(below + i + 1) or '*'
      redis.call('XADD', target, id,
        'id', ARGV[m + 2], 'rule', ARGV[m + 3], 'kind', ARGV[m + 4], 'severity', ARGV[m + 5], 'body', ARGV[m + 1], 'chain', ARGV[m])
    else
      redis.call('RPUSH', target, ARGV[m + 1])
    end
  end
end

-- What follows once the messages are there. Nothing that is refused here may turn the answer into an error.
local trouble = ''
local function trim_and_publish()
  local function try(...)
    local got = redis.pcall(...)
    if type(got) == 'table' and got.err then trouble = got.err end
  end
  if ARGV[8] ~= '' then
    if is_stream then try('XTRIM', target, ARGV[8], '~', ARGV[9]) else try('LTRIM', target, '-' .. ARGV[9], '-1') end
  end
  if ARGV[10] ~= '' then
    for i = 0, count - 1 do try('PUBLISH', ARGV[10], ARGV[first + i * width + 1]) end
  end
end

if operation == 'add' then
  put()
  trim_and_publish()
  return {'OK', '', '', '', '', '', '', '', trouble}
end

-- A write before anything is answered. A replica, or a master that has become one, answers READONLY instead of confirming out
-- of data that the master does not have; memory, disk and missing replicas are found out about before a message is written.
redis.call('HSET', position, 'seen', owner)

local now = {}
do
  local names = {'owner', 'fence', 'lineage', 'sequence', 'chain'}
  local values = redis.call('HMGET', position, unpack(names))
  for i, name in ipairs(names) do now[name] = values[i] or '' end
end

-- The stream's last id outlives trimming and the deletion of entries: a second witness of the position.
local last, witness = '', ''
if is_stream then
  local info = redis.pcall('XINFO', 'STREAM', target)
  if not info.err then
    local entry
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then last = info[i + 1] end
      if info[i] == 'last-entry' then entry = info[i + 1] end
    end
    if entry and entry[1] == last then
      witness = 'none'
      for i = 1, #entry[2], 2 do
        if entry[2][i] == 'chain' then witness = entry[2][i + 1] end
      end
    end
  elseif not string.find(info.err, 'no such key', 1, true) then
    return info
  end
end

local function answer(status)
  return {status, now.owner, now.fence, now.lineage, now.sequence, now.chain, last, witness, trouble}
end

local function foreign(l, s)
  if last == '' then return false end
  local ms, seq = string.match(last, '^(%d+)-(%d+)$')
  ms, seq, l, s = tonumber(ms), tonumber(seq), tonumber(l), tonumber(s)
  return ms > l or (ms == l and seq > s)
end

local function stand(l, s, c)
  now.lineage, now.sequence, now.chain = l, s, c
  redis.call('HSET', position, 'lineage', l, 'sequence', s, 'chain', c)
end

if operation == 'look' then return answer('STANDS') end

if operation == 'own' then
  if now.owner ~= owner then -- else: asked twice
    if now.fence ~= fence then return answer('RACED') end
    now.owner, now.fence = owner, lineage
    redis.call('HSET', position, 'owner', owner, 'fence', lineage)
  end
  return answer('OWNED')
end

if now.fence == '' then return answer('GONE') end
if now.fence ~= fence or now.owner ~= owner then return answer('FENCED') end

if operation == 'begin' then
  if now.sequence ~= '' and tonumber(now.lineage) >= tonumber(lineage) then
    if now.lineage == lineage and now.sequence == sequence and now.chain == chain then return answer('BEGUN') end -- asked twice
    return answer('AHEAD')
  end
  if foreign(lineage, sequence) then return answer('FOREIGN') end
  stand(lineage, sequence, chain)
  return answer('BEGUN')
end

-- append
if now.sequence == '' then return answer('GONE') end
if now.lineage ~= lineage then
  return answer(tonumber(now.lineage) < tonumber(lineage) and 'GAP' or 'AHEAD')
end
local at, below = tonumber(now.sequence), tonumber(sequence)
if count > 0 and at == below + count then
  if now.chain ~= ARGV[first + (count - 1) * width] then return answer('DIVERGED') end
  return answer('DUP')
end
if at < below then return answer('GAP') end
if at > below then return answer('AHEAD') end
if now.chain ~= chain then return answer('DIVERGED') end
if foreign(lineage, at) then return answer('FOREIGN') end
if count == 0 then return answer('OK') end

-- The messages first: what refuses to append leaves a position that is true.
put(lineage, below)
stand(lineage, text(below + count), ARGV[first + (count - 1) * width])
trim_and_publish()
return answer('OK')
