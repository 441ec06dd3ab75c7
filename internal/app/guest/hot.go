package guest

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/redis"
	"holdfast/internal/obs"
)

// hot is the hot state as the server sees it.
type hot struct {
	backend.Hot
	memory *memory.Hot // nil: in Redis
	local  *memory.Hot // counts while Redis is away; nil: in memory
	redis  *redisdb.DB // nil: in memory
}

// localMemory is the memory of the counters that are used while Redis is away.
const localMemory = 16 << 20

// openHot opens the hot state that the configuration selects. Redis may be unavailable.
func (s *Guest) openHot(ctx context.Context, d *service.Deps) (*hot, error) {
	if s.cfg.Hot == hotMemory {
		m := memory.New(d.Clock, s.cfg.HotMemory)
		return &hot{Hot: m, memory: m}, nil
	}
	db, err := d.Engines.OpenRedis(ctx, Name, "hot", redisdb.Options{URL: s.cfg.Hot, Timeout: s.cfg.HotTimeout, Probe: redis.Probe(s.cfg.HotPrefix)})
	if err != nil {
		return nil, err
	}
	return &hot{Hot: redis.New(db, s.cfg.HotPrefix, d.Clock), redis: db, local: memory.New(d.Clock, localMemory)}, nil
}

// flushTime is how long writing the last sessions may take at the end.
const flushTime = 2 * time.Second

// caches returns the memory of hot state in the process.
func (h *hot) caches() (bytes, most int64) {
	for _, m := range []*memory.Hot{h.memory, h.local} {
		if m != nil {
			_, b, limit := m.Bytes()
			bytes, most = bytes+b, most+limit
		}
	}
	return bytes, most
}

// run removes what has expired from memory until ctx ends.
func (h *hot) run(ctx context.Context) {
	if h.memory != nil {
		h.memory.Run(ctx)
		return
	}
	h.local.Run(ctx)
}

// observe registers the metrics, and returns what counts operations that continued without
// hot state.
func (h *hot) observe(m *obs.Metrics) func(what string) {
	degraded := m.Counter("holdfast_guest_hot_degraded_total", "Operations of guests that continued without hot state, because it was unavailable.", "operation")
	for _, what := range guest.Degradations {
		degraded.WithLabelValues(what)
	}
	if h.redis != nil {
		m.Gauge("holdfast_guest_redis_up", "1 if there is a working connection to Redis, else 0.", func(set obs.Set) {
			if up, _ := h.redis.State(); up {
				set(1)
			} else {
				set(0)
			}
		})
		m.Total("holdfast_guest_redis_disconnects_total", "How often the connection to Redis was given up after failures.", func(set obs.Set) {
			_, opened := h.redis.State()
			set(float64(opened))
		})
	}
	if h.memory != nil {
		m.Gauge("holdfast_guest_hot_entries", "Entries of the hot state in memory.", func(set obs.Set) {
			n, _, _ := h.memory.Bytes()
			set(float64(n))
		})
	}
	return func(what string) { degraded.WithLabelValues(what).Inc() }
}
