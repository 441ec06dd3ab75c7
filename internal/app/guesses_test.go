package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/web/rate"
)

// guessed is a request that an operator's token opens.
type guessed struct {
	method, path string
	isConsole    bool
}

func (g guessed) String() string { return g.method + " " + g.path }

// guessedPaths returns everything on the admin listener that a token opens: the console's sign-in, each operation's
// route, the pages of the Go runtime, and paths that do not exist.
func guessedPaths(a *App) []guessed {
	all := []guessed{{http.MethodPost, "/console/sign-in", true}}
	for _, path := range []string{"/version", "/status", errorPath, "/nothing", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/profile", "/debug/pprof/symbol", "/debug/pprof/trace", "/debug/pprof/heap"} {
		all = append(all, guessed{http.MethodGet, path, false})
	}
	apis := []*adminapi.API{adminapi.New("", a.operations)}
	for _, s := range a.opened {
		apis = append(apis, adminapi.New(s.Name, s.operations))
	}
	for _, api := range apis {
		for _, r := range api.Routes() {
			all = append(all, guessed{r.Method, r.Path, false})
		}
	}
	return all
}

type guesser struct {
	t    *testing.T
	h    http.Handler
	from string
}

func (g *guesser) send(to guessed, token string) *httptest.ResponseRecorder {
	g.t.Helper()
	r := httptest.NewRequestWithContext(g.t.Context(), to.method, "http://127.0.0.1:8001"+to.path, nil)
	if to.isConsole {
		r = httptest.NewRequestWithContext(g.t.Context(), to.method, "http://127.0.0.1:8001"+to.path, strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://127.0.0.1:8001")
	} else if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.RemoteAddr = g.from + ":50000"
	w := httptest.NewRecorder()
	g.h.ServeHTTP(w, r)
	return w
}

// TestWrongTokensAreLimited checks that wrong tokens from one network are answered ten times, wherever on the admin
// listener they are sent, and that they do not lock out other networks.
func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	a, _ := openConsole(t, "HOLDFAST_SERVER__CONSOLE_NETWORKS=10.0.0.0/8", "HOLDFAST_GUEST__ENABLED=true")
	at := time.Now() // on a slow machine the limit would recover during the test
	var err error
	if a.guesses, err = rate.NewGuesses(func() time.Time { return at }); err != nil {
		t.Fatal(err)
	}
	if a.console, err = a.newConsole(); err != nil {
		t.Fatal(err)
	}
	h := a.adminHandler(new(atomic.Bool))
	token := a.Config().Server.AdminToken.Reveal()
	all := guessedPaths(a)
	if len(all) < 100 {
		t.Errorf("found only %d requests with a token", len(all))
	}
	signIn, version := all[0], all[1]
	other := &guesser{t, h, "10.255.0.1"}
	for i, to := range all {
		g := &guesser{t, h, fmt.Sprintf("10.1.%d.%d", i/250, i%250)}
		g.guessTenTimes(to)
		for _, next := range []guessed{to, signIn, version} {
			for _, sent := range []string{"wrong", token, viewerToken} {
				wantLimited(t, next, g.send(next, sent))
			}
		}
		if w := g.send(version, ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: then no token: %d, want 401", to, w.Code)
		}
		for _, sent := range []string{token, viewerToken} {
			if w := other.send(signIn, sent); w.Code != http.StatusSeeOther {
				t.Errorf("%s: then another network signs in: %d %s", to, w.Code, w.Body)
			}
		}
		if w := other.send(version, token); w.Code != http.StatusOK {
			t.Errorf("%s: then another network sends the token: %d %s", to, w.Code, w.Body)
		}
	}
	at = at.Add(6 * time.Second) // a tenth of a minute
	if w := (&guesser{t, h, "10.1.0.1"}).send(version, token); w.Code != http.StatusOK {
		t.Errorf("the token after the wait: %d %s", w.Code, w.Body)
	}
}

// guessTenTimes sends no token, and then as many wrong tokens as the limit allows. The server refuses each request.
func (g *guesser) guessTenTimes(to guessed) {
	g.t.Helper()
	if w := g.send(to, ""); !to.isConsole && w.Code != http.StatusUnauthorized {
		g.t.Errorf("%s without a token: %d %s", to, w.Code, w.Body)
	}
	first, refused := 0, http.StatusUnauthorized
	if to.isConsole { // its form without a token was the first wrong token
		first, refused = 1, http.StatusForbidden
	}
	for n := first; n < 10; n++ {
		if w := g.send(to, "wrong"+strconv.Itoa(n)); w.Code != refused {
			g.t.Fatalf("%s, wrong token %d: %d %s", to, n+1, w.Code, w.Body)
		}
	}
}

func wantLimited(t *testing.T, to guessed, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "6" || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("%s after ten wrong tokens: %d, Retry-After %q\n%s", to, w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	if !to.isConsole {
		wantJSONError(t, to.String(), w)
	}
}

// TestOperatorTokensOpenOnlyTheAdminListener checks that the other listeners treat the tokens of operators like any
// wrong token, so that nobody can guess them there.
func TestOperatorTokensOpenOnlyTheAdminListener(t *testing.T) {
	t.Parallel()
	a := openApp(t, "HOLDFAST_SERVER__VIEWER_TOKEN="+viewerToken, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0")
	seen := map[string]int{}
	for _, l := range a.cfg.listeners() {
		if l.Name == service.Admin {
			continue
		}
		h := a.listenerHandler(l.Name, new(atomic.Bool))
		paths := []guessed{{http.MethodGet, "/", false}, {http.MethodGet, "/metrics", false}, {http.MethodGet, "/version", false}}
		for _, s := range a.opened {
			for i := range s.Mounts {
				if m := &s.Mounts[i]; m.Listener == l.Name {
					for _, one := range m.Routes {
						paths = append(paths, guessed{one.Method, "/" + strings.TrimPrefix(one.Label, "/"), false})
					}
				}
			}
		}
		for _, to := range paths {
			seen[l.Name]++
			var codes []int
			for _, token := range []string{strings.Repeat("x", 64), a.Config().Server.AdminToken.Reveal(), viewerToken} {
				codes = append(codes, (&guesser{t, h, "192.0.2.1"}).send(to, token).Code)
			}
			if slices.Max(codes) != slices.Min(codes) {
				t.Errorf("%s: %s: a wrong token, the admin token and the viewer token get %v, want the same", l.Name, to, codes)
			}
		}
	}
	for _, name := range []string{service.Main, service.Internal, "s3"} {
		if seen[name] < 4 {
			t.Errorf("%s: only %d requests, of %v", name, seen[name], seen)
		}
	}
}
