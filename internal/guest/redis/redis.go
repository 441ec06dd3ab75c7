// Package redis keeps the hot state of guest in Redis, where all processes share it.
//
// Every operation is one command or one script, so none is seen half done. The keys of a
// session have its ID as their hash tag, so they are on one node of a cluster.
package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest"
)

// Hot implements guest.Hot. It is safe for concurrent use.
type Hot struct {
	db     *redisdb.DB
	prefix string
}

var _ guest.Hot = (*Hot)(nil)

// New returns a Hot on a connection. Its keys begin with an environment.
func New(db *redisdb.DB, environment string) *Hot {
	return &Hot{db: db, prefix: prefixOf(environment)}
}

func prefixOf(environment string) string { return environment + ":bff-consumer:" }

// Probe returns a check of new connections, for redisdb.Options: it writes a key, which a
// replica refuses.
func Probe(environment string) func(context.Context, rueidis.Client) error {
	return func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(prefixOf(environment)+"probe").Value("1").ExSeconds(60).Build()).Error()
	}
}

// session returns the key of a session.
func (h *Hot) session(id guest.ID) string { return h.prefix + "session:{" + string(id) + "}" }

// seconds is a life as Redis takes it.
func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// run runs a script, which all processes have.
func (h *Hot) run(ctx context.Context, name string, script *rueidis.Lua, keys, args []string, read func(rueidis.RedisResult) error) error {
	return h.db.Run(ctx, name, func(ctx context.Context, c rueidis.Client) error {
		return read(script.Exec(ctx, c, keys, args))
	})
}
