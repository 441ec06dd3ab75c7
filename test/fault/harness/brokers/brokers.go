// Package brokers runs message brokers that fail, and reads the events that servers publish.
package brokers

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"holdfast/internal/testdb"
	"holdfast/test/fault/harness"
)

const topic = "events"

// Describe returns an event's key, and a text that distinguishes events with the same key.
type Describe func(header func(string) string, data []byte) (key, what string)

// Broker is a message broker with a topic and the received events.
type Broker struct {
	URL        string
	Away, Back func() // disconnect and reconnect the broker
	Lose       func(meanwhile func())

	t        *testing.T
	read     func(ctx context.Context)
	describe Describe

	mu   sync.Mutex
	got  map[string][]string // by key, in order
	seen map[string]bool     // event IDs, including earlier topics
}

func (b *Broker) add(header func(string) string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := header("ce-id")
	if b.seen[id] { // delivery is at least once
		return
	}
	b.seen[id] = true
	key, what := b.describe(header, data)
	b.got[key] = append(b.got[key], what)
}

func (b *Broker) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.got)
}

func (b *Broker) has(want map[string][]string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.EqualFunc(b.got, want, slices.Equal)
}

// Await waits until the topic contains exactly these events, in order per key.
func (b *Broker) Await(what string, want map[string][]string) {
	b.t.Helper()
	most := 3 * time.Minute // the relay waits up to a minute after a failure
	for _, events := range want {
		most += time.Duration(len(events)) * 10 * time.Millisecond // each event is read separately
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), most)
	defer cancel()
	for b.read(ctx); !b.has(want); b.read(ctx) {
		if harness.Pause(ctx.Done(), 50*time.Millisecond); harness.Closed(ctx.Done()) {
			b.t.Fatalf("%s: got %v, want %v", what, b.got, want)
		}
	}
}

// Write is a write that publishes an event. Without an acknowledgement, it may or may not have taken effect.
type Write struct {
	What  string
	Acked bool
}

// AwaitWrites waits for the events from all acknowledged writes, in order per key, and fails on an event without a
// write.
func (b *Broker) AwaitWrites(all map[string][]Write) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Minute)
	defer cancel()
	for key, writes := range all {
		for missing := b.missing(key, writes); missing != ""; missing = b.missing(key, writes) {
			if harness.Pause(ctx.Done(), 50*time.Millisecond); harness.Closed(ctx.Done()) || b.t.Failed() {
				b.t.Fatalf("%s: no event of %s", key, missing)
			}
			b.read(ctx)
		}
	}
}

func (b *Broker) missing(key string, all []Write) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got[key]
	for _, w := range all {
		switch {
		case len(got) > 0 && got[0] == w.What:
			got = got[1:]
		case w.Acked:
			return w.What
		}
	}
	if len(got) > 0 {
		b.t.Errorf("%s: events without a write: %v", key, got)
	}
	return ""
}

// NATS starts a NATS server that keeps the topic across restarts.
func NATS(t *testing.T, describe Describe) *Broker {
	t.Helper()
	server := testdb.OwnNATS(t)
	conn, err := nats.Connect("nats://"+server.Address(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	harness.Must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	harness.Must(t, err)
	b := &Broker{
		URL: "nats://" + server.Address() + "/" + topic, t: t, describe: describe, got: map[string][]string{}, seen: map[string]bool{},
		Away: func() { harness.Must(t, server.Kill()) }, Back: func() { harness.Must(t, server.Start()) },
	}
	next := uint64(0)
	b.Lose = func(meanwhile func()) {
		harness.Must(t, js.DeleteStream(t.Context(), topic))
		meanwhile()
		b.read(t.Context())
	}
	b.read = func(ctx context.Context) { // the stream or the server may be missing
		stream, err := js.Stream(ctx, topic)
		if err != nil {
			return
		}
		last := stream.CachedInfo().State.LastSeq
		if last < next {
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

// PubSub starts the Pub/Sub emulator. The emulator keeps events in memory, so an outage only cuts the network.
func PubSub(t *testing.T, describe Describe) *Broker {
	t.Helper()
	server := testdb.OwnPubSub(t)
	network := harness.NetworkTo(t, "tcp", server.Address())
	b := &Broker{
		URL: "pubsub://test/" + topic + "?emulator=" + network.Listener.Addr().String(), t: t, describe: describe, got: map[string][]string{}, seen: map[string]bool{},
		Away: func() { network.Silence(); network.Cut() }, Back: network.Heal, read: func(context.Context) {},
	}
	subscribe := func() (end func()) {
		client, err := pubsub.NewClient(t.Context(), "test", option.WithEndpoint(server.Address()), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
		harness.Must(t, err)
		const name, subscription = "projects/test/topics/" + topic, "projects/test/subscriptions/" + topic
		if _, err := client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); status.Code(err) != codes.AlreadyExists {
			harness.Must(t, err)
		}
		_, err = client.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: subscription, Topic: name, EnableMessageOrdering: true})
		harness.Must(t, err)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var receiving sync.WaitGroup
		receiving.Go(func() {
			err := client.Subscriber(topic).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
				b.add(func(name string) string { return m.Attributes[name] }, m.Data)
				m.Ack()
			})
			if err != nil {
				t.Log(err)
			}
		})
		return sync.OnceFunc(func() {
			cancel()
			receiving.Wait()
			_ = client.Close()
		})
	}
	end := subscribe()
	t.Cleanup(func() { end() })
	b.Lose = func(meanwhile func()) {
		end()
		harness.Must(t, server.Kill())
		harness.Must(t, server.Start())
		meanwhile()
		end = subscribe()
	}
	return b
}
