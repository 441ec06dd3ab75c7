package buckets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

// notified opens buckets with the destination hook and an unreachable destination, and a bucket that notifies hook.
func notified(t *testing.T) (s *Buckets, owner buckets.AccountID, b buckets.BucketRef) {
	t.Helper()
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = openBucketsAt(t, t.TempDir(), clock.System, "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL="+hook.URL, "HOLDFAST_BUCKETS__DESTINATIONS__GONE__URL=nats://"+l.Addr().String()+"/topic")
	owner, b, _ = s.stored(t, "a body")
	if err := s.opened.SetNotifications(t.Context(), owner, b, buckets.Notifications{Rules: []buckets.NotificationRule{
		{ID: "all", Target: buckets.TargetQueue, ARN: "arn:holdfast:webhook:::hook", Events: []string{"s3:ObjectCreated:*", "s3:ObjectRemoved:*"}},
	}}); err != nil {
		t.Fatal(err)
	}
	if tests := s.waiting(t, "hook"); len(tests) != 1 || s.refuse(t, "hook") != 1 {
		t.Fatalf("%+v", tests)
	}
	all, err := s.listDead(t.Context(), operate.Page[string]{Limit: 9})
	if err != nil || len(all) != 1 || all[0].Type != "s3:TestEvent" || all[0].Account != "main" || all[0].Object != "photos" {
		t.Fatalf("%+v, %v", all, err)
	}
	if found, err := s.publisher.dead.DropDead(t.Context(), mustParse(t, all[0].ID)); !found || err != nil {
		t.Fatal(found, err)
	}
	return s, owner, b
}

