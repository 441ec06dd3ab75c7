// Package memory is an in-process broker. Its messages are lost with the process.
package memory

import (
	"context"
	"sync"
	"time"

	"holdfast/internal/broker"
	"holdfast/internal/errcode"
)

type Broker struct {
	mu     sync.Mutex
	topics map[string]map[string]*queue
}

// New returns a broker without topics.
func New() *Broker { return &Broker{topics: map[string]map[string]*queue{}} }

// maxQueue is how many messages a subscription keeps.
const maxQueue = 100_000

// workers is how many messages of a subscription are handled at once.
const workers = 16

// queue is a subscription.
type queue struct {
	items   []*item
	busy    map[string]bool // keys whose message is being handled
	changed chan struct{}   // closed when a message may be ready
}

type item struct {
	broker.Message
	until time.Time // end of processing; zero while waiting
	try   int       // delivery count, because an old delivery must not acknowledge a newer delivery
}

func (m *Broker) Ensure(_ context.Context, topic, subscription string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	if t == nil {
		t = map[string]*queue{}
		m.topics[topic] = t
	}
	if subscription != "" && t[subscription] == nil {
		t[subscription] = &queue{busy: map[string]bool{}, changed: make(chan struct{})}
	}
	return nil
}

// Publish stores all messages or none.
func (m *Broker) Publish(_ context.Context, topic string, messages []broker.Message) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.topics[topic]
	if !ok {
		return broker.Failed(len(messages), errcode.New(errcode.NotFound, "the topic does not exist"))
	}
	for _, q := range t {
		if len(q.items)+len(messages) > maxQueue {
			return broker.Failed(len(messages), errcode.New(errcode.Unavailable, "a subscription of the topic is full"))
		}
	}
	for _, q := range t {
		for _, message := range messages {
			q.items = append(q.items, &item{Message: message})
		}
		q.wake()
	}
	return make([]error, len(messages))
}

func (q *queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// take returns a message to handle, or nil and when to look again.
func (q *queue) take(now time.Time) (next *item, again time.Time) {
	again = now.Add(broker.AckWait)
	waits := map[string]bool{}
	for _, i := range q.items {
		if !i.until.IsZero() && now.Before(i.until) {
			if i.until.Before(again) {
				again = i.until
			}
			continue
		}
		if i.Key != "" {
			if waits[i.Key] || q.busy[i.Key] && i.until.IsZero() {
				continue
			}
			waits[i.Key] = true
			q.busy[i.Key] = true
		}
		i.until = now.Add(broker.AckWait)
		i.try++
		return i, again
	}
	return nil, again
}

func (m *Broker) Subscribe(ctx context.Context, topic, subscription string, handle func(context.Context, *broker.Delivery)) error {
	m.mu.Lock()
	q := m.topics[topic][subscription]
	m.mu.Unlock()
	if q == nil {
		return errcode.New(errcode.NotFound, "the subscription does not exist")
	}
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, workers)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		i := m.await(ctx, q)
		if i == nil {
			return nil
		}
		running.Go(func() {
			defer func() { <-slots }()
			handle(ctx, m.delivery(q, i))
		})
	}
}

// await returns the next message, or nil when ctx ends.
func (m *Broker) await(ctx context.Context, q *queue) *item {
	for ctx.Err() == nil {
		m.mu.Lock()
		i, again := q.take(time.Now())
		changed := q.changed
		m.mu.Unlock()
		if i != nil {
			return i
		}
		timer := time.NewTimer(time.Until(again))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// delivery makes a delivery whose functions do nothing after a redelivery.
func (m *Broker) delivery(q *queue, i *item) *broker.Delivery {
	try := i.try
	current := func(fn func()) func() {
		return func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if i.try == try && !i.until.IsZero() {
				fn()
				q.wake()
			}
		}
	}
	end := func() {
		i.until = time.Time{}
		delete(q.busy, i.Key)
	}
	return &broker.Delivery{
		Message: i.Message,
		Ack: current(func() {
			end()
			for n, other := range q.items {
				if other == i {
					q.items = append(q.items[:n], q.items[n+1:]...)
					break
				}
			}
		}),
		Nack:   current(end),
		Extend: current(func() { i.until = time.Now().Add(broker.AckWait) }),
	}
}

func (m *Broker) Close() error { return nil }
