package guest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
	"holdfast/internal/guest/redis"
)

const whatHot = "guest hot state"

// probe checks Redis and the catalogue for `holdfast check`.
func (s *Guest) probe(ctx context.Context) []service.Finding {
	return append(s.probeHot(ctx), s.probeCatalogue(ctx)...)
}

func (s *Guest) probeHot(ctx context.Context) []service.Finding {
	if s.cfg.Hot == guest.HotMemory {
		f := service.Finding{State: service.OK, What: whatHot, Says: "in the memory of the process"}
		if strings.HasPrefix(s.cfg.DatabaseURL, "postgres") {
			f.State, f.Says = service.Warning, "in the memory of each process: with several, a guest loses preferences and lists from one request to the next"
			f.Fix = "set guest.hot to the URL of a Redis server, or start one process only"
		}
		return []service.Finding{f}
	}
	db, err := redisdb.Open(ctx, redisdb.Options{URL: s.cfg.Hot, Timeout: guest.MaxHotTimeout, Probe: redis.Probe(s.cfg.HotPrefix)})
	if err != nil {
		return []service.Finding{{State: service.Wrong, What: whatHot, Says: fault.Message(err), Fix: "correct guest.hot"}}
	}
	defer db.Close()
	servers, err := db.Servers(ctx)
	if err != nil {
		return []service.Finding{{
			State: service.Wrong, What: whatHot, Says: db.Where() + ": " + err.Error(),
			Fix: "start Redis, or correct guest.hot; until then guests have no preferences and no lists, and each process limits rates by itself",
		}}
	}
	var found []service.Finding
	for _, server := range servers {
		found = append(found, inspectRedis(server))
	}
	return found
}

// inspectRedis checks one server.
func inspectRedis(s redisdb.Server) service.Finding {
	f := service.Finding{State: service.OK, What: whatHot, Says: "Redis " + s.Version + " at " + s.Address}
	if s.Cluster {
		f.Says += ", in a cluster"
	}
	problem := func(state service.State, says, fix string) service.Finding {
		f.State, f.Says, f.Fix = state, f.Says+": "+says, fix
		return f
	}
	major, _, _ := strings.Cut(s.Version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err == nil && n < 7:
		return problem(service.Wrong, "too old", "install Redis 7 or newer")
	case s.Down:
		return problem(service.Wrong, "the cluster does not serve all keys", "see CLUSTER INFO and CLUSTER SHARDS")
	case s.Replica && !s.Cluster:
		return problem(service.Wrong, "a replica, which accepts no writes", "set guest.hot to the primary")
	case s.MaxMemory > 0 && strings.HasPrefix(s.Eviction, "allkeys-"):
		return problem(service.Warning, fmt.Sprintf("maxmemory-policy is %s, which also deletes keys that do not expire", s.Eviction), "set maxmemory-policy to volatile-lru")
	case s.MaxMemory > 0 && s.Eviction == "noeviction":
		return problem(service.Warning, "maxmemory-policy is noeviction: when Redis is full, sessions and limits are not stored", "set maxmemory-policy to volatile-lru")
	case s.MaxMemory == 0:
		return problem(service.Warning, "maxmemory is not set, so caches may use all memory of the machine", "set maxmemory, and maxmemory-policy to volatile-lru")
	}
	return f
}
