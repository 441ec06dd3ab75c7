// Package redis keeps the hot state of guest in Redis, where all processes share it.
//
// An operation is one command or one script on the keys of one hash tag, so it is atomic
// in a cluster, too: the keys of a session have its ID as their tag, and a cached value
// and its lock have the name of the value.
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
	clock  clock.Clock // of sessions and mirrors; limits go by that of Redis
}

var _ backend.Hot = (*Hot)(nil)

// New returns a Hot on a connection. Its keys begin with an environment.
func New(db *redisdb.DB, environment string, now clock.Clock) *Hot {
	return &Hot{db: db, prefix: prefixOf(environment), clock: now}
}

func prefixOf(environment string) string { return environment + ":bff-consumer:" }

// Probe returns a check of new connections, for redisdb.Options: it writes a key, which a
// replica refuses.
func Probe(environment string) func(context.Context, rueidis.Client) error {
	return func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(prefixOf(environment)+"probe").Value("1").ExSeconds(60).Build()).Error()
	}
}

// Ping implements backend.Hot.
func (h *Hot) Ping(ctx context.Context) error {
	return h.run(ctx, "ping", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(h.prefix+"probe").Value("1").ExSeconds(60).Build()).Error()
	})
}

// run runs an operation within the time that the request has left for hot state.
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

// command is a call of a script.
type command struct {
	name       string // for metrics
	script     *rueidis.Lua
	keys, args []string
}

// script runs a script.
func (h *Hot) script(ctx context.Context, cmd command, read func(rueidis.RedisResult) error) error {
	return h.run(ctx, cmd.name, func(ctx context.Context, c rueidis.Client) error {
		return read(cmd.script.Exec(ctx, c, cmd.keys, cmd.args))
	})
}

// ignore reads a reply that says nothing.
func ignore(r rueidis.RedisResult) error { return r.Error() }

// tag returns a name as a hash tag: it must not contain braces.
func tag(name string) string {
	return "{" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(name) + "}"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// seconds and millis are lives as Redis takes them.
func seconds(d time.Duration) string { return number(int64(d / time.Second)) }
func millis(d time.Duration) string  { return number(max(1, d.Milliseconds())) }

// moment reads milliseconds since 1970.
func moment(text string) (time.Time, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errcode.Wrap(errcode.Internal, "a time in Redis is malformed", err)
	}
	return time.UnixMilli(ms).UTC(), nil
}
