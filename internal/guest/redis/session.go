package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/fault"
	"holdfast/internal/guest"
)

// Fields of the hash of a session.
const (
	fieldCreated  = "createdAt" // microseconds since 1970
	fieldLocale   = "localePreference"
	fieldCurrency = "currencyPreference"
)

var scriptSession = rueidis.NewLuaScript(`
local s = redis.call('HMGET', KEYS[1], 'createdAt', 'localePreference', 'currencyPreference')
if not s[1] then return false end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return s`)

var scriptPutSession = rueidis.NewLuaScript(`
redis.call('HSET', KEYS[1], 'createdAt', ARGV[2], 'localePreference', ARGV[3], 'currencyPreference', ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1`)

// Session implements guest.Hot.
func (h *Hot) Session(ctx context.Context, id guest.ID) (s guest.Session, found bool, err error) {
	err = h.run(ctx, "session", scriptSession, []string{h.session(id)}, []string{seconds(guest.SessionLife)}, func(r rueidis.RedisResult) error {
		fields, err := r.AsStrSlice()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		if err != nil {
			return err
		}
		micros, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return fault.Wrap(fault.Internal, "the time of a session in Redis is malformed", err)
		}
		s = guest.Session{ID: id, Created: time.UnixMicro(micros).UTC(), Preferences: guest.Preferences{Locale: fields[1], Currency: fields[2]}}
		found = true
		return nil
	})
	return s, found, err
}

// PutSession implements guest.Hot.
func (h *Hot) PutSession(ctx context.Context, s guest.Session) error {
	args := []string{seconds(guest.SessionLife), strconv.FormatInt(s.Created.UnixMicro(), 10), s.Locale, s.Currency}
	return h.run(ctx, "put_session", scriptPutSession, []string{h.session(s.ID)}, args, func(r rueidis.RedisResult) error { return r.Error() })
}

// DropSession implements guest.Hot.
func (h *Hot) DropSession(ctx context.Context, id guest.ID) error {
	return h.db.Run(ctx, "drop_session", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Del().Key(h.session(id)).Build()).Error()
	})
}