// refuse sets a destination's waiting events aside, as the relay does if the destination refuses them.
func (s *Buckets) refuse(t *testing.T, destination string) (n int) {
	t.Helper()
	for _, e := range s.waiting(t, destination) {
		if err := s.publisher.boxes[destination].Refuse(t.Context(), e, "too large", func(int) outbox.Decision {
			return outbox.Decision{SetAside: true, At: s.deps.Clock()}
		}); err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func (s *Buckets) waiting(t *testing.T, destination string) []outbox.Event {
	t.Helper()
	q := outbox.Query{Limit: 1000, Now: s.deps.Clock()}
	for p := range outbox.Partitions {
		q.Parts |= outbox.PartsOf(p)
	}
	events, _, err := s.publisher.boxes[destination].Next(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestDeadLettersAPI also checks the count on the overview.
func TestDeadLettersAPI(t *testing.T) {
	t.Parallel()
	s, owner, b := notified(t)
	o := newOperator(t, s)
	put := func(n int) {
		t.Helper()
		for i := range n {
			if _, err := s.opened.PutObject(t.Context(), owner, b, buckets.PutRequest{Object: buckets.Object{Name: fmt.Sprintf("a/%d.jpg", i)}, Size: 1}, text{bytes.NewReader([]byte("x"))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(5)
	facts := func(want ...string) {
		t.Helper()
		got, err := s.publisher.backlogs(t.Context())
		all := make([]string, len(got))
		for i, f := range got {
			all[i] = f.Name + ": " + f.Cell.Text
		}
		if err != nil || strings.Join(all, ", ") != strings.Join(want, ", ") {
			t.Errorf("%v, %v; want %v", all, err, want)
		}
	}
	facts("Notifications to gone: 0 events", "Notifications to hook: 5 events", "Notifications set aside: 0 events")
	s.refuse(t, "hook")
	facts("Notifications to gone: 0 events", "Notifications to hook: 0 events", "Notifications set aside: 5 events")

	type page struct {
		Events []deadOutput
		Next   *string
	}
	var all []deadOutput
	for after := ""; ; {
		var p page
		if err := json.Unmarshal([]byte(o.send(200, "", "GET", "/buckets/dead-letters?limit=2"+after, "").Text), &p); err != nil || len(p.Events) > 2 {
			t.Fatal(err, len(p.Events))
		}
		all = append(all, p.Events...)
		if p.Next == nil {
			break
		}
		after = "&after=" + *p.Next
	}
	seen := map[string]bool{}
	for _, e := range all {
		if e.Type != "s3:ObjectCreated:Put" || e.Account != "main" || !strings.HasPrefix(e.Object, "photos/a/") || e.Destination != "hook" || e.Error != "too large" || e.Attempts != 1 {
			t.Errorf("%+v", e)
		}
		seen[e.Object] = true
	}
	if len(all) != 5 || len(seen) != 5 {
		t.Fatalf("%d events of %d objects", len(all), len(seen))
	}
	at := func(i int) string { return "/buckets/dead-letters/" + all[i].ID }
	o.send(200, `"key":"`+strings.TrimPrefix(all[0].Object, "photos/"), "GET", at(0), "")
	o.send(200, `{"events":1}`, "POST", at(0)+"/drop", "")
	o.send(200, `{"events":1}`, "POST", at(1)+"/retry", "")
	for _, path := range []string{at(0), at(1), "/buckets/dead-letters/evt_", "/buckets/dead-letters/evt_AAAA", "/buckets/dead-letters/" + all[2].ID[1:], "/buckets/dead-letters/" + all[2].ID + "A"} {
		o.send(404, "no such set-aside event", "GET", path, "")
		o.send(404, "no such set-aside event", "POST", path+"/drop", "")
		o.send(404, "no such set-aside event", "POST", path+"/retry", "")
	}
	o.send(422, "expected next from the previous page", "GET", "/buckets/dead-letters?after=evt_x", "")
	if again := s.waiting(t, "hook"); len(again) != 1 || again[0].ID() != mustParse(t, all[1].ID) {
		t.Errorf("queued again: %+v", again)
	}
	o.send(200, `{"events":3}`, "POST", "/buckets/dead-letters/retry-all", "")
	if n := s.refuse(t, "hook"); n != 4 {
		t.Errorf("%d events were queued again", n)
	}
	o.send(200, `{"events":4}`, "POST", "/buckets/dead-letters/drop-all", "")
	o.send(200, `{"events":[],"next":null}`, "GET", "/buckets/dead-letters", "")
	facts("Notifications to gone: 0 events", "Notifications to hook: 0 events", "Notifications set aside: 0 events")
}

func mustParse(t *testing.T, event string) outbox.ID {
	t.Helper()
	id, ok := parseEventID(event)
	if !ok {
		t.Fatalf("%s is no ID of an event", event)
	}
	return id
}

func TestProbeDestinations(t *testing.T) {
	t.Parallel()
	s, _, _ := notified(t)
	found := s.probe(context.Background())
	if len(found) != 2 || found[0].What != "buckets.destinations.gone" || found[0].State != service.Wrong || found[0].Fix == "" ||
		found[1].What != "buckets.destinations.hook" || found[1].State != service.OK {
		t.Errorf("%+v", found)
	}
	if found := New().probe(t.Context()); len(found) != 0 {
		t.Errorf("without destinations: %+v", found)
	}
}

// TestWebhookRequests checks the request bodies for a test event and a record.
func TestWebhookRequests(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]struct {
		key     string
		event   string
		records int
	}{
		`{"event":"TestEvent","bucket":"photos"}`:                   {"photos", "s3:TestEvent", 0},
		`{"event":"ObjectCreated:Put","bucket":"photos","key":"k"}`: {"photos/k", "", 1},
	} {
		body, contentType, err := encodeRecord(&outbox.Event{Seq: 1, Key: want.key, Payload: json.RawMessage(payload)})
		var decoded struct {
			Event   string
			Records []struct{ EventName string }
		}
		if err := errors.Join(err, json.Unmarshal(body, &decoded)); err != nil || contentType != "application/json" || decoded.Event != want.event || len(decoded.Records) != want.records {
			t.Errorf("%s: %s %s, %v", payload, contentType, body, err)
		}
	}
}
