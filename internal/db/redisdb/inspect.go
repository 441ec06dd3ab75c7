package redisdb

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Server is what a server says about itself.
type Server struct {
	Address   string
	Version   string // such as 7.0.15
	Replica   bool   // it accepts no writes
	Cluster   bool   // it is part of one
	Down      bool   // its cluster does not serve all keys
	MaxMemory int64  // bytes; 0: no limit
	Eviction  string // what it does at the limit, such as volatile-lru
}

// inspectTimeout limits questions to all nodes of a cluster. Nobody who uses a service waits for
// the answers, and some nodes are connected first.
const inspectTimeout = 5 * time.Second

// Servers asks each server that the connection uses.
func (db *DB) Servers(ctx context.Context) (all []Server, err error) {
	err = db.run(ctx, "info", inspectTimeout, func(ctx context.Context, c rueidis.Client) error {
		nodes := c.Nodes()
		for _, address := range slices.Sorted(maps.Keys(nodes)) {
			s, err := ask(ctx, nodes[address])
			if err != nil {
				return err
			}
			s.Address = address
			all = append(all, s)
		}
		return nil
	})
	return all, err
}

func ask(ctx context.Context, c rueidis.Client) (s Server, err error) {
	text, err := c.Do(ctx, c.B().Info().Build()).ToString()
	if err != nil {
		return s, err
	}
	info := fields(text)
	s.Version, s.Eviction = info["redis_version"], info["maxmemory_policy"]
	s.Replica = info["role"] == "slave"
	s.Cluster = info["cluster_enabled"] == "1"
	s.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64) // others than Redis may not say
	if s.Cluster {
		text, err := c.Do(ctx, c.B().ClusterInfo().Build()).ToString()
		if err != nil {
			return s, err
		}
		s.Down = fields(text)["cluster_state"] != "ok"
	}
	return s, nil
}

// fields reads lines of the form name:value. RESP3 puts the format of a text before it.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			all[name] = value
		}
	}
	return all
}
