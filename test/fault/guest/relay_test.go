package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// The broker is away while guests make changes, and later it has lost its topic. No change
// is refused, no event is set aside, and all events arrive in the order of each session.
func TestGuestF2(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *guestBroker{"NATS": onNATS, "PubSub": onPubSub} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "PubSub" {
				testdb.SoakOnly(t, "NATS has shown the same")
			}
			b := open(t)
			g := oneGuestServer(t, "HOLDFAST_GUEST__DATABASE_URL="+testdb.PostgresDatabase(t), "HOLDFAST_GUEST__EVENTS="+b.url, "HOLDFAST_GUEST__EVENT_ATTEMPTS=2")
			visitors := []*visitor{g.visitor("f2-a"), g.visitor("f2-b"), g.visitor("f2-c")}
			want := map[string][]string{}
			change := func(times int) {
				for n := range times {
					for _, v := range visitors {
						want[v.Session()] = append(want[v.Session()], v.toggle(n%50))
					}
				}
			}
			change(5)
			b.await("before", want)
			b.away()
			change(5 * int(harness.Number(t, "FAULT_ROUNDS", 1)))
			g.servers[0].AwaitOutput("could not publish events")
			change(1)
			if dead := g.servers[0].Verb("guest", "dead-letters", "list", "--json"); dead != "" {
				t.Errorf("set aside while the broker was away: %s", dead)
			}
			b.back()
			b.await("after the broker was away", want)

			b.lose(func() {
				change(1) // the server notices it, and creates the topic
				g.awaitDrained()
			})
			clear(want)
			b.forget()
			change(5)
			b.await("after the broker has lost its topic", want)
		})
	}
}

// guestTopic is the topic of the events in these tests.
const guestTopic = "guests"

// guestBroker is a message broker with the received events of a topic.
type guestBroker struct {
	t          *testing.T
	url        string // for guest.events
	away, back func() // the broker cannot be reached, and can again
	lose       func(meanwhile func())
	read       func(ctx context.Context) // adds new events

	mu   sync.Mutex
	got  map[string][]string // event subjects, by session and in order
	seen map[string]bool     // IDs of events, also of earlier topics
}

// add adds an event.
func (b *guestBroker) add(header func(string) string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := header("ce-id")
	if b.seen[id] { // at least once
		return
	}
	var about struct{ PropertyID string }
	if err := json.Unmarshal(data, &about); err != nil {
		b.t.Error(err)
	}
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	if b.got == nil {
		b.got = map[string][]string{}
	}
	b.seen[id] = true
	session := header("ce-partitionkey")
	b.got[session] = append(b.got[session], strings.TrimPrefix(header("ce-type"), "melmastoon.bff.consumer.")+" "+about.PropertyID)
}

// forget forgets the received events.
func (b *guestBroker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = nil
}

// has reports whether the topic has some events, and no others.
func (b *guestBroker) has(want map[string][]string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.EqualFunc(b.got, want, slices.Equal)
}

// await waits until the topic has some events, and no others.
func (b *guestBroker) await(what string, want map[string][]string) {
	b.t.Helper()
	most := 3 * time.Minute // the relay waits up to a minute after a failure
	for _, events := range want {
		most += time.Duration(len(events)) * 10 * time.Millisecond // each is read by itself
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), most)
	defer cancel()
	for b.read(ctx); !b.has(want); b.read(ctx) {
		if harness.Pause(ctx.Done(), 50*time.Millisecond); harness.Closed(ctx.Done()) {
			b.t.Fatalf("%s: got %v, want %v", what, b.got, want)
		}
	}
}

