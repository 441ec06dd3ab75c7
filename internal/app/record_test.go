package app_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	pages "holdfast/internal/operate/console"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// TestChangesAreRecorded checks that each change and each file with secrets is recorded once. The services are not
// open, so the operations fail, which is also recorded.
func TestChangesAreRecorded(t *testing.T) {
	t.Parallel()
	byConsole, byRoute := 0, 0
	for _, s := range app.Services() {
		var seen []string
		all := operate.Recorded(s.Operations, func(_ context.Context, r operate.Record) { seen = append(seen, r.Path) })
		want := func(how string, o *operate.Operation) {
			t.Helper()
			switch {
			case !o.IsRecorded() && len(seen) > 0:
				t.Errorf("%s: %s by %s is recorded", s.Name, o.Path, how)
			case o.IsRecorded() && (len(seen) != 1 || seen[0] != o.Path):
				t.Errorf("%s: %s by %s has the records %q, want one", s.Name, o.Path, how, seen)
			}
			seen = nil
		}
		api := adminapi.New(s.CommandName(), all)
		server := httptest.NewServer(&web.Mux{
			Resolver: &web.Resolver{}, Options: web.Options{Log: slog.New(slog.DiscardHandler)},
			Default: web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label},
		})
		t.Cleanup(server.Close)
		shown := pages.Pages(nil, all)
		for i, route := range api.Routes() {
			o := &all[i]
			if press(t, o, shown) {
				byConsole++
				want("the console", o)
			}
			request(t, server.URL, route, o)
			byRoute++
			want("its route", o)
		}
	}
	if byConsole == 0 || byRoute == 0 {
		t.Errorf("%d operations by the console, and %d by their route", byConsole, byRoute)
	}
}

// press runs an operation from its button, form or link in the console. It returns false for lists and reads.
func press(t *testing.T, o *operate.Operation, all []service.Page) (has bool) {
	t.Helper()
	for _, p := range all {
		r := &service.PageRequest{Values: url.Values{}, NextFile: func() (*service.Upload, error) { return &service.Upload{Body: strings.NewReader("")}, nil }}
		if p.Path == o.Path && p.Send != nil {
			if f, err := p.Send(t.Context(), r); err == nil {
				_ = f.Write(io.Discard)
			}
			return true
		}
		for _, a := range p.Actions {
			if p.Path == o.Noun() && a.Name == o.Verb() && !a.Reads && o.Kind != operate.Download {
				if !a.Recorded {
					t.Errorf("the console records %s a second time", o.Path)
				}
				_, _ = a.Run(t.Context(), r)
				return true
			}
		}
	}
	if o.IsRecorded() {
		t.Errorf("the console has no %s", o.Path)
	}
	return false
}

func request(t *testing.T, at string, route adminapi.Route, o *operate.Operation) {
	t.Helper()
	r := webtest.Request(t, at, route.Method, route.Path, http.NoBody)
	if o.Kind == operate.Upload {
		r.Header.Set("Content-Type", o.Media)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
