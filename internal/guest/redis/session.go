package redis

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/ident"
)

// sessionKeys returns the keys of the session, its mirror, its lists and the mirror's lease. All but the lease
// live as long as the session.
func (h *Hot) sessionKeys(id guest.ID) []string {
	key := h.prefix() + "session:" + tag(string(id))
	return []string{key, key + ":wishlist", key + ":recent", key + ":history", key + ":wishlist-lease"}
}

const textSession = `
local s = redis.call('HMGET', KEYS[1], 'lastSeenAt', 'localePreference', 'currencyPreference', 'campaign')
local attributes, version = '', ''
if ARGV[4] ~= '' then version = redis.call('HGET', KEYS[1], 'attributesVersion') or '' end
if version ~= ARGV[4] and ARGV[4] ~= '-' then attributes = redis.call('HGET', KEYS[1], 'attributes') or '' end
local set = {'lastSeenAt', ARGV[2]}
if not s[1] then
	set[3], set[4] = 'createdAt', ARGV[3]
	s = {ARGV[2]}
end
for i = 5, #ARGV, 2 do
	set[#set + 1], set[#set + 2] = ARGV[i], ARGV[i + 1]
	s[({localePreference = 2, currencyPreference = 3, campaign = 4})[ARGV[i]]] = ARGV[i + 1]
end
redis.call('HSET', KEYS[1], unpack(set))
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[1]) end
return {s[1], s[2] or '', s[3] or '', s[4] or '', attributes, version}`

var (
	scriptSession = rueidis.NewLuaScript(textSession)
	sumSession    = hexSum(textSession)

	scriptPutAttributes = rueidis.NewLuaScript(`
local s = redis.call('HMGET', KEYS[1], 'lastSeenAt', 'attributesVersion')
if not s[1] then redis.call('HSET', KEYS[1], 'lastSeenAt', ARGV[2], 'createdAt', ARGV[3]) end
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[1]) end
if (s[2] or '') ~= ARGV[4] then return 0 end
if ARGV[5] == '' then
	redis.call('HDEL', KEYS[1], 'attributes', 'attributesVersion')
else
	redis.call('HSET', KEYS[1], 'attributesVersion', ARGV[5], 'attributes', ARGV[6])
end
return 1`)

	// scriptPush puts an item at the front of a list. The item's key ends at the first space.
	//nolint:dupword // Lua
	scriptPush = rueidis.NewLuaScript(`
local list, key = KEYS[tonumber(ARGV[2])], ARGV[4] .. ' '
for _, item in ipairs(redis.call('LRANGE', list, 0, -1)) do
	if string.sub(item, 1, #key) == key then redis.call('LREM', list, 0, item) end
end
redis.call('LPUSH', list, key .. ARGV[5])
redis.call('LTRIM', list, 0, tonumber(ARGV[3]) - 1)
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[1]) end
return 1`)

	scriptItems = rueidis.NewLuaScript(`
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[1]) end
return redis.call('LRANGE', KEYS[tonumber(ARGV[2])], 0, -1)`)
)

// hexSum names a script for EVALSHA.
func hexSum(script string) string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // likewise
	return hex.EncodeToString(sum[:])
}

// Values of scriptSession's fourth argument other than versions. Without the argument, the script reads no
// attributes.
const (
	anyVersion  = "*" // read the attributes
	onlyVersion = "-" // read their version
)

// Session implements guest.HotSessions.
func (h *Hot) Session(ctx context.Context, id guest.ID, change guest.Change) (s guest.Session, err error) {
	args := []string{seconds(guest.SessionLife), number(h.clock().UnixMilli()), number(id.Time().UnixMilli()), ""}
	if change.Locale != nil {
		args = append(args, "localePreference", *change.Locale)
	}
	if change.Currency != nil {
		args = append(args, "currencyPreference", *change.Currency)
	}
	if change.Campaign != nil {
		args = append(args, "campaign", *change.Campaign)
	}
	if change.ReadAttributes {
		args[3] = cmp.Or(change.KnownVersion, anyVersion)
	}
	cmd := command{"session", scriptSession, h.sessionKeys(id)[:4], args}
	if args[3] == anyVersion {
		return h.withAttributes(ctx, id, cmd)
	}
	err = h.script(ctx, cmd, readSession(id, &s))
	return s, err
}

