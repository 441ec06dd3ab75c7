package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// The broker is away while guests make changes, and later it has lost its stream. No
// change is refused, no event is set aside, and all events arrive in the order of each
// session.
func TestGuestF2(t *testing.T) {
	t.Parallel()
	const topic = "guests"
	server := testdb.OwnNATS(t)
	g := oneGuestServer(t, "HOLDFAST_GUEST__DATABASE_URL="+testdb.PostgresDatabase(t), "HOLDFAST_GUEST__EVENTS=nats://"+server.Address()+"/"+topic,
		"HOLDFAST_GUEST__EVENT_ATTEMPTS=2")
	visitors := []*visitor{g.visitor("f2-a"), g.visitor("f2-b"), g.visitor("f2-c")}
	want := map[string][]string{}
	change := func(times int) {
		for n := range times {
			for _, v := range visitors {
				want[v.session()] = append(want[v.session()], v.toggle(n%50))
			}
		}
	}
	b := &natsReader{t: t, topic: topic, seen: map[string]bool{}}
	conn, err := nats.Connect("nats://"+server.Address(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	must(t, err)
	t.Cleanup(conn.Close)
	b.js, err = jetstream.New(conn)
	must(t, err)

	change(5)
	b.await("before", want)
	must(t, server.Kill())
	change(5 * int(number(t, "FAULT_ROUNDS", 1)))
	g.servers[0].AwaitOutput("could not publish events")
	change(1)
	if dead := g.servers[0].Verb("guest", "dead-letters", "list", "--json"); dead != "" {
		t.Errorf("set aside while the broker was away: %s", dead)
	}
	must(t, server.Start())
	b.await("after the broker was away", want)

	must(t, b.js.DeleteStream(t.Context(), topic))
	clear(want)
	change(5)
	b.forget()
	b.await("after the broker has lost its stream", want)
}

// natsReader reads the stream of a topic.
type natsReader struct {
	t     *testing.T
	js    jetstream.JetStream
	topic string
	next  uint64              // position in the stream
	got   map[string][]string // what the events are about, by session and in order
	seen  map[string]bool     // IDs of events, also of earlier streams
}

// forget begins with a new stream.
func (b *natsReader) forget() { b.next, b.got = 0, nil }

// await waits until the stream has some events, and no others.
func (b *natsReader) await(what string, want map[string][]string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Minute) // the relay waits up to a minute after a failure
	defer cancel()
	for b.read(ctx); fmt.Sprint(b.got) != fmt.Sprint(want); b.read(ctx) { // maps are printed in order
		if pause(ctx.Done(), 50*time.Millisecond); closed(ctx.Done()) {
			b.t.Fatalf("%s: got %v, want %v", what, b.got, want)
		}
	}
}

// read reads what the stream has. There may be no stream, or no server.
func (b *natsReader) read(ctx context.Context) {
	b.t.Helper()
	stream, err := b.js.Stream(ctx, b.topic)
	if err != nil {
		return
	}
	last := stream.CachedInfo().State.LastSeq
	for b.next < last {
		m, err := stream.GetMsg(ctx, b.next+1)
		if err != nil {
			return
		}
		b.next++
		if id := m.Header.Get("ce-id"); !b.seen[id] { // at least once
			b.seen[id] = true
			var data struct{ PropertyID string }
			must(b.t, json.Unmarshal(m.Data, &data))
			if b.got == nil {
				b.got = map[string][]string{}
			}
			session := m.Header.Get("ce-partitionkey")
			b.got[session] = append(b.got[session], strings.TrimPrefix(m.Header.Get("ce-type"), "melmastoon.bff.consumer.")+" "+data.PropertyID)
		}
	}
}

// One of two relays stops in the middle of a publication, until its lease has ended and
// the other one has published that event and later ones. Then it continues. Events arrive
// in the order of each session, and some of them again.
func TestGuestF4(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	hook := newGuestHook(t)
	arm, held, release := make(chan bool, 1), make(chan int), make(chan bool)
	hook.begin = func(path string) (accept bool) {
		select {
		case <-arm: // the next publication stops here
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
	must(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	want := map[string][]string{}
	_, soak := os.LookupEnv("FAULT_ROUNDS") // a lease of 20 s
	for round := range min(int(number(t, "FAULT_ROUNDS", 2)), 20) {
		v := g.visitor(fmt.Sprint("f4-", round))
		events := func(more ...string) { want[v.session()] = append(want[v.session()], more...) }
		arm <- true
		events(v.addAt(round, 1))
		frozen := -1
		select {
		case frozen = <-held:
		case <-time.After(bound):
			t.Fatal("nothing is published")
		}
		g.servers[frozen].Signal(syscall.SIGSTOP)
		t.Cleanup(func() { g.servers[frozen].Signal(syscall.SIGCONT) })
		events(v.addAt(1-frozen, 2), v.addAt(1-frozen, 3))
		if !soak || round%2 == 1 {
			_, err := db.Exec(t.Context(), `UPDATE bff_consumer.outbox_relay SET held_until = '-infinity'`)
			must(t, err)
		}
		hook.await(t, "while a relay is stopped", want)
		g.servers[frozen].Signal(syscall.SIGCONT)
		release <- round%2 == 0
		events(v.addAt(frozen, 4), v.addAt(1-frozen, 5))
		hook.await(t, "after it has continued", want)
	}
	var waiting, dead int
	for deadline := time.Now().Add(bound); ; {
		must(t, db.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE published_at IS NULL), count(dead_at) FROM bff_consumer.outbox`).Scan(&waiting, &dead))
		if waiting == 0 || time.Now().After(deadline) {
			break
		}
		pause(nil, 20*time.Millisecond)
	}
	if !slices.Equal([]int{waiting, dead}, []int{0, 0}) {
		t.Errorf("%d events wait, and %d were set aside", waiting, dead)
	}
}
