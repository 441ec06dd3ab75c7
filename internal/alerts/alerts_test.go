package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
)

// receiver is a webhook. A test that called run holds mu, except during rounds.
type receiver struct {
	mu     sync.Mutex
	status int   // 0 means 200
	err    error // sent instead of a response
	got    []string
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	text, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	status := max(r.status, http.StatusOK)
	if status == http.StatusOK {
		r.got = append(r.got, string(text))
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}, nil
}

// take returns the new alerts as "STATUS NAME SUBJECT".
func (r *receiver) take(t *testing.T) (all []string) {
	t.Helper()
	for _, text := range r.got {
		var m Message
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, strings.TrimSpace(m.Status+" "+m.Name+" "+m.Subject))
	}
	r.got = nil
	return all
}

// run starts alerts about conditions, which the test may change between rounds.
func run(t *testing.T, file string, r *receiver, conditions *[]Condition, log io.Writer) (stop func()) {
	t.Helper()
	a := &Alerts{
		Server: "https://sync.example", File: file, Clock: time.Now,
		Log: slog.New(slog.NewTextHandler(log, nil)), Client: &http.Client{Transport: r},
		Conditions: func(context.Context, Settings) []Condition {
			r.mu.Lock()
			defer r.mu.Unlock()
			return *conditions
		},
	}
	a.Set(Settings{URL: "https://alerts.example/secret", Format: JSON})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	r.mu.Lock()
	go func() { defer close(done); a.Run(ctx) }()
	return func() { cancel(); r.mu.Unlock(); <-done }
}

func (r *receiver) rounds(n int) {
	r.mu.Unlock()
	time.Sleep(time.Duration(n) * interval)
	synctest.Wait()
	r.mu.Lock()
}

func same(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("%s: sent %q, want %q", when, got, want)
	}
}

// TestAlerts checks that each beginning and each end is sent once, also across a restart. Blips are ignored.
func TestAlerts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "alerts.json")
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		var wrong []Condition
		late := Condition{Name: "backup-late", State: service.Warning, Says: "the latest backup is 3 days old", Fix: "run: holdfast backup DIR"}
		ready := Condition{Name: "not-ready", Subject: "guest", State: service.Wrong, Says: "no database"}
		stop := run(t, file, &r, &wrong, io.Discard)
		r.rounds(3)
		same(t, "nothing is wrong", r.take(t))
		wrong = []Condition{late}
		r.rounds(1)
		same(t, "first round", r.take(t))
		r.rounds(1)
		same(t, "second round", r.take(t), "begun backup-late")
		late.Says = "the latest backup is 4 days old"
		wrong = []Condition{late, ready}
		r.rounds(1)
		wrong = []Condition{late} // ready lasted one round
		r.rounds(3)
		same(t, "a moment", r.take(t))
		wrong = nil
		r.rounds(1)
		wrong = []Condition{late} // late was missing for one round
		r.rounds(3)
		same(t, "absent for a moment", r.take(t))
		stop()

		stop = run(t, file, &r, &wrong, io.Discard)
		r.rounds(5)
		same(t, "after a restart", r.take(t))
		wrong = []Condition{ready}
		r.rounds(2)
		same(t, "one has ended, one has begun", r.take(t), "begun not-ready guest", "ended backup-late")
		stop()
		wrong = nil
		stop = run(t, file, &r, &wrong, io.Discard)
		r.rounds(2)
		same(t, "ended while the server was down", r.take(t), "ended not-ready guest")
		stop()
	})
}

// TestWebhookAway checks that a failed alert is sent again, once, and that the log does not contain the URL.
func TestWebhookAway(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "alerts.json")
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := receiver{err: errors.New("connection refused")}
		wrong := []Condition{{Name: "a", State: service.Wrong}, {Name: "b", State: service.Wrong}}
		stop := run(t, file, &r, &wrong, &log)
		r.rounds(3)
		r.err, r.status = nil, http.StatusFound // a redirect is a failure
		r.rounds(1)
		same(t, "away", r.take(t))
		r.status = 0
		r.rounds(1)
		if got := r.take(t); len(got) != 2 {
			t.Errorf("sent %q", got)
		}
		r.rounds(3)
		same(t, "sent", r.take(t))
		stop()
		for _, want := range []string{"the webhook does not answer: connection refused", "the webhook answers with status 302"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %q in\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log has the URL:\n%s", log.String())
		}
	})
}

func TestBrokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "none", "alerts.json")
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		wrong := []Condition{{Name: "a", State: service.Wrong}}
		stop := run(t, file, &r, &wrong, io.Discard)
		r.rounds(4)
		same(t, "no folder", r.take(t), "begun a")
		stop()
		if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		stop = run(t, file, &r, &wrong, io.Discard)
		r.rounds(4)
		same(t, "a broken file", r.take(t), "begun a")
		stop()
	})
}

func TestFormats(t *testing.T) {
	t.Parallel()
	var r receiver
	a := &Alerts{Server: "https://s", Clock: func() time.Time { return time.Unix(1000, 0) }, Log: slog.New(slog.DiscardHandler), Client: &http.Client{Transport: &r}}
	a.Set(Settings{URL: "https://x", Format: JSON})
	one := &Told{Condition{"disk-full", "the disk of a.db", service.Wrong, "1 MiB is free", "free some space"}, "critical", time.Unix(900, 0).UTC()}
	ctx := t.Context()
	if err := errors.Join(a.send(ctx, a.message(Begun, one)), a.send(ctx, a.message(Ended, one)), a.SendTest(ctx)); err != nil {
		t.Fatal(err)
	}
	a.Set(Settings{URL: "https://x", Format: Slack})
	if err := a.send(ctx, a.message(Begun, one)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"name":"disk-full","subject":"the disk of a.db","says":"1 MiB is free","fix":"free some space","severity":"critical","since":"1970-01-01T00:15:00Z",` +
			`"status":"begun","at":"1970-01-01T00:16:40Z","server":"https://s","title":"disk-full (the disk of a.db) on https://s","text":"1 MiB is free. To fix it: free some space"}`,
		`"status":"ended","at":"1970-01-01T00:16:40Z","server":"https://s","title":"Ended: disk-full (the disk of a.db) on https://s","text":"It lasted 1m40s. It was: 1 MiB is free"}`,
		`"title":"test on https://s","text":"this is a test: alerts reach you"}`,
		`{"text":"*disk-full (the disk of a.db) on https://s*\n1 MiB is free. To fix it: free some space"}`,
	} {
		if !strings.HasSuffix(r.got[i], want) {
			t.Errorf("sent\n%s\nwant\n%s", r.got[i], want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	good := Defaults()
	for _, url := range []string{"", "https://ntfy.example/topic?tpl=1&t={{.title}}&m={{.text}}", "http://127.0.0.1:1"} {
		if good.URL = conf.Secret(url); len(good.Check()) > 0 {
			t.Errorf("%s: %v", url, good.Check())
		}
	}
	bad := Settings{URL: "alerts.example", Format: "xml", BackupAge: -1, DiskDays: -1}
	if problems := bad.Check(); len(problems) != 4 {
		t.Errorf("%v", problems)
	}
}