// readSession decodes a session's fields.
func readSession(id guest.ID, s *guest.Session) func(rueidis.RedisResult) error {
	return func(r rueidis.RedisResult) error {
		fields, err := r.AsStrSlice()
		if err != nil {
			return err
		}
		seen, err := moment(fields[0])
		*s = guest.Session{ID: id, Created: id.Time(), LastSeen: seen, Preferences: guest.Preferences{Locale: fields[1], Currency: fields[2], Campaign: fields[3]}}
		s.Attributes = guest.Attributes{Value: canonjson.Value(fields[4]), Version: fields[5]}
		return err
	}
}

// withAttributes reads the attributes with a separate command: Lua takes 20 µs to copy 16 KiB, during which Redis
// serves nobody else. If another request changes them after the script, the script reads both.
func (h *Hot) withAttributes(ctx context.Context, id guest.ID, cmd command) (s guest.Session, err error) {
	var loaded, same bool
	err = h.run(ctx, cmd.name, func(ctx context.Context, c rueidis.Client) error {
		short := slices.Clone(cmd.args)
		short[3] = onlyVersion
		results := c.DoMulti(ctx,
			c.B().Evalsha().Sha1(sumSession).Numkeys(int64(len(cmd.keys))).Key(cmd.keys...).Arg(short...).Build(),
			c.B().Hmget().Key(cmd.keys[0]).Field("attributesVersion", "attributes").Build())
		if refusal, is := rueidis.IsRedisErr(results[0].Error()); is && refusal.IsNoScript() {
			return nil
		}
		loaded = true
		if err := readSession(id, &s)(results[0]); err != nil {
			return err
		}
		fields, err := results[1].AsStrSlice()
		if err != nil {
			return err
		}
		if same = fields[0] == s.Attributes.Version; same {
			s.Attributes.Value = canonjson.Value(fields[1])
		}
		return nil
	})
	if err != nil || same {
		return s, err
	}
	seen := s.LastSeen
	if err = h.script(ctx, cmd, readSession(id, &s)); loaded {
		s.LastSeen = seen
	}
	return s, err
}

// PutAttributes implements guest.HotSessions.
func (h *Hot) PutAttributes(ctx context.Context, id guest.ID, was string, next guest.Attributes) (stored bool, err error) {
	args := []string{seconds(guest.SessionLife), number(h.clock().UnixMilli()), number(id.Time().UnixMilli()), was, next.Version, string(next.Value)}
	err = h.script(ctx, command{"put_attributes", scriptPutAttributes, h.sessionKeys(id)[:4], args}, yes(&stored))
	return stored, err
}

// index returns the list's position in sessionKeys.
func index(list guest.List) int {
	if list == guest.SearchHistory {
		return 3
	}
	return 2
}

// Push implements guest.HotSessions.
func (h *Hot) Push(ctx context.Context, id guest.ID, list guest.List, item guest.Item) error {
	args := []string{seconds(guest.SessionLife), number(int64(index(list) + 1)), number(int64(list.Most())), item.Key, string(item.Value)}
	return h.script(ctx, command{"push", scriptPush, h.sessionKeys(id)[:4], args}, ignore)
}

// Items implements guest.HotSessions.
func (h *Hot) Items(ctx context.Context, id guest.ID, list guest.List) (items []guest.Item, err error) {
	args := []string{seconds(guest.SessionLife), number(int64(index(list) + 1))}
	err = h.script(ctx, command{"items", scriptItems, h.sessionKeys(id)[:4], args}, func(r rueidis.RedisResult) error {
		all, err := r.AsStrSlice()
		for _, text := range all {
			key, value, _ := strings.Cut(text, " ")
			items = append(items, guest.Item{Key: key, Value: json.RawMessage(value)})
		}
		return err
	})
	return items, err
}

// search returns the key of a stored search.
func (h *Hot) search(id guest.ID) string { return h.prefix() + "srs:" + tag(string(id)) }

var scriptPutSearch = rueidis.NewLuaScript(`
redis.call('HSET', KEYS[1], 'guestSessionId', ARGV[2], 'createdAt', ARGV[3], 'query', ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1`)

// PutSearch implements guest.HotSessions.
func (h *Hot) PutSearch(ctx context.Context, s guest.Search) error {
	args := []string{seconds(guest.SearchLife), string(s.Session), number(s.Created.UnixMilli()), string(s.Query)}
	return h.script(ctx, command{"put_search", scriptPutSearch, []string{h.search(s.ID)}, args}, ignore)
}

