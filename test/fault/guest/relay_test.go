package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
	"holdfast/test/fault/harness/brokers"
)

// TestGuestBrokerOutage disconnects the broker while guests make changes, and later deletes its topic. No change is
// refused, no event is set aside, and all events arrive in order per session.
func TestGuestBrokerOutage(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, brokers.Describe) *brokers.Broker{"NATS": brokers.NATS, "PubSub": brokers.PubSub} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "PubSub" {
				testdb.SoakOnly(t, "NATS has shown the same")
			}
			b := open(t, describe(t))
			g := oneGuestServer(t, "HOLDFAST_GUEST__DATABASE_URL="+testdb.PostgresDatabase(t), "HOLDFAST_GUEST__EVENTS="+b.URL, "HOLDFAST_GUEST__EVENT_ATTEMPTS=2")
			visitors := []*visitor{g.visitor("broker-a"), g.visitor("broker-b"), g.visitor("broker-c")}
			want := map[string][]string{}
			change := func(times int) {
				for n := range times {
					for _, v := range visitors {
						want[v.Session()] = append(want[v.Session()], v.toggle(n%50))
					}
				}
			}
			change(5)
			b.Await("before", want)
			b.Away()
			change(5 * int(harness.Number(t, "FAULT_ROUNDS", 1)))
			g.servers[0].AwaitOutput("could not publish events")
			change(1)
			if dead := g.servers[0].Verb("guest", "dead-letters", "list", "--json"); dead != "" {
				t.Errorf("set aside while the broker was away: %s", dead)
			}
			b.Back()
			b.Await("after the broker was away", want)

			b.Lose(func() {
				change(1) // makes the server notice the missing topic and create it
				g.awaitDrained()
			})
			clear(want)
			b.Forget()
			change(5)
			b.Await("after the broker has lost its topic", want)
		})
	}
}

func describe(t *testing.T) brokers.Describe {
	return func(header func(string) string, data []byte) (session, what string) {
		var about struct{ PropertyID, ItemID string }
		if err := json.Unmarshal(data, &about); err != nil {
			t.Error(err)
		}
		return header("ce-partitionkey"), strings.TrimPrefix(strings.TrimPrefix(header("ce-type"), guest.HotelSearch.Prefix), guest.Shop.Prefix) + " " + about.PropertyID + about.ItemID
	}
}

// TestGuestBrokerOutageUnderLoad disconnects the broker for FAULT_MINUTE while guests make up to 200 changes a second.
// No change fails, and afterwards all events arrive in order. The test only logs how long changes take, because that
// depends on the machine.
func TestGuestBrokerOutageUnderLoad(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	const perSecond, browsers = 200, 20
	b := brokers.NATS(t, describe(t))
	g := oneGuestServer(t, "HOLDFAST_GUEST__DATABASE_URL="+testdb.PostgresDatabase(t), "HOLDFAST_GUEST__EVENTS="+b.URL)
	lasts := harness.ContentionTime(t)
	visitors, events := make([]*visitor, browsers), make([][]string, browsers)
	for i := range visitors {
		visitors[i] = g.visitor(fmt.Sprint("load-", i))
	}
	phase := func(lasts time.Duration) (took []time.Duration) {
		t.Helper()
		var mu sync.Mutex
		var all sync.WaitGroup
		for i, v := range visitors {
			all.Go(func() {
				harness.Pause(nil, time.Duration(i)*time.Second/perSecond)
				tick := time.NewTicker(browsers * time.Second / perSecond)
				defer tick.Stop()
				for start := time.Now(); time.Since(start) < lasts; <-tick.C {
					at := time.Now()
					events[i] = append(events[i], v.toggle(len(events[i])%50))
					mu.Lock()
					took = append(took, time.Since(at))
					mu.Unlock()
				}
			})
		}
		all.Wait()
		slices.Sort(took)
		return took
	}
	quarter := max(lasts/4, 5*time.Second)
	phase(quarter)
	before := phase(quarter)
	b.Away()
	away := phase(lasts)
	b.Back()
	at := time.Now()
	after := phase(quarter)
	want := map[string][]string{}
	for i, v := range visitors {
		want[v.Session()] = events[i]
	}
	b.Await("after the outage", want)
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	t.Logf("p99 of %d changes before %v, of %d while the broker was away %v, of %d afterwards %v; all events were published %v after it was back",
		len(before), p99(before), len(away), p99(away), len(after), p99(after), time.Since(at))
}

// TestGuestPausedRelay pauses one of two relays during a publication until its lease has expired and the other relay
// has published this event and later events. Then the relay continues. Events arrive in order per session; some arrive
// twice.
func TestGuestPausedRelay(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	hook := newGuestHook(t)
	arm, held, release := make(chan bool, 1), make(chan int), make(chan bool)
	hook.begin = func(path string) (accept bool) {
		select {
		case <-arm: // blocks the next publication
			held <- strings.Index("01", strings.TrimPrefix(path, "/"))
			return <-release
		default:
			return true
		}
	}
	g := guestsOf(t, 2, func(i int, data string, vars []string) *binary.Server {
		return binary.Start(t, data, append(vars, fmt.Sprintf("HOLDFAST_GUEST__EVENTS=%s/%d", hook.URL, i))...)
	}, "HOLDFAST_GUEST__DATABASE_URL="+url)
	db, err := pgx.Connect(t.Context(), url)
	harness.Must(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	want := map[string][]string{}
	_, soak := os.LookupEnv("FAULT_ROUNDS") // the lease lasts 20 s
	for round := range min(int(harness.Number(t, "FAULT_ROUNDS", 2)), 20) {
		v := g.visitor(fmt.Sprint("paused-", round))
		events := func(more ...string) { want[v.Session()] = append(want[v.Session()], more...) }
		arm <- true
		events(v.addAt(round, 1))
		frozen := -1
		select {
		case frozen = <-held:
		case <-time.After(harness.Bound):
			t.Fatal("nothing is published")
		}
		g.servers[frozen].Signal(syscall.SIGSTOP)
		t.Cleanup(func() { g.servers[frozen].Signal(syscall.SIGCONT) })
		events(v.addAt(1-frozen, 2), v.addAt(1-frozen, 3))
		if !soak || round%2 == 1 {
			_, err := db.Exec(t.Context(), `UPDATE bff_consumer.outbox_relay SET held_until = '-infinity'`)
			harness.Must(t, err)
		}
		hook.await(t, "while a relay is stopped", want)
		g.servers[frozen].Signal(syscall.SIGCONT)
		release <- round%2 == 0
		events(v.addAt(frozen, 4), v.addAt(1-frozen, 5))
		hook.await(t, "after it has continued", want)
	}
	var waiting, dead int
	for deadline := time.Now().Add(harness.Bound); ; {
		harness.Must(t, db.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE published_at IS NULL), count(dead_at) FROM bff_consumer.outbox`).Scan(&waiting, &dead))
		if waiting == 0 || time.Now().After(deadline) {
			break
		}
		harness.Pause(nil, 20*time.Millisecond)
	}
	if !slices.Equal([]int{waiting, dead}, []int{0, 0}) {
		t.Errorf("%d events pending, %d set aside", waiting, dead)
	}
}
