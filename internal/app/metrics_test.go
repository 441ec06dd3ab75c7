package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/hawk"
	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

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
	wantLine(t, metrics(a), `holdfast_ready{service="syncstorage"} 1`)
	a.opened = append(a.opened, &opened{Running: &service.Running{Name: "toy", Opened: &service.Opened{Ready: func(context.Context) error { return errcode.New(errcode.Unavailable, "away") }}}})
	text := metrics(a)
	wantLine(t, text, `holdfast_ready{service="toy"} 0`)
	wantLine(t, text, `holdfast_ready{service="tokenserver"} 1`)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	of := func(name string) *opened {
		return a.opened[slices.IndexFunc(a.opened, func(o *opened) bool { return o.Name == name })]
	}
	for service, refused := range map[string][]error{
		"syncstorage": {hawk.ErrMAC, errcode.New(errcode.Quota, "full"), tokenserver.ErrNoNode},
		"tokenserver": {tokenserver.ErrNoNode, hawk.ErrMAC},
	} {
		for _, err := range refused {
			a.countRefusals(of(service))(err)
		}
	}
	counted := map[string]bool{`{reason="hawk-mac",service="syncstorage"} 1`: true, `{reason="no-node",service="tokenserver"} 1`: true}
	zeros := 0
	for line := range strings.Lines(metrics(a)) {
		series, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "holdfast_refusals_total")
		if !ok {
			continue
		}
		if strings.HasSuffix(series, " 0") {
			zeros++
		} else if !counted[series] {
			t.Errorf("counted without a cause: %s", line)
		}
		delete(counted, series)
	}
	if len(counted) > 0 || zeros < 15 {
		t.Errorf("not counted: %v; there are %d other reasons", counted, zeros)
	}
}
