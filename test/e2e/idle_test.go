package e2e

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestIdleOnCitus counts the messages from idle processes to Citus workers. Three processes sweep with no more
// messages than one. With default intervals and 32 shards on two workers, a worker receives fewer than 60 per minute.
func TestIdleOnCitus(t *testing.T) {
	t.Parallel()
	const processes, every, rounds = 3, time.Second, 10
	url, data := testdb.CitusDatabase(t), t.TempDir()
	if r := binary.Run(t, binary.Environ(append(allOn(url, every), "HOLDFAST_DATA="+data)...), "migrate"); r.Status != 0 {
		t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
	}
	watch := testdb.WatchCitus(t, url)
	begun := time.Now()
	for range processes {
		binary.Start(t, data, allOn(watch.URL, every)...)
	}
	sent := sentTo{}
	for timeout := time.After(testdb.Patient(10 * time.Minute)); sent.fewestRounds() < rounds; {
		select {
		case <-watch.Arrived:
			sent.add(watch.Messages())
		case <-timeout:
			t.Fatalf("timeout: want %d rounds: %v", rounds, sent)
		}
	}
	inAll := time.Since(begun)/every + 1
	usual := usualInterval(t)
	for worker, texts := range sent {
		shards := len(texts[expiredRecords])
		if shards == 0 {
			continue // the coordinator
		}
		rounds, perRound, perPoll := slices.Max(slices.Collect(maps.Values(texts[expiredRecords]))), 0.0, 0.0
		for text, ofShards := range texts {
			all := 0
			for shard, n := range ofShards {
				if all += n; shard != "" && n > int(inAll) {
					t.Errorf("%d times in %d intervals, to %s: %s", n, inAll, worker, text)
				}
			}
			switch {
			case strings.Contains(text, "ext_storage_outbox"): // each process reads the audit once at its start
				perPoll += 16
			case len(ofShards) > 1:
				perRound += float64(all) / float64(rounds) * 16 / float64(shards)
			default:
				perRound += float64(all) / float64(rounds)
			}
		}
		minute := perRound/usual.Minutes() + perPoll/2
		t.Logf("%s: %.0f messages for a round of all sweeps, %.0f for a poll of the audit, %.1f in a minute", worker, perRound, perPoll, minute)
		if minute >= 60 {
			t.Errorf("%s: %.1f messages in a minute: %v", worker, minute, texts)
		}
	}
}

func allOn(url string, every time.Duration) (vars []string) {
	vars = []string{"SYNC_MASTER_SECRET=shared", "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_BUCKETS__KEY_SECRET=the-same-on-all-machines-32-bytes"}
	for _, service := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "BUCKETS", "GUEST"} {
		vars = append(vars, "HOLDFAST_"+service+"__DATABASE_URL="+url, "HOLDFAST_"+service+"__DATABASE_POOL_CONNECTION_TIMEOUT=30s")
		if service != "TOKENSERVER" {
			vars = append(vars, "HOLDFAST_"+service+"__SWEEP_INTERVAL="+every.String())
		}
	}
	return vars
}

func usualInterval(t *testing.T) time.Duration {
	t.Helper()
	r := binary.Run(t, binary.Environ(), "config", "reference")
	found := regexp.MustCompile("`sweep_interval` \\| duration \\| `\"(\\w+)\"`").FindStringSubmatch(r.Stdout)
	if found == nil {
		t.Fatalf("no sweep interval in the reference:\n%s%s", r.Stdout, r.Stderr)
	}
	d, err := time.ParseDuration(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sentTo counts messages by server, statement (up to its condition, without numbers) and shard.
type sentTo map[string]map[string]map[string]int

var (
	shard  = regexp.MustCompile(`_\d{6,}\b`)
	digits = regexp.MustCompile(`\d+`)
)

// expiredRecords is the beginning of the query for expired records.
const expiredRecords = `issuing SELECT user_id, expiry AS worker_column_N FROM public.bsos`

func (s sentTo) add(messages []testdb.CitusMessage) {
	for _, m := range messages {
		text, _, _ := strings.Cut(m.Text, " WHERE ")
		text = digits.ReplaceAllString(shard.ReplaceAllString(text, ""), "N")
		if strings.HasPrefix(text, expiredRecords) {
			text = expiredRecords
		}
		if s[m.To] == nil {
			s[m.To] = map[string]map[string]int{}
		}
		if s[m.To][text] == nil {
			s[m.To][text] = map[string]int{}
		}
		s[m.To][text][shard.FindString(m.Text)]++
	}
}

// fewestRounds returns how often the sweeps read the whole records table.
func (s sentTo) fewestRounds() int {
	fewest := 0
	for _, texts := range s {
		for _, n := range texts[expiredRecords] {
			if fewest == 0 || n < fewest {
				fewest = n
			}
		}
	}
	return fewest
}

// TestSweepTakenOver checks that another process takes over a sweep from a killed or hanging process.
func TestSweepTakenOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]syscall.Signal{"Killed": syscall.SIGKILL, "Hangs": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.PostgresDatabase(t)
			vars := func(process string) []string {
				return append(onPostgres(testdb.WithParameter(t, url, "application_name", process)), "HOLDFAST_EXTSTORAGE__ENABLED=false",
					"HOLDFAST_BUCKETS__ENABLED=false", "HOLDFAST_SYNCSTORAGE__SWEEP_INTERVAL=100ms", "HOLDFAST_SYNCSTORAGE__SWEEP_AFTER=0")
			}
			first := binary.Launch(t, t.TempDir(), vars("first")...)
			first.Verb("migrate")
			first.Await("/readyz", http.StatusOK)

			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			connect := func() *pgx.Conn {
				t.Helper()
				conn, err := pgx.Connect(t.Context(), url)
				must(err)
				return conn
			}
			// A transaction caches pg_stat_activity at its first use, so another connection holds the lock.
			conn, locker := connect(), connect()
			defer conn.Close(t.Context())
			defer locker.Close(t.Context())
			count := func(sql string) (n int) {
				must(conn.QueryRow(t.Context(), sql).Scan(&n))
				return n
			}
			until := func(what string, done func() bool) {
				for most := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(most) {
						t.Fatalf("timeout: %s", what)
					}
				}
			}
			tx, err := locker.Begin(t.Context())
			must(err)
			_, err = tx.Exec(t.Context(), `LOCK TABLE bsos`)
			must(err)
			until("the first process sweeps", func() bool {
				return count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'first' AND wait_event_type = 'Lock' AND query LIKE '%expiry%'`) > 0
			})
			first.Signal(end)
			must(tx.Commit(t.Context()))

			second := binary.Start(t, t.TempDir(), vars("second")...)
			second.Token(1).Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"x","ttl":1}`)
			until("the second process sweeps", func() bool { return count(`SELECT count(*) FROM bsos`) == 0 })
		})
	}
}
