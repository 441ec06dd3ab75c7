// Package redis stores guest hot state in Redis, shared by all processes.
//
// Each operation is a command or script on keys with the same hash tag, so it is atomic in a cluster too. A session's
// keys use its ID as the tag; a cached value and its lock use the value's name.
package redis

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/clock"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
)

// Hot implements backend.Hot. It is safe for concurrent use.
type Hot struct {
	db     *redisdb.DB
	prefix string
	clock  clock.Clock // for sessions and mirrors; limits use the Redis clock
}

var _ backend.Hot = (*Hot)(nil)

// New returns a Hot whose keys start with environment.
func New(db *redisdb.DB, environment string, now clock.Clock) *Hot {
	return &Hot{db: db, prefix: prefixOf(environment), clock: now}
}

func prefixOf(environment string) string { return environment + ":bff-consumer:" }

// Probe returns a connection check for redisdb.Options: it writes a key, which a replica refuses.
func Probe(environment string) func(context.Context, rueidis.Client) error {
	return func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(prefixOf(environment)+"probe").Value("1").ExSeconds(60).Build()).Error()
	}
}

func (h *Hot) Ping(ctx context.Context) error {
	return h.run(ctx, "ping", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(h.prefix+"probe").Value("1").ExSeconds(60).Build()).Error()
	})
}

func (h *Hot) run(ctx context.Context, name string, fn func(context.Context, rueidis.Client) error) error {
	left, spend := guest.HotTime(ctx)
	if left <= 0 {
		return errcode.New(errcode.Unavailable, "Redis did not respond to this request in time")
	}
	start := time.Now()
	err := h.db.RunWithin(ctx, name, left, fn)
	spend(time.Since(start))
	return err
}

type command struct {
	name       string
	script     *rueidis.Lua
	keys, args []string
}

func (h *Hot) script(ctx context.Context, cmd command, read func(rueidis.RedisResult) error) error {
	return h.run(ctx, cmd.name, func(ctx context.Context, c rueidis.Client) error {
		return read(cmd.script.Exec(ctx, c, cmd.keys, cmd.args))
	})
}

func ignore(r rueidis.RedisResult) error { return r.Error() }

func tag(name string) string {
	return "{" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(name) + "}"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func seconds(d time.Duration) string { return number(int64(d / time.Second)) }
func millis(d time.Duration) string  { return number(max(1, d.Milliseconds())) }

func moment(text string) (time.Time, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errcode.Wrap(errcode.Internal, "a time in Redis is malformed", err)
	}
	return time.UnixMilli(ms).UTC(), nil
}
