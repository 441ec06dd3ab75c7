package guest

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/redis"
)

// hot is the hot state as the server sees it.
type hot struct {
	guest.Hot
	sweep  func(ctx context.Context, now time.Time, limit int) (int, error) // nil: Redis does it
	caches func() (bytes, most int64)                                       // nil: in Redis
	close  func()
}

// openHot opens the hot state that the configuration selects. Redis may be unavailable.
func (s *Guest) openHot(ctx context.Context, d *service.Deps) (*hot, error) {
	if s.cfg.Hot == guest.HotMemory {
		m := memory.New(d.Clock, s.cfg.SessionMemory)
		return &hot{Hot: m, sweep: m.Sweep, caches: func() (bytes, most int64) {
			n, _ := m.Len()
			return int64(n) * memory.SessionBytes, s.cfg.SessionMemory
		}}, nil
	}
	db, err := d.Engines.OpenRedis(ctx, Name, "hot", redisdb.Options{URL: s.cfg.Hot, Timeout: s.cfg.HotTimeout, Probe: redis.Probe(s.cfg.HotPrefix)})
	if err != nil {
		return nil, err
	}
	return &hot{Hot: redis.New(db, s.cfg.HotPrefix), close: db.Close}, nil
}
