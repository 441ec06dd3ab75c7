package guest

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/redis"
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

// name says where the hot state is.
func (h *hot) name() string {
	if h.memory != nil {
		return "memory"
	}
	return "Redis"
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
