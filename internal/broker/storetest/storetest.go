// Package storetest is the conformance suite for broker.Broker.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/broker"
	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// Harness opens the broker under test.
type Harness struct {
	Open     func(t testing.TB) broker.Broker
	MaxBytes int // larger messages are permanently refused; 0 means no limit
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for name, check := range map[string]func(*testing.T, broker.Broker){
		"Values": values, "Order": order, "Nack": nack, "Subscriptions": subscriptions, "Unknown": unknown, "Resume": resume,
		"Large": func(t *testing.T, b broker.Broker) { large(t, b, h.MaxBytes) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := h.Open(t)
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
			check(t, b)
		})
	}
}

// Topic returns a new name, so that tests share a broker.
func Topic() string { return "t" + ident.New() }

func Message(key string, n int) broker.Message {
	return broker.Message{Key: key, Event: broker.Event{
		ID: fmt.Sprintf("%s-%d", key, n), Source: "/test", Type: "test.v1", Time: time.Unix(1_790_000_000, 0).UTC(), ContentType: "application/json",
		Extensions: map[string]string{broker.PartitionKey: key, broker.Sequence: fmt.Sprint(n)}, Data: fmt.Appendf(nil, `{"n":%d}`, n),
	}}
}

// Messages returns n messages per key, interleaved.
func Messages(keys, n int) (all []broker.Message) {
	for i := range n {
		for key := range keys {
			all = append(all, Message(fmt.Sprint("key", key), i))
		}
	}
	return all
}

func Ensure(t testing.TB, b broker.Broker, topic, subscription string) {
	t.Helper()
	if err := b.Ensure(t.Context(), topic, subscription); err != nil {
		t.Fatal(err)
	}
}

// Publish publishes messages, which must succeed.
func Publish(t testing.TB, b broker.Broker, topic string, messages ...broker.Message) {
	t.Helper()
	for i, err := range b.Publish(t.Context(), topic, messages) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// Receive receives messages until done accepts the acknowledged messages.
func Receive(t testing.TB, b broker.Broker, topic, subscription string, accept func(*broker.Delivery) bool, done func([]broker.Message) bool) []broker.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var got []broker.Message
	complete := false
	err := b.Subscribe(ctx, topic, subscription, func(_ context.Context, d *broker.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		if complete || accept != nil && !accept(d) {
			d.Nack()
			return
		}
		d.Extend()
		got = append(got, d.Message)
		d.Ack()
		if complete = done(got); complete {
			cancel()
		}
	})
	if err != nil || !complete {
		t.Fatalf("got %d messages, %v", len(got), err)
	}
	return got
}

// Count accepts n distinct messages.
func Count(n int) func([]broker.Message) bool {
	return func(got []broker.Message) bool {
		ids := map[string]bool{}
		for _, m := range got {
			ids[m.ID] = true
		}
		return len(ids) == n
	}
}

