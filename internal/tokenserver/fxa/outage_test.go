package fxa

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

func isAway(err error) bool {
	return errors.Is(err, tokenserver.ErrAccountsUnavailable) && errcode.Is(err, errcode.Unavailable)
}

func TestKeysAreKept(t *testing.T) {
	t.Parallel()
	first, second, third := testKeys()[0], testKeys()[1], testKeys()[2]
	s := newStub(t, first)
	c, hands := s.client(t, nil)
	try := func(k signer) error {
		_, err := c.AccessToken(t.Context(), k.sign(t, "at+jwt", k.kid, with(map[string]any{"exp": start.Add(240 * time.Hour).Unix()})))
		return err
	}
	check := func(step string, err error, ok bool, fetches int32) {
		t.Helper()
		if (err == nil) != ok || err != nil && !isRefusal(err) {
			t.Errorf("%s: %v", step, err)
		}
		if n := s.fetches.Load(); n != fetches {
			t.Errorf("%s: keys were fetched %d times, want %d", step, n, fetches)
		}
	}
	check("the first token", try(first), true, 1)
	check("another", try(first), true, 1)
	s.publish(t, first, second)
	check("a new key, at once", try(second), false, 1)
	hands.Advance(freshGap)
	check("a new key, after the gap", try(second), true, 2)
	check("an unknown key", try(third), false, 2)
	hands.Advance(freshGap)
	check("an unknown key after the gap", try(third), false, 3)
	check("an unknown key again", try(third), false, 3)
	s.setJWKS(answer(http.StatusBadGateway, ""))
	hands.Advance(freshGap)
	for _, step := range []string{"as an outage begins", "a moment later"} {
		if err := try(third); !isAway(err) {
			t.Errorf("an unknown key %s: %v", step, err)
		}
	}
	check("a known key during the outage", try(second), true, 4)
	s.publish(t, first, second)
	hands.Advance(failedGap)
	check("an unknown key after the outage", try(third), false, 5)
	hands.Advance(keyLife)
	check("old keys are fetched anew", try(first), true, 6)

	s.setJWKS(answer(http.StatusBadGateway, ""))
	hands.Advance(keyLife)
	check("old keys during an outage", try(second), true, 7)
	check("and again, without a fetch", try(second), true, 7)
	if err := try(third); !isAway(err) {
		t.Errorf("an unknown key during an outage: %v", err)
	}
	hands.Advance(-5 * keyLife)
	s.publish(t, third)
	check("after the clock stepped back", try(third), true, 8)
	if n := s.verdicts.Load(); n != 0 {
		t.Errorf("the accounts server was asked %d times for a verdict", n)
	}
}

func TestOneFetchForAll(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	s := newStub(t, key)
	publish, asked := s.jwks, make(chan struct{})
	released := make(chan struct{})
	var once sync.Once
	s.setJWKS(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-released
		publish(w, r)
	})
	c, _ := s.client(t, nil)
	token := key.sign(t, "at+jwt", key.kid, good())

	// The caller that started the fetch cancels, and the others keep waiting.
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.AccessToken(ctx, token)
		left <- err
	}()
	<-asked
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := c.AccessToken(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
	leave()
	if err := <-left; !isAway(err) {
		t.Errorf("the canceled caller: %v", err)
	}
	close(released)
	wg.Wait()
	if n := s.fetches.Load(); n != 1 {
		t.Errorf("keys were fetched %d times", n)
	}
}

func TestRemoteVerdict(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	scope := tokenserver.Scope
	yes := `{"user":"alice","scope":["profile","` + scope + `"],"generation":7}`
	const refuse, away = "refused", "away"
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   string // user, "refuse" or "away"
	}{
		{"good", 200, yes, "alice"},
		{"no generation", 200, `{"user":"alice","scope":["` + scope + `"]}`, "alice"},
		{"scope as text", 200, `{"user":"alice","scope":"a ` + scope + `","client_id":"x"}`, "alice"},
		{"201", 201, yes, "alice"},
		{"another scope", 200, `{"user":"alice","scope":["profile"]}`, refuse},
		{"nobody", 200, `{"scope":["` + scope + `"]}`, refuse},
		{"bad token", 400, `{"code":400,"errno":108}`, refuse},
		{"unauthorized", 401, ``, refuse},
		{"not found", 404, ``, refuse},
		{"too many requests", 429, ``, away},
		{"request timeout", 408, ``, away},
		{"server error", 500, ``, away},
		{"unavailable", 503, ``, away},
		{"a redirect", 302, ``, away},
		{"a login page", 200, `<html>`, away},
		{"too long", 200, strings.Repeat(" ", maxResponse) + yes, away},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t)
			s.setJWKS(answer(200, `{"keys":[{"fake":"RSA key"}]}`))
			var asked sync.Map
			s.setVerify(func(w http.ResponseWriter, r *http.Request) {
				var q struct{ Token string }
				if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
					t.Error(err)
				}
				asked.Store(q.Token, true)
				w.Header().Set("Location", "/elsewhere")
				answer(tc.status, tc.body)(w, r)
			})
			c, _ := s.client(t, nil)
			for _, token := range []string{`{"an": "opaque token"}`, key.sign(t, "at+jwt", key.kid, good())} {
				id, err := c.AccessToken(t.Context(), token)
				if got := outcome(id, err); got != tc.want {
					t.Errorf("%.10s…: %s (%v), want %s", token, got, err, tc.want)
				}
				if _, ok := asked.Load(token); !ok {
					t.Error("the accounts server did not get the token")
				}
			}
			if n := s.fetches.Load(); n != 1 {
				t.Errorf("keys were fetched %d times", n)
			}
		})
	}
}

func outcome(id tokenserver.Identity, err error) string {
	switch {
	case err == nil:
		return id.FxAUID
	case isRefusal(err):
		return "refused"
	case isAway(err):
		return "away"
	}
	return err.Error()
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	tokens := []string{"opaque", key.sign(t, "at+jwt", key.kid, good())}

	s := newStub(t)
	refusing, _ := s.client(t, nil)
	s.Close()
	for _, token := range tokens {
		if _, err := refusing.AccessToken(t.Context(), token); !isAway(err) {
			t.Errorf("no listener: %v", err)
		}
	}

	hang := newStub(t)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	silent := func(http.ResponseWriter, *http.Request) { <-stop }
	hang.setJWKS(silent)
	hang.setVerify(silent)
	waiting, _ := hang.client(t, func(cfg *tokenserver.Config) { cfg.FxAOAuthTimeout = 20 * time.Millisecond })
	for _, token := range tokens {
		if _, err := waiting.AccessToken(t.Context(), token); !isAway(err) {
			t.Errorf("no response: %v", err)
		}
	}
}

func TestNoKeysButAVerdict(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.setJWKS(answer(http.StatusNotFound, ""))
	s.setVerify(answer(200, `{"user":"alice","scope":["`+tokenserver.Scope+`"]}`))
	c, _ := s.client(t, nil)
	key := testKeys()[0]
	id, err := c.AccessToken(t.Context(), key.sign(t, "at+jwt", key.kid, good()))
	if err != nil || id.FxAUID != "alice" {
		t.Errorf("got %+v, %v", id, err)
	}
}
