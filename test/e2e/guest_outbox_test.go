package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// TestGuestEvents checks that a webhook receives signed wishlist events in order, with their request's trace. Refused
// events arrive after a restart.
func TestGuestEvents(t *testing.T) {
	t.Parallel()
	for name, vars := range guestEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
			hook := newHook(t, secret)
			data := t.TempDir()
			vars := append(vars(t), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__EVENTS="+hook.URL+"/events",
				"HOLDFAST_GUEST__EVENT_SECRET="+secret, "HOLDFAST_GUEST__EVENT_SOURCE=/bff/consumer/test")
			binary.Migrate(t, data, vars...)
			s := binary.Start(t, data, vars...)
			v := newVisitor(t, s)
			property := guest.Property(1)
			const trace = "0af7651916cd43dd8448eb211c80319c"
			v.Header = http.Header{"Traceparent": {"00-" + trace + "-b7ad6b7169203331-01"}}
			if status, text := v.send(s, http.MethodPost, "/wishlist", guest.Wish(1), "one"); status != http.StatusCreated {
				t.Fatal(status, text)
			}
			added := hook.next(t)
			for name, want := range map[string]string{
				"specversion": "1.0", "type": "melmastoon.bff.consumer.wishlist.added.v1", "source": "/bff/consumer/test", "id": "evt_", "subject": "wsh_",
				"retentionclass": "operational", "partitionkey": "gms_", "sequence": "", "traceparent": "00-" + trace, "time": "20",
			} {
				if got, ok := added[name].(string); !ok || !strings.HasPrefix(got, want) {
					t.Errorf("%s is %v, want %s", name, added[name], want)
				}
			}
			if data, ok := added["data"].(map[string]any); !ok || data["propertyId"] != property || data["sessionId"] != added["partitionkey"] {
				t.Errorf("data: %v", added["data"])
			}
			hook.refuses.Store(true)
			if status, text := v.send(s, http.MethodDelete, "/wishlist/"+property, "", "two"); status != http.StatusNoContent {
				t.Fatal(status, text)
			}
			s.Kill()
			hook.refuses.Store(false)
			binary.Start(t, data, vars...)
			removed := hook.next(t)
			for removed["id"] == added["id"] { // a kill before the server recorded the delivery repeats the event
				removed = hook.next(t)
			}
			if removed["type"] != "melmastoon.bff.consumer.wishlist.removed.v1" || removed["subject"] != added["subject"] {
				t.Errorf("%v", removed)
			}
		})
	}
}

type hook struct {
	*httptest.Server
	events  chan map[string]any
	refuses atomic.Bool
}

func newHook(t *testing.T, secret string) *hook {
	t.Helper()
	h := &hook{events: make(chan map[string]any, 1<<16)}
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, verifier.Verify(body, r.Header)); err != nil {
			t.Errorf("%v, %v", err, r.Header)
		}
		if h.refuses.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var e map[string]any
		if err := json.Unmarshal(body, &e); err != nil || e["id"] != r.Header.Get("Webhook-Id") || e["timestamp"] != e["time"] {
			t.Errorf("%v: %s", err, body)
		}
		h.events <- e
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) next(t *testing.T) map[string]any {
	t.Helper()
	select {
	case e := <-h.events:
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event arrives")
		return nil
	}
}