func values(t *testing.T, b broker.Broker) {
	topic := Topic()
	Ensure(t, b, topic, topic+"-sub")
	Ensure(t, b, topic, topic+"-sub")
	want := Message("a key", 1)
	want.Subject, want.Type, want.Extensions["text"] = `wsh_"1" 100 % ключ 😀`, "a.b.c.v1", " x "
	binary := Message("a key", 2)
	binary.Data, binary.ContentType = []byte{0, 1, 255}, "application/octet-stream"
	empty := broker.Message{Event: broker.Event{ID: "3", Source: "/test", Type: "test.v1", ContentType: "application/json"}}
	Publish(t, b, topic, want, binary, empty)
	got := Receive(t, b, topic, topic+"-sub", nil, Count(3))
	for _, w := range []broker.Message{want, binary, empty} {
		i := slices.IndexFunc(got, func(m broker.Message) bool { return m.ID == w.ID })
		g := got[i]
		if g.Key != w.Key || g.Source != w.Source || g.Type != w.Type || g.Subject != w.Subject || !g.Time.Equal(w.Time) ||
			g.ContentType != w.ContentType || !maps.Equal(g.Extensions, w.Extensions) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
}

func order(t *testing.T, b broker.Broker) {
	const keys, n = 7, 60
	topic := Topic()
	Ensure(t, b, topic, topic+"-sub")
	all := Messages(keys, n)
	for batch := range slices.Chunk(all, 100) {
		Publish(t, b, topic, batch...)
	}
	last := map[string]string{}
	for _, m := range Receive(t, b, topic, topic+"-sub", nil, Count(keys*n)) {
		if was, now := last[m.Key], fmt.Sprintf("%05s", m.Extensions[broker.Sequence]); now < was {
			t.Errorf("%s: %s after %s", m.Key, now, was)
		} else {
			last[m.Key] = now
		}
	}
}

func nack(t *testing.T, b broker.Broker) {
	const keys, n = 3, 10
	topic := Topic()
	Ensure(t, b, topic, topic+"-sub")
	Publish(t, b, topic, Messages(keys, n)...)
	tries := map[string]int{}
	Receive(t, b, topic, topic+"-sub", func(d *broker.Delivery) bool {
		tries[d.ID]++
		return d.Extensions[broker.Sequence] != "4" || tries[d.ID] > 2
	}, Count(keys*n))
	for key := range keys {
		if id := fmt.Sprintf("key%d-4", key); tries[id] < 3 {
			t.Errorf("%s was delivered %d times", id, tries[id])
		}
	}
}

func subscriptions(t *testing.T, b broker.Broker) {
	topic := Topic()
	Ensure(t, b, topic, "")
	Publish(t, b, topic, Message("early", 0))
	for _, name := range []string{"one", "two"} {
		Ensure(t, b, topic, topic+name)
	}
	Publish(t, b, topic, Messages(2, 3)...)
	for _, name := range []string{"one", "two"} {
		for _, m := range Receive(t, b, topic, topic+name, nil, Count(6)) {
			if m.Key == "early" {
				t.Error("a subscription got a message that was published before it was created")
			}
		}
	}
}

func unknown(t *testing.T, b broker.Broker) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	results := b.Publish(ctx, Topic(), Messages(1, 2))
	if len(results) != 2 || !errcode.Is(results[0], errcode.NotFound) || results[1] == nil {
		t.Errorf("published to an unknown topic: %v", results)
	}
	err := b.Subscribe(ctx, Topic(), Topic(), func(_ context.Context, d *broker.Delivery) { t.Errorf("got %v", d.Message) })
	if !errcode.Is(err, errcode.NotFound) {
		t.Errorf("an unknown subscription: %v", err)
	}
	topic := Topic()
	if results := b.Publish(ctx, topic, Messages(1, 1)); results[0] == nil {
		t.Error("published to an unknown topic")
	}
	Ensure(t, b, topic, topic+"-sub")
	Publish(t, b, topic, Messages(1, 1)...)
	Receive(t, b, topic, topic+"-sub", nil, Count(1))
}

func resume(t *testing.T, b broker.Broker) {
	topic := Topic()
	Ensure(t, b, topic, topic+"-sub")
	Publish(t, b, topic, Messages(1, 10)...)
	first := Receive(t, b, topic, topic+"-sub", nil, Count(4))
	rest := Receive(t, b, topic, topic+"-sub", nil, func(got []broker.Message) bool { return Count(10)(append(slices.Clone(first), got...)) })
	if len(rest) < 6 {
		t.Errorf("%d and %d messages", len(first), len(rest))
	}
}

func large(t *testing.T, b broker.Broker, most int) {
	if most == 0 {
		t.Skip("no limit")
	}
	topic := Topic()
	Ensure(t, b, topic, topic+"-sub")
	m := Message("large", 0)
	m.Data = make([]byte, most+1)
	results := b.Publish(t.Context(), topic, []broker.Message{m, Message("large", 1), Message("other", 2)})
	if _, ok := errors.AsType[*broker.PermanentError](results[0]); !ok || results[1] == nil || results[2] != nil {
		t.Errorf("%v", results)
	}
	Publish(t, b, topic, Message("large", 3))
	for _, got := range Receive(t, b, topic, topic+"-sub", nil, Count(2)) {
		if got.ID == m.ID || got.ID == "large-1" {
			t.Errorf("%s was published", got.ID)
		}
	}
}
