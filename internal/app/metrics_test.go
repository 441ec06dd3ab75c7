package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/fault"
	"holdfast/internal/tokenserver"
)

// metrics is what /metrics says.
func metrics(a *App) string {
	var draining atomic.Bool
	w := httptest.NewRecorder()
	a.adminHandler(&draining).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", http.NoBody))
	return w.Body.String()
}

func wantLine(t *testing.T, text, line string) {
	t.Helper()
	if !strings.Contains(text, "\n"+line+"\n") {
		t.Errorf("no %s", line)
	}
}

func TestReadinessIsAMetric(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	wantLine(t, metrics(a), `holdfast_ready{room="syncstorage"} 1`)
	a.checks = append(a.checks, readiness{"guest", func(context.Context) error { return fault.New(fault.Unavailable, "away") }})
	text := metrics(a)
	wantLine(t, text, `holdfast_ready{room="guest"} 0`)
	wantLine(t, text, `holdfast_ready{room="tokenserver"} 1`)
}

// TestRefusals: what is counted is what an operator would act upon, under the
// room that it is of.
func TestRefusals(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	count := map[string]int{}
	for _, tc := range []struct {
		room   string
		err    error
		reason string // "" when it is not counted
	}{
		{syncRoom, hawk.ErrMAC, "hawk-mac"},
		{syncRoom, fmt.Errorf("detail: %w", hawk.ErrMalformed), "hawk-malformed"},
		{syncRoom, tokenlib.ErrSignature, "token-signature"},
		{syncRoom, fault.New(fault.Quota, "full"), ""},
		{syncRoom, tokenserver.ErrNoNode, ""},
		{tokenRoom, tokenserver.ErrNoNode, "no-node"},
		{tokenRoom, fmt.Errorf("%w: %w", tokenserver.ErrAccountsAway, errors.New("timeout")), "accounts-server-away"},
		{tokenRoom, &tokenserver.Refusal{Reason: tokenserver.BadGeneration, Cause: tokenserver.ErrNoNode}, "invalid-generation"},
	} {
		written := false
		write := a.countRefusals(tc.room, func(http.ResponseWriter, *http.Request, error) { written = true })
		write(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody), tc.err)
		if !written {
			t.Errorf("%v is not answered", tc.err)
		}
		if tc.reason != "" {
			count[fmt.Sprintf(`holdfast_refusals_total{reason=%q,room=%q} `, tc.reason, tc.room)]++
		}
	}
	text := metrics(a)
	for line, n := range count {
		wantLine(t, text, line+fmt.Sprint(n))
	}
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(line, "} ")
		if strings.HasPrefix(series, "holdfast_refusals_total{") && value != "0\n" && count[series+"} "] == 0 {
			t.Errorf("counted without a cause: %s", line)
		}
	}
}