// onNATS returns a NATS server, which keeps the topic over a restart.
func onNATS(t *testing.T) *guestBroker {
	t.Helper()
	server := testdb.OwnNATS(t)
	conn, err := nats.Connect("nats://"+server.Address(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	harness.Must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	harness.Must(t, err)
	b := &guestBroker{
		t: t, url: "nats://" + server.Address() + "/" + guestTopic,
		away: func() { harness.Must(t, server.Kill()) }, back: func() { harness.Must(t, server.Start()) },
	}
	next := uint64(0) // position in the stream
	b.lose = func(meanwhile func()) {
		harness.Must(t, js.DeleteStream(t.Context(), guestTopic))
		meanwhile()
		b.read(t.Context())
	}
	b.read = func(ctx context.Context) { // there may be no stream, or no server
		stream, err := js.Stream(ctx, guestTopic)
		if err != nil {
			return
		}
		last := stream.CachedInfo().State.LastSeq
		if last < next { // of a new stream
			next = 0
		}
		for next < last {
			m, err := stream.GetMsg(ctx, next+1)
			if err != nil {
				return
			}
			next++
			b.add(m.Header.Get, m.Data)
		}
	}
	return b
}

// onPubSub returns the Pub/Sub emulator. It keeps events in memory, so the outage cuts the network instead.
func onPubSub(t *testing.T) *guestBroker {
	t.Helper()
	server := testdb.OwnPubSub(t)
	network := harness.NetworkTo(t, "tcp", server.Address())
	b := &guestBroker{
		t: t, url: "pubsub://test/" + guestTopic + "?emulator=" + network.Listener.Addr().String(),
		away: func() { network.Silence(); network.Cut() }, back: network.Heal, read: func(context.Context) {},
	}
	subscribe := func() (end func()) {
		client, err := pubsub.NewClient(t.Context(), "test", option.WithEndpoint(server.Address()), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
		harness.Must(t, err)
		const topic, subscription = "projects/test/topics/" + guestTopic, "projects/test/subscriptions/" + guestTopic
		if _, err := client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic}); status.Code(err) != codes.AlreadyExists {
			harness.Must(t, err)
		}
		_, err = client.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: subscription, Topic: topic, EnableMessageOrdering: true})
		harness.Must(t, err)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var receiving sync.WaitGroup
		receiving.Go(func() {
			err := client.Subscriber(guestTopic).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
				b.add(func(name string) string { return m.Attributes[name] }, m.Data)
				m.Ack()
			})
			if err != nil {
				t.Log(err) // events will be missing
			}
		})
		return sync.OnceFunc(func() {
			cancel()
			receiving.Wait()
			_ = client.Close() // all was received
		})
	}
	end := subscribe()
	t.Cleanup(func() { end() })
	b.lose = func(meanwhile func()) {
		end()
		harness.Must(t, server.Kill())
		harness.Must(t, server.Start())
		meanwhile()
		end = subscribe()
	}
	return b
}

// While guests make up to 200 changes a second, the broker is away for a time: no change fails, and
// afterwards all events arrive in order. The log has how long changes took, which on a busy machine
// does not depend on the broker. FAULT_MINUTE is how long it is away.
func TestGuestF2Load(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	const perSecond, browsers = 200, 20
	b := onNATS(t)
	g := oneGuestServer(t, "HOLDFAST_GUEST__DATABASE_URL="+testdb.PostgresDatabase(t), "HOLDFAST_GUEST__EVENTS="+b.url)
	lasts := harness.ContentionTime(t)
	visitors, events := make([]*visitor, browsers), make([][]string, browsers)
	for i := range visitors {
		visitors[i] = g.visitor(fmt.Sprint("f2-load-", i))
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
	phase(quarter) // connections are made
	before := phase(quarter)
	b.away()
	away := phase(lasts)
	b.back()
	at := time.Now()
	after := phase(quarter)
	want := map[string][]string{}
	for i, v := range visitors {
		want[v.Session()] = events[i]
	}
	b.await("after the outage", want)
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	t.Logf("p99 of %d changes before %v, of %d while the broker was away %v, of %d afterwards %v; all events were published %v after it was back",
		len(before), p99(before), len(away), p99(away), len(after), p99(after), time.Since(at))
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
	harness.Must(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	want := map[string][]string{}
	_, soak := os.LookupEnv("FAULT_ROUNDS") // a lease of 20 s
	for round := range min(int(harness.Number(t, "FAULT_ROUNDS", 2)), 20) {
		v := g.visitor(fmt.Sprint("f4-", round))
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
		t.Errorf("%d events wait, and %d were set aside", waiting, dead)
	}
}
