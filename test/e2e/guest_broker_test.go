package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// TestGuestBrokers publishes guest events to Pub/Sub and NATS, and receives tenant events from them.
func TestGuestBrokers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url string
		use func(t *testing.T, topic string) (next func() (kind, key string), send func(kind, id, body string))
	}{
		"PubSub": {"pubsub://test/%s%s?emulator=" + testdb.PubSub(t), usePubSub},
		"NATS":   {"nats://" + testdb.NATS(t) + "/%s%s", useNATS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic, tenants := "guests"+rand.Text(), "tenants"+rand.Text()
			next, _ := c.use(t, topic)
			_, send := c.use(t, tenants)
			data := t.TempDir()
			vars := []string{
				"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__EVENTS=" + fmt.Sprintf(c.url, topic, ""),
				"HOLDFAST_GUEST__RECEIVE=" + fmt.Sprintf(c.url, tenants, "/holdfast-"+tenants),
			}
			s := binary.Start(t, data, vars...)
			v := newVisitor(t, s)
			if status, text := v.send(s, http.MethodPost, "/wishlist", guest.Wish(1), "one"); status != http.StatusCreated {
				t.Fatal(status, text)
			}
			if kind, key := next(); kind != "melmastoon.bff.consumer.wishlist.added.v1" || !strings.HasPrefix(key, "gms_") {
				t.Errorf("got %s from %s", kind, key)
			}
			// The subscription may start a moment after the server, so the test repeats the event until it takes effect: the same
			// ID with another body goes into quarantine.
			send("tenant.suspended.v1", "first", `{"tenantId":"11111111-2222-4333-8444-555555555555","reason":"unpaid"}`)
			for deadline := time.Now().Add(time.Minute); ; {
				send("tenant.suspended.v1", "first", `{"tenantId":"11111111-2222-4333-8444-555555555556","reason":"forged"}`)
				r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), "guest", "quarantine", "list", "--json")
				if r.Status == 0 && strings.Contains(r.Stdout, "first") {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s%s", r.Stdout, r.Stderr)
				}
				send("tenant.suspended.v1", "first", `{"tenantId":"11111111-2222-4333-8444-555555555555","reason":"unpaid"}`)
			}
		})
	}
}

func usePubSub(t *testing.T, topic string) (next func() (kind, key string), send func(kind, id, body string)) {
	t.Helper()
	client, err := pubsub.NewClient(t.Context(), "test", option.WithEndpoint(testdb.PubSub(t)), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	name := "projects/test/topics/" + topic
	if _, err := client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: "projects/test/subscriptions/test-" + topic, Topic: name, EnableMessageOrdering: true,
	}); err != nil {
		t.Fatal(err)
	}
	next = func() (kind, key string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client.Subscriber("test-"+topic).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
			m.Ack()
			kind, key = m.Attributes["ce-type"], m.OrderingKey
			cancel()
		}); err != nil {
			t.Error(err)
		}
		return kind, key
	}
	send = func(kind, id, body string) {
		p := client.Publisher(topic)
		defer p.Stop()
		if _, err := p.Publish(t.Context(), &pubsub.Message{Data: []byte(body), Attributes: map[string]string{
			"content-type": "application/json", "ce-specversion": "1.0", "ce-id": id, "ce-source": "/tenants", "ce-type": kind, "ce-time": "2026-11-01T12:00:00Z",
		}}).Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return next, send
}

func openNATS(t *testing.T, topic string) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	conn, err := nats.Connect("nats://" + testdb.NATS(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	return js, stream
}

func useNATS(t *testing.T, topic string) (next func() (kind, key string), send func(kind, id, body string)) {
	t.Helper()
	js, stream := openNATS(t, topic)
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	next = func() (kind, key string) {
		m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return m.Headers().Get("ce-type"), m.Headers().Get("ce-partitionkey")
	}
	send = func(kind, id, body string) {
		header := nats.Header{}
		for name, value := range map[string]string{
			"content-type": "application/json", "ce-specversion": "1.0", "ce-id": id, "ce-source": "/tenants", "ce-type": kind, "ce-time": "2026-11-01T12:00:00Z",
		} {
			header.Set(name, value)
		}
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: topic, Header: header, Data: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	return next, send
}
