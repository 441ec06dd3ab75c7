package guest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/errcode"

	"holdfast/internal/guest/redis"
)

// whatHot is the checked thing in findings, for each Redis server.
const whatHot = "guest hot state"

// probe checks the dependencies outside the database, for holdfast check.
func (s *Guest) probe(ctx context.Context) []service.Finding {
	return slices.Concat(s.probeHot(ctx), s.probeCatalogue(ctx), s.probeEvents(ctx))
}

// probeEvents checks the sink and the subscription, if they are not in this process. It publishes nothing.
func (s *Guest) probeEvents(ctx context.Context) (findings []service.Finding) {
	// otherwise is the consequence while the broker is unreachable.
	check := func(what, setting, otherwise string) {
		text, err := s.brokers.Check(ctx, setting)
		if err != nil {
			findings = append(findings, service.Finding{State: service.Wrong, What: what, Says: err.Error(), Fix: "correct " + what + ", or make it reachable; until then " + otherwise})
			return
		}
		findings = append(findings, service.Finding{State: service.OK, What: what, Says: text})
	}
	if path, ok := strings.CutPrefix(s.cfg.Sink, "file:"); ok {
		findings = append(findings, service.CheckLines("guest.events", path))
	} else if strings.Contains(s.cfg.Sink, "://") {
		check("guest.events", s.cfg.Sink, "events stay in the database")
	}
	if s.cfg.Receive != "" {
		check("guest.receive", s.cfg.Receive, "tenants are neither suspended nor reinstated")
	}
	return findings
}

// probeHot returns a finding for each Redis server, or a single finding if hot state is in memory or no server can be
// reached.
func (s *Guest) probeHot(ctx context.Context) []service.Finding {
	if s.cfg.Hot == hotMemory {
		f := service.Finding{State: service.OK, What: whatHot, Says: "in the process's memory, and in the database"}
		if strings.HasPrefix(s.cfg.DatabaseURL, "postgres") {
			f.State, f.Says = service.Warning, "in each process's memory: a restart loses guests' preferences, attributes, searches and recently viewed items, and several processes lose them from one request to the next"
			f.Fix = "set guest.hot to a Redis URL"
		}
		return []service.Finding{f}
	}
	db, err := redisdb.Open(ctx, redisdb.Options{URL: s.cfg.Hot, Timeout: maxHotTimeout, Probe: redis.Probe(s.cfg.HotPrefix)})
	if err != nil {
		return []service.Finding{{State: service.Wrong, What: whatHot, Says: errcode.Message(err), Fix: "correct guest.hot"}}
	}
	defer db.Close()
	servers, err := db.Servers(ctx)
	if err != nil {
		return []service.Finding{{
			State: service.Wrong, What: whatHot, Says: db.Where() + ": " + err.Error(),
			Fix: "start Redis, or correct guest.hot; until then guests lose preferences, attributes, searches and recently viewed items, and each process limits rates by itself",
		}}
	}
	var findings []service.Finding
	for _, server := range servers {
		findings = append(findings, inspectRedis(server))
	}
	return findings
}

// inspectRedis reports the first problem of a Redis server, the worst first. Hot state needs Redis 7, and an eviction
// policy that removes only keys with an expiry, because the others are not caches.
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
		return problem(service.Warning, "maxmemory is not set, so caches may use all the machine's memory", "set maxmemory, and maxmemory-policy to volatile-lru")
	}
	return f
}
