package fxa

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"holdfast/internal/clock"
	"holdfast/internal/tokenserver"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type signer struct {
	kid string
	key *rsa.PrivateKey
}

// testKeys are generated once, because an RSA key takes a tenth of a second.
var testKeys = sync.OnceValue(func() [3]signer {
	var all [3]signer
	for i, kid := range []string{"first", "second", "third"} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		all[i] = signer{kid, key}
	}
	return all
})

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Algorithm: "RS256", Use: "sig"}
}

func (s signer) configured(t testing.TB) tokenserver.JWK {
	t.Helper()
	raw, err := s.public().MarshalJSON()
	must(t, err)
	var k struct{ Kty, Alg, Kid, Use, N, E string }
	must(t, json.Unmarshal(raw, &k))
	return tokenserver.JWK{KTY: k.Kty, Alg: k.Alg, KID: k.Kid, Use: k.Use, N: k.N, E: k.E, CreatedAt: 1}
}

// sign returns a token, without typ or kid if empty.
func (s signer) sign(t testing.TB, typ, kid string, claims any) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	if typ != "" {
		opts = opts.WithType(jose.ContentType(typ))
	}
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	sig, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: s.key}, opts)
	must(t, err)
	token, err := jwt.Signed(sig).Claims(claims).Serialize()
	must(t, err)
	return token
}

func good() map[string]any {
	return map[string]any{
		"sub": "alice", "exp": start.Add(time.Hour).Unix(), "fxa-generation": 7,
		"scope": "openid " + tokenserver.Scope, "aud": "https://token.example", "client_id": "x",
	}
}

// with returns good with changed claims; nil removes a claim.
func with(changes map[string]any) map[string]any {
	c := good()
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

type stub struct {
	*httptest.Server
	fetches, verdicts atomic.Int32

	mu     sync.Mutex
	jwks   http.HandlerFunc
	verify http.HandlerFunc
}

func newStub(t testing.TB, keys ...signer) *stub {
	s := &stub{}
	s.publish(t, keys...)
	s.setVerify(answer(http.StatusInternalServerError, "not expected"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/jwks", func(w http.ResponseWriter, r *http.Request) {
		s.fetches.Add(1)
		s.mu.Lock()
		h := s.jwks
		s.mu.Unlock()
		h(w, r)
	})
	mux.HandleFunc("POST /v1/verify", func(w http.ResponseWriter, r *http.Request) {
		s.verdicts.Add(1)
		s.mu.Lock()
		h := s.verify
		s.mu.Unlock()
		h(w, r)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *stub) setJWKS(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jwks = h
}

func (s *stub) setVerify(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verify = h
}

func (s *stub) publish(t testing.TB, keys ...signer) {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, k.public())
	}
	raw, err := json.Marshal(set)
	must(t, err)
	s.setJWKS(answer(http.StatusOK, string(raw)))
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func (s *stub) client(t testing.TB, change func(*tokenserver.Config)) (*Client, *clock.Manual) {
	t.Helper()
	cfg := tokenserver.DefaultConfig()
	cfg.FxAOAuthServerURL = s.URL + "/v1/"
	cfg.FxAWebhookClientID, cfg.FxAWebhookIssuer = "client", "https://accounts.example"
	if change != nil {
		change(&cfg)
	}
	hands := clock.NewManual(start)
	c, err := New(cfg, hands.Now)
	must(t, err)
	t.Cleanup(c.Close)
	return c, hands
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
