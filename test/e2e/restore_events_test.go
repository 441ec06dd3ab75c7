package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// restoredHook is a receiver of guest and bucket events. As such receivers do, it drops an event whose ID it knows, and
// drops a bucket event unless its sequencer follows the last one of the key.
type restoredHook struct {
	*httptest.Server
	t       *testing.T
	s3      s3
	visitor *visitor

	mu       sync.Mutex
	contents map[string]string // guest events by ID, and bucket events by key and sequencer
	last     map[string]string // sequencer by key
	accepted map[string]bool   // by the receiver as new: property IDs and ETags
	arrived  chan struct{}     // receives after each delivery
}

func newRestoredHook(t *testing.T) *restoredHook {
	h := &restoredHook{t: t, contents: map[string]string{}, last: map[string]string{}, accepted: map[string]bool{}, arrived: make(chan struct{}, 1)}
	h.Server = httptest.NewServer(http.HandlerFunc(h.receive))
	t.Cleanup(h.Close)
	return h
}

func (h *restoredHook) vars() []string {
	return []string{
		"HOLDFAST_GUEST__EVENTS=" + h.URL + "/guest", "HOLDFAST_GUEST__EVENT_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL=" + h.URL + "/buckets", "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}
}

func (h *restoredHook) receive(_ http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path == "/guest" {
		h.guestEvent(text)
	} else {
		h.bucketEvents(text)
	}
	select {
	case h.arrived <- struct{}{}:
	default:
	}
}

// isNew records an event, and reports whether its ID is new.
func (h *restoredHook) isNew(id, content string) bool {
	before, known := h.contents[id]
	if known && before != content {
		h.t.Errorf("the event %s is\n%s\nand was\n%s", id, content, before)
	}
	h.contents[id] = content
	return !known
}

func (h *restoredHook) guestEvent(text []byte) {
	var e struct {
		ID   string
		Data struct{ PropertyID string }
	}
	if err := json.Unmarshal(text, &e); err != nil || e.ID == "" {
		h.t.Errorf("%v: %s", err, text)
	}
	if h.isNew(e.ID, string(text)) {
		h.accepted[e.Data.PropertyID] = true
	}
}

func (h *restoredHook) bucketEvents(text []byte) {
	var body struct {
		Records []struct {
			S3 struct {
				Object struct{ Key, ETag, Sequencer string }
			}
		}
	}
	if err := json.Unmarshal(text, &body); err != nil {
		h.t.Errorf("%v: %s", err, text)
	}
	for _, r := range body.Records {
		o := r.S3.Object
		if h.isNew(o.Key+" "+o.Sequencer, o.ETag) && o.Sequencer > h.last[o.Key] {
			h.last[o.Key], h.accepted[o.ETag] = o.Sequencer, true
		}
	}
}

// begin makes the bucket and the guest.
func (h *restoredHook) begin(s *binary.Server) {
	h.s3, h.visitor = s3{h.t, s.S3(h.t)}, newVisitor(h.t, s)
	h.s3.want(http.StatusOK, http.MethodPut, "/events", nil)
	h.s3.want(http.StatusOK, http.MethodPut, "/events?notification", []byte(`<NotificationConfiguration><QueueConfiguration><Queue>arn:holdfast:webhook:::hook</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>`))
}

// write makes a wish and replaces an object, and waits until the receiver took both events as new.
func (h *restoredHook) write(s *binary.Server, n int) {
	h.t.Helper()
	if status, text := h.visitor.send(s, http.MethodPost, "/wishlist", guest.Wish(n), fmt.Sprint("wish-", n)); status != http.StatusCreated {
		h.t.Fatalf("wish %d: %d %s", n, status, text)
	}
	a, err := h.s3.Send(h.t.Context(), http.MethodPut, "/events/object", fmt.Sprint("content ", n))
	if err != nil || a.Status != http.StatusOK {
		h.t.Fatalf("object %d: %d %s %v", n, a.Status, a.Body, err)
	}
	tag, deadline := a.Header.Get("Etag"), time.After(binary.Bound)
	tag = tag[1 : len(tag)-1] // without quotes
	for {
		h.mu.Lock()
		wish, object := h.accepted[guest.Property(n)], h.accepted[tag]
		h.mu.Unlock()
		if wish && object {
			return
		}
		select {
		case <-h.arrived:
		case <-deadline:
			h.t.Fatalf("write %d: the receiver took the event of the wish: %v, of the object: %v", n, wish, object)
		}
	}
}

// check continues with the cookie of the lost server. The events of new writes are new to the receiver.
func (h *restoredHook) check(s *binary.Server) {
	h.t.Helper()
	if status, text := h.visitor.send(s, http.MethodGet, "/wishlist", "", ""); status != http.StatusOK {
		h.t.Errorf("the guest's session: %d %s", status, text)
	}
	h.write(s, 3)
	h.write(s, 4)
}
