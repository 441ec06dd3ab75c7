package redis_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/clock"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest/hotstatetest"
	"holdfast/internal/guest/redis"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func TestHot(t *testing.T) {
	t.Parallel()
	run(t, testdb.Redis(t))
}

// TestCluster runs the suite on a cluster, where all keys of a script must be on the same node.
func TestCluster(t *testing.T) {
	t.Parallel()
	run(t, testdb.RedisCluster(t)[0].URL())
}

func run(t *testing.T, url string) {
	t.Helper()
	hotstatetest.Run(t, func(t testing.TB) hotstatetest.Harness { return harness(t, url) })
}

func harness(t testing.TB, url string) hotstatetest.Harness {
	t.Helper()
	db, environment := open(t, url), "test-"+ident.New()
	return hotstatetest.Harness{
		Hot:  redis.New(db, environment, clock.System),
		Wait: func(d time.Duration) { time.Sleep(d) },
		Pass: func(t suite.TB, d time.Duration) {
			suite.Must(t, "expire", db.Run(t.Context(), "pass", func(ctx context.Context, c rueidis.Client) error {
				for _, node := range c.Nodes() {
					if err := pass(ctx, node, environment, d); err != nil {
						return err
					}
				}
				return nil
			}))
		},
	}
}

func open(t testing.TB, url string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: url, Timeout: 10 * time.Second, Probe: redis.Probe("test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

var scriptPass = rueidis.NewLuaScript(`
local left = redis.call('PTTL', KEYS[1])
if left < 0 then return 0 end
if left <= tonumber(ARGV[1]) then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], left - tonumber(ARGV[1]))`)

// pass shortens the lives of an environment's keys on a node.
func pass(ctx context.Context, c rueidis.Client, environment string, d time.Duration) error {
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match(environment+":*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		for _, key := range page.Elements {
			if err := scriptPass.Exec(ctx, c, []string{key}, []string{number(d)}).Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

func number(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// TestMain reduces the random tests, whose steps each send a message.
func TestMain(m *testing.M) { suite.Main(m, "5") }
