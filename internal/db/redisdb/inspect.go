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

// Server is a node, for `holdfast check`.
type Server struct {
	Address   string
	Version   string
	Replica   bool
	Cluster   bool
	Down      bool   // some keys are not served
	MaxMemory int64  // bytes; 0 means no limit
	Eviction  string // policy at the limit, e.g. volatile-lru
}

// inspectTimeout limits queries to all cluster nodes. No request waits for them, and some nodes must be connected
// first.
const inspectTimeout = 5 * time.Second

// Servers returns all nodes in the order of their addresses.
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

// ask asks a node for its description.
func ask(ctx context.Context, c rueidis.Client) (s Server, err error) {
	text, err := c.Do(ctx, c.B().Info().Build()).ToString()
	if err != nil {
		return s, err
	}
	info := fields(text)
	s.Version, s.Eviction = info["redis_version"], info["maxmemory_policy"]
	s.Replica = info["role"] == "slave"
	s.Cluster = info["cluster_enabled"] == "1"
	s.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64) // Redis alternatives may omit it
	if s.Cluster {
		text, err := c.Do(ctx, c.B().ClusterInfo().Build()).ToString()
		if err != nil {
			return s, err
		}
		s.Down = fields(text)["cluster_state"] != "ok"
	}
	return s, nil
}

// fields parses name:value lines. In RESP3 the text begins with its format, "txt:".
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			all[name] = value
		}
	}
	return all
}
