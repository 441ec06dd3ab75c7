// Package redis stores guest hot state in Redis, shared by all processes.
//
// Each operation is a command or script on keys with the same hash tag, so it is atomic in a cluster too. A session's
// keys use its ID as the tag; a cached value and its lock use the value's name.
package redis

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
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
	db          *redisdb.DB
	environment string
	clock       clock.Clock // for sessions and mirrors; limits use the Redis clock

	keys atomic.Pointer[string] // the beginning of all keys; nil while held
}

var _ backend.Hot = (*Hot)(nil)

// New returns a Hot whose keys start with environment.
func New(db *redisdb.DB, environment string, now clock.Clock) *Hot {
	h := &Hot{db: db, environment: environment, clock: now}
	h.SetEpoch("")
	return h
}

// Hold makes every operation fail as if Redis were unavailable, until SetEpoch.
func (h *Hot) Hold() { h.keys.Store(nil) }

// Held reports whether operations fail until SetEpoch.
func (h *Hot) Held() bool { return h.keys.Load() == nil }

// SetEpoch sets the epoch of the database to which the hot state belongs. Keys of another epoch are
// not used, and expire. "" is the epoch of a database that was never restored.
func (h *Hot) SetEpoch(epoch string) {
	keys := prefixOf(h.environment)
	if epoch != "" {
		keys += epoch + ":"
	}
	h.keys.Store(&keys)
}

// prefix returns the beginning of all keys. run fails while the epoch is unknown, so keys made then are not used.
func (h *Hot) prefix() string {
	if keys := h.keys.Load(); keys != nil {
		return *keys
	}
	return prefixOf(h.environment)
}

// prefixOf returns the beginning of all keys, so that several environments may share a server.
func prefixOf(environment string) string { return environment + ":bff-consumer:" }

// Probe returns a connection check for redisdb.Options: it writes a key, which a replica refuses.
func Probe(environment string) func(context.Context, rueidis.Client) error {
	return func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(prefixOf(environment)+"probe").Value("1").ExSeconds(60).Build()).Error()
	}
}

// Ping writes a key, which a replica refuses.
func (h *Hot) Ping(ctx context.Context) error {
	return h.run(ctx, "ping", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(h.prefix()+"probe").Value("1").ExSeconds(60).Build()).Error()
	})
}

// run runs commands within the time that the request has left for hot state (guest.HotTime), and takes the time off.
func (h *Hot) run(ctx context.Context, name string, fn func(context.Context, rueidis.Client) error) error {
	if h.Held() {
		return errcode.New(errcode.Unavailable, "Redis is not used before the database is reached, which may have been restored")
	}
	left, spend := guest.HotTime(ctx)
	if left <= 0 {
		return errcode.New(errcode.Unavailable, "Redis did not respond to this request in time")
	}
	start := time.Now()
	err := h.db.RunWithin(ctx, name, left, fn)
	spend(time.Since(start))
	return err
}

// command is a script with its keys and arguments. name is for metrics.
type command struct {
	name       string
	script     *rueidis.Lua
	keys, args []string
}

// script runs a script, which Redis runs at once: no other command in between.
func (h *Hot) script(ctx context.Context, cmd command, read func(rueidis.RedisResult) error) error {
	return h.run(ctx, cmd.name, func(ctx context.Context, c rueidis.Client) error {
		return read(cmd.script.Exec(ctx, c, cmd.keys, cmd.args))
	})
}

// ignore reads a reply that only matters if it is an error.
func ignore(r rueidis.RedisResult) error { return r.Error() }

// tag makes Redis Cluster keep keys with the same name on the same node: scripts need that.
func tag(name string) string {
	return "{" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(name) + "}"
}

// number encodes an argument.
func number(n int64) string { return strconv.FormatInt(n, 10) }

// seconds encodes a whole number of seconds.
func seconds(d time.Duration) string { return number(int64(d / time.Second)) }

// millis encodes at least 1, since Redis refuses an expiry of 0.
func millis(d time.Duration) string { return number(max(1, d.Milliseconds())) }

// moment decodes milliseconds.
func moment(text string) (time.Time, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errcode.Wrap(errcode.Internal, "a time in Redis is malformed", err)
	}
	return time.UnixMilli(ms).UTC(), nil
}
