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

type hot struct {
	backend.Hot
	memory *memory.Hot // nil: in Redis
	local  *memory.Hot // fallback while Redis is unavailable
	redis  *redisdb.DB
}

const localMemory = 16 << 20

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

func (h *hot) name() string {
	if h.memory != nil {
		return "memory"
	}
	return "Redis"
}

const flushTime = 2 * time.Second

func (h *hot) caches() (bytes, most int64) {
	for _, m := range []*memory.Hot{h.memory, h.local} {
		if m != nil {
			_, b, limit := m.Bytes()
			bytes, most = bytes+b, most+limit
		}
	}
	return bytes, most
}

func (h *hot) run(ctx context.Context) {
	if h.memory != nil {
		h.memory.Run(ctx)
		return
	}
	h.local.Run(ctx)
}
