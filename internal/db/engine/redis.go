package engine

import (
	"context"

	"holdfast/internal/db/redisdb"
)

// OpenRedis opens a Redis server or cluster, which Opener.Close closes. setting names the URL's setting within the
// service. Redis may be down.
func (o *Opener) OpenRedis(ctx context.Context, service, setting string, opts redisdb.Options) (*redisdb.DB, error) {
	t, err := Parse(opts.URL, "", Redis)
	if err != nil {
		return nil, &URLError{Setting: service + "." + setting, err: err}
	}
	opts.URL, opts.Observe = t.URL, o.Metrics.Database(service, string(Redis))
	db, err := redisdb.Open(ctx, opts)
	if err == nil {
		o.redis = append(o.redis, db)
	}
	return db, err
}
