package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
)

var logTime = regexp.MustCompile(`time=\S+ `)

// TestReadiness checks that each change of a service's state is logged once with the reason.
func TestReadiness(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newReadiness(slog.New(slog.NewTextHandler(&log, nil)))
	away, locked := errcode.Wrap(errcode.Unavailable, "away", errors.New("dial")), errcode.New(errcode.Unavailable, "locked")
	begun := time.Now()
	note := func(after time.Duration, a, b error, want ...string) {
		t.Helper()
		log.Reset()
		r.note(begun.Add(after), []string{"a", "b"}, map[string]error{"a": a, "b": b})
		got := strings.TrimSpace(logTime.ReplaceAllString(log.String(), ""))
		if got != strings.Join(want, "\n") {
			t.Errorf("after %v:\n%s\nwant\n%s", after, got, strings.Join(want, "\n"))
		}
	}
	if r.isReady("a") {
		t.Error("ready before the first check")
	}
	note(0, nil, away, `level=WARN msg="service is not ready" service=b error="away: dial"`)
	if !r.isReady("a") || r.isReady("b") {
		t.Error("the state is not that of the check")
	}
	note(time.Second, nil, away)
	note(2*time.Second, nil, locked) // too soon for a different reason
	note(11*time.Second, nil, locked, `level=WARN msg="service is not ready" service=b error=locked`)
	note(12*time.Second, nil, nil, `level=INFO msg="service is ready" service=b not_ready_for=12s`, `level=INFO msg="server is ready" services="[a b]"`)
	note(13*time.Second, nil, nil)
	note(11500*time.Millisecond, away, away)
	note(14*time.Second, away, locked, `level=WARN msg="service is not ready" service=a error="away: dial"`, `level=WARN msg="service is not ready" service=b error=locked`)
	note(15*time.Second, nil, locked, `level=INFO msg="service is ready" service=a not_ready_for=1s`)
	note(16*time.Second, nil, nil, `level=INFO msg="service is ready" service=b not_ready_for=2s`, `level=INFO msg="server is ready" services="[a b]"`)
}

// TestUnready checks that a slow service does not delay the checks of others, and that a service is not ready until
// its start completes.
func TestUnready(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	slow := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	a.opened = append([]*opened{{Running: &service.Running{Name: "slow", Opened: &service.Opened{Ready: slow}}}}, a.opened...)
	a.ready.setFailed(map[string]error{"extstorage": errors.New("no node")})
	unready := a.unready(t.Context())
	if len(unready) != 2 || !errors.Is(unready["slow"], context.DeadlineExceeded) || unready["extstorage"].Error() != "no node" {
		t.Errorf("not ready: %v", unready)
	}
	if a.ready.isReady("slow") || !a.ready.isReady("syncstorage") {
		t.Error("the state is not that of the check")
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	a.ready.setFailed(nil)
	if a.unready(ctx); a.ready.isReady("extstorage") {
		t.Error("the check of a caller that has left counts")
	}
}

func TestPrefersHTML(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/html": true, "TEXT/HTML; charset=utf-8": true, "application/json": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"application/json, text/html;q=0.5":                               false, "application/json;q=0.5, text/html": true, "text/html;q=0": false, "text/html;q=x": true, ";;q=,": false,
	} {
		if got := prefersHTML([]string{accept}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
	if !prefersHTML([]string{"image/png", "text/html"}) {
		t.Error("the second line of a header is not read")
	}
}