// Search implements guest.HotSessions.
func (h *Hot) Search(ctx context.Context, id guest.ID) (s guest.Search, found bool, err error) {
	err = h.run(ctx, "search", func(ctx context.Context, c rueidis.Client) error {
		fields, err := c.Do(ctx, c.B().Hgetall().Key(h.search(id)).Build()).AsStrMap()
		if err != nil || len(fields) == 0 {
			return err
		}
		created, err := moment(fields["createdAt"])
		s, found = guest.Search{ID: id, Session: guest.ID(fields["guestSessionId"]), Query: json.RawMessage(fields["query"]), Created: created}, true
		return err
	})
	return s, found && err == nil, err
}

// DropSession implements guest.HotSessions.
func (h *Hot) DropSession(ctx context.Context, id guest.ID, searches []guest.ID) error {
	if err := h.DropMirror(ctx, id); err != nil {
		return err
	}
	return h.run(ctx, "drop_session", func(ctx context.Context, c rueidis.Client) error {
		keys := h.sessionKeys(id)
		commands := rueidis.Commands{c.B().Del().Key(keys[0], keys[2], keys[3]).Build()}
		for _, s := range searches {
			commands = append(commands, c.B().Del().Key(h.search(s)).Build())
		}
		for _, r := range c.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// A session's last key holds a lease or the number of blocks.
var (
	scriptMirror = rueidis.NewLuaScript(`
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[3]) end
local copy = redis.call('GET', KEYS[2])
if copy then return copy end
if redis.call('SET', KEYS[5], ARGV[1], 'NX', 'PX', ARGV[2]) then return 'lease' end
return ''`)
	scriptFillMirror = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'EX', ARGV[2])
redis.call('DEL', KEYS[2])
return 1`)
	scriptBlockMirror = rueidis.NewLuaScript(`
local blocks = tonumber(string.match(redis.call('GET', KEYS[5]) or '', '^blocked (%d+)$')) or 0
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[5], 'blocked ' .. (blocks + 1), 'PX', ARGV[1])
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[2]) end
return 1`)
	scriptDropMirror = rueidis.NewLuaScript(`
local blocks = tonumber(string.match(redis.call('GET', KEYS[2]) or '', '^blocked (%d+)$')) or 0
blocks = blocks - tonumber(ARGV[1])
redis.call('DEL', KEYS[1])
if blocks > 0 then
	redis.call('SET', KEYS[2], 'blocked ' .. blocks, 'KEEPTTL')
else
	redis.call('DEL', KEYS[2])
end
return 1`)
)

// mirrorKeys returns the keys of the mirror and its lease.
func (h *Hot) mirrorKeys(id guest.ID) []string {
	keys := h.sessionKeys(id)
	return []string{keys[1], keys[4]}
}

// Mirror implements guest.HotMirror.
func (h *Hot) Mirror(ctx context.Context, id guest.ID) (m guest.Mirror, err error) {
	lease := ident.New()
	err = h.script(ctx, command{"mirror", scriptMirror, h.sessionKeys(id), []string{lease, millis(guest.LeaseLife), seconds(guest.SessionLife)}}, func(r rueidis.RedisResult) error {
		text, err := r.ToString()
		switch {
		case err != nil || text == "":
			return err
		case text == "lease":
			m.Lease = lease
			return nil
		}
		at, wishes, found := strings.Cut(text, " ")
		if !found {
			return errcode.New(errcode.Internal, "the mirror of a wishlist in Redis is malformed")
		}
		m.Wishes = json.RawMessage(wishes)
		m.Filled, err = moment(at)
		return err
	})
	return m, err
}

// FillMirror implements guest.HotMirror.
func (h *Hot) FillMirror(ctx context.Context, id guest.ID, lease string, wishes json.RawMessage) error {
	args := []string{lease, seconds(guest.SessionLife), number(h.clock().UnixMilli()) + " " + string(wishes)}
	return h.script(ctx, command{"fill_mirror", scriptFillMirror, h.mirrorKeys(id), args}, ignore)
}

// BlockMirror implements guest.HotMirror.
func (h *Hot) BlockMirror(ctx context.Context, id guest.ID) error {
	return h.script(ctx, command{"block_mirror", scriptBlockMirror, h.sessionKeys(id), []string{millis(guest.BlockLife), seconds(guest.SessionLife)}}, ignore)
}

// UnblockMirror implements guest.HotMirror.
func (h *Hot) UnblockMirror(ctx context.Context, id guest.ID) error {
	return h.script(ctx, command{"unblock_mirror", scriptDropMirror, h.mirrorKeys(id), []string{"1"}}, ignore)
}

// DropMirror implements guest.HotMirror.
func (h *Hot) DropMirror(ctx context.Context, id guest.ID) error {
	return h.script(ctx, command{"drop_mirror", scriptDropMirror, h.mirrorKeys(id), []string{"0"}}, ignore)
}
