package guest

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/redis"
	"holdfast/internal/ident"
)

// hot is the hot state with its implementations. Either memory is set, or redis, shared and local are.
type hot struct {
	backend.Hot
	memory *memory.Hot // nil: in Redis
	local  *memory.Hot // fallback while Redis is unavailable
	redis  *redisdb.DB
	shared *redis.Hot // in Redis; nil: in memory
	keeps  bool       // memory is also in the database
}

// keeping is an embedded database's store, which only this process uses while it serves. Processes that share a
// database on a server share their hot state in Redis: a copy in the database would be a second truth for each process.
type keeping interface {
	guest.HotStore

	DropOldHot(ctx context.Context, before time.Time, limit int) (int, error)
	ForgetHot(ctx context.Context) error
}

// localMemory is the fallback's size, in bytes. It holds only rate limits and caches, for the time of an outage.
const localMemory = 16 << 20

// openHot does not wait for Redis. Until settle has read the database's epoch, every operation fails as if Redis were
// unavailable, so that no request uses the state of another database.
func (s *Guest) openHot(ctx context.Context, d *service.Deps, st backend.Store) (*hot, error) {
	if s.cfg.Hot == hotMemory {
		m := memory.New(d.Clock, s.cfg.HotMemory)
		_, keeps := st.(keeping)
		if keeps {
			m.Keep()
		}
		return &hot{Hot: m, memory: m, keeps: keeps}, nil
	}
	db, err := d.Engines.OpenRedis(ctx, Name, "hot", redisdb.Options{URL: s.cfg.Hot, Timeout: s.cfg.HotTimeout, Probe: redis.Probe(s.cfg.HotPrefix)})
	if err != nil {
		return nil, err
	}
	shared := redis.New(db, s.cfg.HotPrefix, d.Clock)
	shared.Hold()
	return &hot{Hot: shared, shared: shared, redis: db, local: memory.New(d.Clock, localMemory)}, nil
}

// newEpoch gives a restored database another hot state. Redis may be newer than the database: it may contain responses
// to requests whose effects are lost, and wishes that the database lacks.
func newEpoch(ctx context.Context, db rows.Database) error {
	return db.Update(ctx, func(u rows.Update) error { return u.SetState(rows.WorkOf(Name), ident.New()) })
}

// forgetHot deletes the hot state in a restored database: guests may have cleared their sessions since.
func forgetHot(ctx context.Context, st backend.Store) error {
	if kept, ok := st.(keeping); ok {
		return kept.ForgetHot(ctx)
	}
	return nil
}

// settle reads the database's epoch. Once is enough, because nobody restores a database while a server uses it. Readiness
// calls it, too: the service is not ready while the hot state is not used.
func (h *hot) settle(ctx context.Context, db rows.Database) error {
	if h.shared == nil || !h.shared.Held() {
		return nil
	}
	return db.View(ctx, func(v rows.View) error {
		epoch, err := v.State(rows.WorkOf(Name))
		if err == nil {
			h.shared.SetEpoch(epoch)
		}
		return err
	})
}

// name is shown in the demo.
func (h *hot) name() string {
	if h.memory != nil {
		return "memory"
	}
	return "Redis"
}

// flushTime limits how long a stop may write counts that are kept in memory. It delays the end of the process.
const flushTime = 2 * time.Second

// caches returns the memory that is used and the maximum, in bytes. Redis's own memory is not included.
func (h *hot) caches() (bytes, maxBytes int64) {
	for _, m := range []*memory.Hot{h.memory, h.local} {
		if m != nil {
			_, b, limit := m.Bytes()
			bytes, maxBytes = bytes+b, maxBytes+limit
		}
	}
	return bytes, maxBytes
}

// run removes expired entries from memory until ctx ends.
func (h *hot) run(ctx context.Context) {
	if h.memory != nil {
		h.memory.Run(ctx)
		return
	}
	h.local.Run(ctx)
}
