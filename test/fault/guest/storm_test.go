package guest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/fault/harness"
)

const stormSite = "HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}"

const stormAtOnce = 200

// stormClient reuses connections, because new connections would exhaust the ports.
var stormClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: stormAtOnce}}

// try sends a change to a server that may be down. If done is false, retry the same request.
func (v *visitor) try(server int, path, body, key string) (status int, text string, done bool) {
	a, err := v.ask(server, guest.Call{Method: http.MethodPost, Path: path, Body: body, Key: key})
	return a.Status, a.Body, err == nil && a.Status != http.StatusServiceUnavailable && !guest.IsInFlight(a)
}

func (v *visitor) mint(server int, key string) string {
	for start := time.Now(); time.Since(start) < time.Minute; server++ {
		status, text, done := v.try(server, v.site().Mint(key), v.site().Cargo, key)
		if done && status != http.StatusCreated {
			v.t.Errorf("mint: %d %s", status, text)
		}
		if done {
			return text
		}
		time.Sleep(5 * time.Millisecond) // ignores Retry-After
	}
	v.t.Error("no response from any server for a minute")
	return ""
}

func (v *visitor) handoffs() int {
	status, _, text := v.send(0, http.MethodGet, "/handoff", "", "")
	if status != http.StatusOK {
		v.t.Errorf("GET /handoff: %d %s", status, text)
	}
	return strings.Count(text, `"handoffId"`)
}

// TestGuestRepeatedRequests checks that many requests with one key, through two processes, produce one effect and one
// identical response, although a process is killed and Redis is flushed in between. The same key with another body is
// always refused. The soak uses 200 keys with 1,000 requests each.
func TestGuestRepeatedRequests(t *testing.T) {
	t.Parallel()
	for round := range int(harness.Number(t, "FAULT_ROUNDS", 1)) {
		g := newGuests(t, 2, stormSite)
		keys, racers := 4, 12
		if _, soak := os.LookupEnv("FAULT_ROUNDS"); soak && round == 0 {
			keys, racers = 200, 1000
		}
		free := make(chan struct{}, stormAtOnce)
		var answered sync.WaitGroup // waits for a third of the responses
		answered.Add(keys * racers / 3)
		var slots sync.WaitGroup
		answers := make([][]string, keys)
		var mu sync.Mutex
		first := keys * racers / 3
		visitors := make([]*visitor, keys)
		slots.Go(func() {
			answered.Wait()
			g.servers[1].Kill()
			if _, err := g.redis.Command("FLUSHALL"); err != nil {
				t.Error(err)
			}
		})
		for k := range keys {
			visitors[k] = g.visitor(fmt.Sprintf("repeat-%d-%d", round, k))
			for n := range racers {
				one := *visitors[k]
				free <- struct{}{}
				slots.Go(func() {
					defer func() { <-free }()
					a := one.mint(n, one.name)
					mu.Lock()
					defer mu.Unlock()
					answers[k] = append(answers[k], a)
					if first > 0 {
						first--
						answered.Done()
					}
				})
			}
		}
		slots.Wait()
		for k, v := range visitors {
			v.hasStormed(answers[k])
		}
	}
}

func (v *visitor) hasStormed(answers []string) {
	v.t.Helper()
	for _, a := range answers {
		if a != answers[0] {
			v.t.Errorf("%s: responses %s and %s", v.name, answers[0], a)
		}
	}
	status, text, _ := v.try(0, v.site().Mint(v.name), v.site().Other, v.name)
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, "idempotency-key-reused") {
		v.t.Errorf("another body: %d %s", status, text)
	}
	if n := v.handoffs(); n != 1 {
		v.t.Errorf("%s has %d effects", v.name, n)
	}
}

// TestGuestAbortedTransactions closes database connections so that transactions abort at any time. The response to a
// repeated request must show whether the first was committed, and each key produces one effect.
func TestGuestAbortedTransactions(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	g := newGuests(t, 2, stormSite, "HOLDFAST_GUEST__DATABASE_URL="+url)
	admin, err := pgx.Connect(t.Context(), url)
	harness.Must(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	workers, each := 4, min(100, 10*int(harness.Number(t, "FAULT_ROUNDS", 1))) // a page of handoffs
	cut := make(chan struct{}, 1)                                              // after some responses
	var cutting, working sync.WaitGroup
	var ended int64
	cutting.Go(func() {
		for range cut {
			tag, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`)
			if err != nil {
				t.Error(err)
				return
			}
			ended += tag.RowsAffected()
		}
	})
	visitors := make([]*visitor, workers)
	for w := range workers {
		visitors[w] = g.visitor(fmt.Sprint("abort-", w))
		v := visitors[w]
		working.Go(func() {
			answers := map[string]string{}
			for n := range each {
				select {
				case cut <- struct{}{}:
				default:
				}
				key := fmt.Sprint(v.name, "-", n)
				answers[key] = v.mint(n, key)
			}
			for key, a := range answers {
				if again := v.mint(w, key); again != a {
					t.Errorf("%s: responses %s and %s", key, a, again)
				}
			}
		})
	}
	working.Wait()
	close(cut)
	cutting.Wait()
	if ended == 0 {
		t.Error("no connection was ended")
	}
	for _, v := range visitors {
		if n := v.handoffs(); n != each {
			t.Errorf("%s has %d effects for %d keys", v.name, n, each)
		}
	}
}
