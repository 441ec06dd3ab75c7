package broker_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/internal/broker"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
)

const (
	webhookSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	replacedSecret = "whsec_" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==" // 64 bytes
)

// attempt is a request as a webhook got it.
type attempt struct {
	Headers map[string]string `json:"headers"` // in lower case
	Body    string            `json:"body"`
}

// receiver is a webhook that keeps attempts. answer, if set, returns the status for the n-th attempt, from 0.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	attempts []attempt
	answer   func(n int, r *http.Request) int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	h := &receiver{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a := attempt{map[string]string{}, string(body)}
		for name, values := range r.Header {
			a.Headers[strings.ToLower(name)] = strings.Join(values, ",")
		}
		h.mu.Lock()
		n := len(h.attempts)
		h.attempts = append(h.attempts, a)
		answer := h.answer
		h.mu.Unlock()
		w.Header().Set("Location", "/elsewhere")
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
		} else {
			w.WriteHeader(answer(n, r))
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// verify checks an attempt with the official Go library.
func (a *attempt) verify(secret string, change func(h http.Header, body string) string) error {
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	h := http.Header{}
	for name, value := range a.Headers {
		h.Set(name, value)
	}
	body := a.Body
	if change != nil {
		body = change(h, body)
	}
	return w.Verify([]byte(body), h)
}

// publishFourTimes publishes an event through a refusal, a receiver that answers late, another process, and a new secret.
func publishFourTimes(t *testing.T, e outbox.Event) []attempt {
	t.Helper()
	h := newReceiver(t)
	wall := clock.NewManual(clock.System().Add(-time.Minute))
	sink := func(secrets ...string) *broker.Webhook {
		return &broker.Webhook{URL: h.URL, Secrets: secrets, Source: "/bff/consumer", Clock: wall.Now}
	}
	h.answer = func(n int, r *http.Request) int {
		if n == 1 {
			<-r.Context().Done() // answers after the sender gave up
		}
		return []int{http.StatusServiceUnavailable, http.StatusNoContent, http.StatusNoContent, http.StatusNoContent}[n]
	}
	first := sink(webhookSecret)
	if err := first.Publish(t.Context(), []outbox.Event{e}); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("refused: %v", err)
	}
	wall.Advance(10 * time.Second)
	first.Wait = 50 * time.Millisecond
	if err := first.Publish(t.Context(), []outbox.Event{e}); err == nil {
		t.Error("a late answer counts")
	}
	wall.Advance(10 * time.Second)
	if err := sink(webhookSecret).Publish(t.Context(), []outbox.Event{e}); err != nil { // after a restart
		t.Error(err)
	}
	wall.Advance(10 * time.Second)
	if err := sink(replacedSecret, webhookSecret).Publish(t.Context(), []outbox.Event{e}); err != nil {
		t.Error(err)
	}
	if len(h.attempts) != 4 {
		t.Fatalf("%d attempts", len(h.attempts))
	}
	return h.attempts
}

// TestWebhookFollowsTheSpecification verifies every attempt as Standard Webhooks says, with the official library:
// https://www.standardwebhooks.com.
func TestWebhookFollowsTheSpecification(t *testing.T) {
	t.Parallel()
	e := sample()
	attempts := publishFourTimes(t, e)
	for i := range attempts {
		a := &attempts[i]
		if err := a.verify(webhookSecret, nil); err != nil {
			t.Errorf("attempt %d: %v, %v", i, err, a.Headers)
		}
		if err := a.verify(replacedSecret, nil); (err == nil) != (i == 3) {
			t.Errorf("attempt %d with the new secret: %v", i, err)
		}
		for name, change := range map[string]func(h http.Header, body string) string{
			"body":      func(_ http.Header, body string) string { return body + " " },
			"id":        func(h http.Header, body string) string { h.Set("webhook-id", "evt_another"); return body },
			"timestamp": func(h http.Header, body string) string { h.Set("webhook-timestamp", "1"); return body },
		} {
			if a.verify(webhookSecret, change) == nil {
				t.Errorf("attempt %d: another %s is accepted", i, name)
			}
		}
		if a.Headers["webhook-id"] != attempts[0].Headers["webhook-id"] || a.Body != attempts[0].Body {
			t.Errorf("attempt %d has another ID or body: %v %s", i, a.Headers, a.Body)
		}
		if i > 0 && a.Headers["webhook-timestamp"] <= attempts[i-1].Headers["webhook-timestamp"] {
			t.Errorf("attempt %d has the time of an earlier one", i)
		}
	}
	var body struct {
		SpecVersion, ID, Type, Time, Timestamp string
		Data                                   json.RawMessage
	}
	if err := json.Unmarshal([]byte(attempts[0].Body), &body); err != nil || body.Type != e.Topic || body.Timestamp == "" || body.Timestamp != body.Time || len(body.Data) == 0 {
		t.Errorf("%+v, %v", body, err)
	}
}

