package guest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestGuestKill kills a server while it commits changes, while it publishes their events, and after the webhook has
// stored events that the server has not marked as published. Afterwards every acknowledged change is committed, and
// exactly the committed changes' events are published, in order per session. The soak uses FAULT_ROUNDS=500.
func TestGuestKill(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		killGuests(t, testdb.SQLite(t), "")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		killGuests(t, t.TempDir(), testdb.PostgresDatabase(t))
	})
}

func killGuests(t *testing.T, data, url string) {
	t.Helper()
	hook := newGuestHook(t)
	var armed atomic.Pointer[func() bool]
	hook.begin = func(string) bool {
		if fn := armed.Swap(nil); fn != nil {
			return (*fn)()
		}
		return true
	}
	vars := []string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false",
		"HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__DATABASE_URL=" + url, "HOLDFAST_GUEST__EVENTS=" + hook.URL,
	}
	vars = append(vars, siteOn(url != "").Vars...)
	if r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), "migrate"); url != "" && r.Status != 0 {
		t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
	}
	g := &guests{t: t, profile: siteOn(url != ""), servers: make([]*binary.Server, 1)}
	random := rand.New(rand.NewPCG(1, harness.Number(t, "FAULT_SEED", 1)))
	var visitors []*visitor
	for round := range int(harness.Number(t, "FAULT_ROUNDS", 3)) {
		s := binary.Start(t, data, vars...)
		g.servers[0] = s
		acknowledged := make(chan struct{}, 1000)
		var all sync.WaitGroup
		for w := range 4 {
			v := g.visitor(fmt.Sprintf("kill-%d-%d", round, w))
			visitors = append(visitors, v)
			all.Go(func() { v.addUntilKilled(acknowledged) })
		}
		for range random.IntN(40) {
			<-acknowledged
		}
		switch kill := round % 3; kill {
		case 0:
			time.Sleep(time.Duration(random.IntN(5000)) * time.Microsecond) // any point in a request
			s.Kill()
		default: // the webhook may or may not store the event
			fn := func() bool { s.Kill(); return kill == 2 }
			armed.Store(&fn)
			select {
			case <-s.Ended:
			case <-time.After(harness.Bound):
				t.Fatal("nothing is published")
			}
		}
		all.Wait()
	}
	if url != "" {
		leftAlone(t, url)
	}
	g.servers[0] = binary.Start(t, data, vars...)
	want := map[string][]string{}
	acknowledged, inDoubt := 0, 0
	for _, v := range visitors {
		got, _ := v.list(0)
		for _, property := range got {
			want[v.Session()] = append(want[v.Session()], "wishlist.added.v1 "+property)
			if v.live[property] {
				acknowledged++
				delete(v.live, property)
			} else {
				inDoubt++
			}
		}
		if len(v.live) > 0 {
			t.Errorf("%s lost %v", v.name, v.live)
		}
	}
	hook.await(t, "after the kills", want)
	g.awaitDrained()
	hook.await(t, "after all was published", want)
	t.Logf("%d changes were acknowledged, %d others committed; %d events were published again", acknowledged, inDoubt, hook.repeated())
}

func (v *visitor) addUntilKilled(acknowledged chan<- struct{}) {
	for n := range 90 {
		status, text, done := v.try(0, "/wishlist", v.site().Wish(n), fmt.Sprint(v.name, "-", n))
		if !done {
			return
		}
		if status != http.StatusCreated {
			v.t.Errorf("add: %d %s", status, text)
			return
		}
		v.live[v.site().Item(n)] = true
		acknowledged <- struct{}{}
	}
}

// leftAlone waits until the database has finished killed servers' statements.
func leftAlone(t *testing.T, url string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	harness.Must(t, err)
	defer func() { harness.Must(t, db.Close(context.Background())) }()
	for start, n := time.Now(), 1; n > 0; harness.Pause(nil, 5*time.Millisecond) {
		harness.Must(t, db.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&n))
		if time.Since(start) > harness.Bound {
			t.Fatal("the database still has connections of a killed server")
		}
	}
}

func (g *guests) awaitDrained() {
	g.t.Helper()
	for start := time.Now(); strings.TrimSpace(g.servers[0].Verb("guest", "outbox", "list", "--json")) != ""; harness.Pause(nil, 200*time.Millisecond) {
		if time.Since(start) > 3*time.Minute { // the relay waits up to a minute after a failure
			g.t.Fatal("events are still pending")
		}
	}
}
