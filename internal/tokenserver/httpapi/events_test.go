//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"math"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"holdfast/internal/tokenserver"
)

const (
	deleted         = "https://schemas.accounts.firefox.com/event/delete-user"
	passwordChanged = "https://schemas.accounts.firefox.com/event/password-change"
)

type reporter struct{ key *rsa.PrivateKey }

func newReporter(t testing.TB) reporter {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	return reporter{key}
}

func (r reporter) configure(t testing.TB) func(*tokenserver.Options) {
	return func(o *tokenserver.Options) {
		raw, err := (&jose.JSONWebKey{Key: r.key.Public(), KeyID: "k", Use: "sig"}).MarshalJSON()
		must(t, err)
		var k struct{ N, E string }
		must(t, json.Unmarshal(raw, &k))
		o.Config.FxAOAuthPrimaryJWK = tokenserver.JWK{KTY: "RSA", Alg: "RS256", KID: "k", N: k.N, E: k.E}
		o.Config.FxAWebhookEnabled = true
		o.Config.FxAWebhookClientID, o.Config.FxAWebhookIssuer = "client", "https://accounts.example"
	}
}

func (r reporter) event(t testing.TB, user, kind string, detail any) string {
	t.Helper()
	sig, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: r.key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	must(t, err)
	token, err := jwt.Signed(sig).Claims(map[string]any{
		"iss": "https://accounts.example", "aud": "client", "sub": user, "events": map[string]any{kind: detail},
	}).Serialize()
	must(t, err)
	return token
}

func (s *server) report(t testing.TB, token string) {
	t.Helper()
	if r := s.do(t, "POST", "/1.0/webhooks/fxa/events", "Authorization", "Bearer "+token); r.status != 200 || r.body != "" {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	fxa := newReporter(t)
	s := newServer(t, fxa.configure(t))
	s.signIn(t, "alice", 7, "7-qqo").grant(t)

	s.report(t, fxa.event(t, "alice", passwordChanged, map[string]any{"changeTime": 100}))
	s.signIn(t, "alice", 98, "7-qqo").wantError(t, 401, "invalid-generation", "body", "", "Unauthorized")
	s.signIn(t, "alice", 99, "7-qqo").grant(t)
	s.report(t, fxa.event(t, "alice", passwordChanged, map[string]any{"changeTime": 50})) // out of order
	s.signIn(t, "alice", 99, "7-qqo").grant(t)

	s.report(t, fxa.event(t, "alice", "https://schemas.accounts.firefox.com/event/subscription-state-change", map[string]any{}))
	s.report(t, fxa.event(t, "nobody", deleted, map[string]any{}))
	s.signIn(t, "alice", 99, "7-qqo").grant(t)

	s.report(t, fxa.event(t, "alice", deleted, map[string]any{}))
	s.signIn(t, "alice", 200, "7-qqo").wantError(t, 401, "invalid-generation", "body", "", "Unauthorized")

	for _, header := range []string{"", "Bearer", "Bearer nonsense", "Basic " + fxa.event(t, "alice", deleted, nil),
		"Bearer " + newReporter(t).event(t, "alice", deleted, nil), "Bearer " + fxa.event(t, "a b", deleted, nil)} {
		s.do(t, "POST", "/1.0/webhooks/fxa/events", "Authorization", header).wantError(t, 401, "invalid-credentials", "body", "", "Unauthorized")
	}
	if r := s.do(t, "GET", "/1.0/webhooks/fxa/events"); r.status != 405 || r.head.Get("Allow") != "POST" {
		t.Errorf("GET: %d, Allow %q", r.status, r.head.Get("Allow"))
	}
}

// TestEventOfTheFuture checks that a password change far in the future does not invalidate current tokens.
func TestEventOfTheFuture(t *testing.T) {
	t.Parallel()
	fxa := newReporter(t)
	s := newServer(t, fxa.configure(t))
	now := s.hands.Now().UnixMilli()
	s.signIn(t, "alice", now-1000, "7-qqo").grant(t)
	s.report(t, fxa.event(t, "alice", passwordChanged, map[string]any{"changeTime": int64(math.MaxInt64)}))
	s.signIn(t, "alice", now-1000, "7-qqo").wantError(t, 401, "invalid-generation", "body", "", "Unauthorized")
	s.signIn(t, "alice", now, "7-qqo").grant(t)
}

func TestEventsAreOff(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	for _, header := range []string{"", "Bearer nonsense", "Bearer " + newReporter(t).event(t, "alice", deleted, nil)} {
		s.do(t, "POST", "/1.0/webhooks/fxa/events", "Authorization", header).wantError(t, 401, "invalid-credentials", "body", "", "Unauthorized")
	}
}

func TestEventsAreCountedOnly(t *testing.T) {
	t.Parallel()
	fxa := newReporter(t)
	var counted atomic.Int32
	s := newServer(t, func(o *tokenserver.Options) {
		fxa.configure(t)(o)
		o.Config.FxAWebhookMetricsOnly = true
		o.CountEvent = func(k tokenserver.EventKind) {
			if k == tokenserver.AccountDeleted {
				counted.Add(1)
			}
		}
	})
	s.signIn(t, "alice", 7, "7-qqo").grant(t)
	s.report(t, fxa.event(t, "alice", deleted, map[string]any{}))
	s.signIn(t, "alice", 7, "7-qqo").grant(t)
	if counted.Load() != 1 {
		t.Errorf("%d events were counted", counted.Load())
	}
}

// TestEventsWithoutDatabase checks that an event that was not stored is not acknowledged, so it is sent again.
func TestEventsWithoutDatabase(t *testing.T) {
	t.Parallel()
	fxa := newReporter(t)
	s := newServer(t, fxa.configure(t))
	must(t, s.db.Close())
	s.do(t, "POST", "/1.0/webhooks/fxa/events", "Authorization", "Bearer "+fxa.event(t, "alice", deleted, map[string]any{})).
		wantError(t, 503, "internal-error", "internal", "", "Server error")
}