// TestWebhookInJavaScript verifies the attempts with the official package for npm.
func TestWebhookInJavaScript(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "installs a package with npm")
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	dir := t.TempDir()
	recorded, err := json.Marshal(publishFourTimes(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"package.json":  `{"private":true,"type":"module"}`,
		"attempts.json": string(recorded),
		"verify.js": `import { readFileSync } from "node:fs";
			import { Webhook } from "standardwebhooks";
			const [good, other] = process.argv.slice(2).map((secret) => new Webhook(secret));
			JSON.parse(readFileSync("attempts.json")).forEach((a, i, all) => {
				console.log(good.verify(a.body, a.headers).type);
				let accepted = true;
				try { other.verify(a.body, a.headers); } catch { accepted = false; }
				if (accepted !== (i === all.length - 1)) throw new Error("attempt " + i);
			});`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{npm, "install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock", "--silent", "standardwebhooks@1.1.1"},
		{"node", "verify.js", webhookSecret, replacedSecret},
	} {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestWebhookResults checks which events count as stored: a refused event does not hold back those with other keys, but
// those behind it with its key. A redirect is a refusal. IDs in another form than the outbox's names are hashed.
func TestWebhookResults(t *testing.T) {
	t.Parallel()
	h := newReceiver(t)
	sink := &broker.Webhook{URL: h.URL, Source: "/bff/consumer", Clock: clock.System, Encode: func(e *outbox.Event) ([]byte, string, error) {
		return []byte(e.Key), "text/plain", nil
	}}
	event := func(owner, key string, seq int64) outbox.Event {
		return outbox.Event{Owner: owner, Key: key, Seq: seq, Topic: "t", At: clock.System()}
	}
	events := []outbox.Event{event("a.b", "1", 1), event("a.b", "2", 2), event("a.b", "3", 3), event("c", "4", 4)}
	status := http.StatusFound
	h.answer = func(n int, _ *http.Request) int {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.attempts[n].Body == "2" {
			return status
		}
		return http.StatusOK
	}
	for _, status = range []int{http.StatusFound, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		h.attempts = nil
		err := sink.Publish(t.Context(), events)
		refused, ok := errors.AsType[*outbox.RefusedError](err)
		if !ok || len(refused.Refusals) != 2 || refused.Refusals[0].Index != 1 || refused.Refusals[1].Index != 2 {
			t.Errorf("%d: %v", status, err)
		}
		var bodies []string
		for _, a := range h.attempts {
			bodies = append(bodies, a.Body)
			if id := a.Headers["webhook-id"]; !strings.HasPrefix(id, "msg_") || strings.Contains(id, ".") || a.Headers["webhook-signature"] != "" {
				t.Errorf("%v", a.Headers)
			}
		}
		if slices.Sort(bodies); !slices.Equal(bodies, []string{"1", "2", "4"}) {
			t.Errorf("sent %v", bodies)
		}
	}
	h.Close()
	if err := sink.Publish(t.Context(), events); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("without a server: %v", err)
	}
}
