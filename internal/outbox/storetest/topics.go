package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/outbox"
)

func storyOf(topic string, streams, n int) []outbox.Event {
	events := story(streams, n)
	for i := range events {
		events[i].Topic, events[i].Stream = topic, strings.Replace(events[i].Stream, "-4000-", fmt.Sprintf("-40%02x-", topic[0]), 1)
	}
	return events
}

func separateTopics(t *testing.T, h Harness) {
	put, third := h.Box(t), h.Topic(t, "third")
	claim(t, put, "one", time.Hour, all, all)
	claim(t, third, "two", time.Hour, all, all)
	claim(t, put, "two", time.Hour, all, 0)
	release(t, third, "two", all)
	claim(t, put, "two", time.Hour, all, 0)
	release(t, put, "one", all)

	want, others := story(3, 3), storyOf("third", 3, 3)
	h.Append(t, false, append(slices.Clone(want), others...)...)
	s := newSink()
	refused := others[len(others)-1]
	s.refuse = refusal(refused, 1, true)
	if n, err := relay(third, s, outbox.Options{Batch: 4}).Pass(t.Context()); n != len(others)-1 || err != nil {
		t.Errorf("%d of %d, %v", n, len(others)-1, err)
	}
	same(t, "events of the topic", inOrder(t, s.published), without(others, refused))
	same(t, "left", waiting(t, put), want)
	for topic, count := range map[string][2]int{Topic: {len(want), 0}, "third": {0, 1}, "unknown": {0, 0}} {
		b := h.Topic(t, topic).(outbox.Counted)
		n, oldest, err := b.Backlog(t.Context())
		if n != count[0] || oldest.IsZero() != (n == 0) || err != nil {
			t.Errorf("%s: %d events since %s, %v", topic, n, oldest, err)
		}
		if n, err := b.CountDead(t.Context()); n != count[1] || err != nil {
			t.Errorf("%s: %d events were set aside, %v", topic, n, err)
		}
	}
	if found, err := put.RetryDead(t.Context(), refused.ID()); !found || err != nil {
		t.Errorf("found: %t, %v", found, err)
	}
	same(t, "queued again", waiting(t, third), []outbox.Event{refused})
}

func unavailableTopic(t *testing.T, h Harness) {
	put, third := h.Box(t), h.Topic(t, "third")
	want, others := story(3, 3), storyOf("third", 3, 3)
	h.Append(t, false, append(slices.Clone(want), others...)...)
	away, broken, good := true, newSink(), newSink()
	broken.fail = func(int, []outbox.Event) (int, error) {
		if away {
			return 0, errors.New("no connection")
		}
		return 0, nil
	}
	stopped := relay(third, broken, outbox.Options{})
	if n, err := stopped.Pass(t.Context()); n != 0 || err == nil {
		t.Errorf("%d events of a sink that is away, %v", n, err)
	}
	if n, err := relay(put, good, outbox.Options{}).Pass(t.Context()); n != len(want) || err != nil {
		t.Errorf("%d of %d, %v", n, len(want), err)
	}
	same(t, "published", inOrder(t, good.published), want)
	away = false
	if n, err := stopped.Pass(t.Context()); n != len(others) || err != nil {
		t.Errorf("%d of %d, %v", n, len(others), err)
	}
	same(t, "published later", inOrder(t, broken.published), others)
	if len(dead(t, put)) > 0 {
		t.Error("events were set aside")
	}
}
