package s3clients

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/test/binary"
)

// hookARN and minIOHookARN name the server's webhook in notifications; mc uses the second.
const (
	hookARN      = "arn:holdfast:webhook:::hook"
	minIOHookARN = "arn:minio:sqs::hook:webhook"
)

type hook struct {
	url string

	mu      sync.Mutex
	arrived map[event]chan struct{} // closed when the event arrives
}

type event struct{ bucket, name, key string }

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{arrived: map[event]chan struct{}{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Records []struct {
			EventName string
			S3        struct {
				Bucket struct{ Name string }
				Object struct{ Key string }
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, e := range body.Records {
		key, err := url.QueryUnescape(e.S3.Object.Key)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if c := h.of(event{e.S3.Bucket.Name, strings.TrimPrefix(e.EventName, "s3:"), key}); !closed(c) {
			close(c)
		}
	}
}

func (h *hook) of(e event) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.arrived[e] == nil {
		h.arrived[e] = make(chan struct{})
	}
	return h.arrived[e]
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (c *client) await(name, key string) {
	c.t.Helper()
	select {
	case <-c.hook.of(event{c.bucket, name, key}):
	case <-time.After(binary.Bound):
		c.t.Errorf("no event %s of %s", name, key)
	}
}
