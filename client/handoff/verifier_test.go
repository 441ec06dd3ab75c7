package handoff_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client/handoff"
)

// site is a server with a key set, and a verifier's clock.
type site struct {
	mu      sync.Mutex
	now     time.Time
	status  int
	header  http.Header
	body    string
	err     error
	fetches atomic.Int64

	begun, release chan struct{} // if set, a fetch sends to begun and waits for release
}

const keySetURL = "https://guests.example/bff/consumer/v1/tenants/" + tenantA + "/jwks.json"

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.fetches.Add(1)
	if s.begun != nil {
		s.begun <- struct{}{}
		<-s.release
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if r.URL.String() != keySetURL || r.Method != http.MethodGet {
		return nil, errors.New("another request than that for the key set: " + r.URL.String())
	}
	return &http.Response{StatusCode: s.status, Header: s.header, Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

func (s *site) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *site) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *site) publish(t *testing.T, signers ...*handoff.Signer) {
	t.Helper()
	text, err := handoff.FormatKeySet(signers)
	if err != nil {
		t.Fatal(err)
	}
	s.set(func() { s.body = string(text) })
}

func newSite(t *testing.T, signers ...*handoff.Signer) (*site, *handoff.Verifier) {
	t.Helper()
	s := &site{now: whole(claims()).Minted, status: 200, header: http.Header{"Cache-Control": {"public, max-age=300"}}}
	s.publish(t, signers...)
	v, err := handoff.NewVerifier(handoff.VerifierOptions{KeySet: keySetURL, Issuer: issuer, Tenant: tenantA, Client: &http.Client{Transport: s}, Now: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

func signedAt(t *testing.T, s *handoff.Signer, at time.Time) string {
	t.Helper()
	c := claims()
	c.Minted, c.Expires = at.Truncate(time.Second), at.Truncate(time.Second).Add(10*time.Minute)
	token, err := s.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// want verifies a new token, and checks the error and the number of fetches so far.
func (s *site) want(t *testing.T, v *handoff.Verifier, by *handoff.Signer, want error, fetches int64) {
	t.Helper()
	_, _, err := v.Verify(t.Context(), signedAt(t, by, s.clock()))
	if !errors.Is(err, want) || err != nil && want == nil {
		t.Errorf("%v, want %v", err, want)
	}
	if n := s.fetches.Load(); n != fetches {
		t.Errorf("%d fetches, want %d", n, fetches)
	}
}

func (s *site) wait(d time.Duration) { s.set(func() { s.now = s.now.Add(d) }) }

// TestVerifierFetches checks that unknown keys do not cause a fetch for each token.
func TestVerifierFetches(t *testing.T) {
	t.Parallel()
	first, second := signer(t, "k1", tenantA), signer(t, "k2", tenantA)
	s, v := newSite(t, first)
	for range 3 {
		s.want(t, v, first, nil, 1)
	}
	for range 100 { // tokens with invented keys
		s.want(t, v, second, handoff.ErrUnknownKey, 1)
	}
	s.wait(15 * time.Second)
	s.publish(t, first, second)
	for range 3 {
		s.want(t, v, second, nil, 2)
	}
	s.wait(299 * time.Second)
	s.want(t, v, first, nil, 2)
	s.publish(t, second) // revokes the first key
	s.wait(time.Second)
	s.want(t, v, first, handoff.ErrUnknownKey, 3)
	s.want(t, v, second, nil, 3)
	s.set(func() { s.header = http.Header{"Cache-Control": {"max-age=86400"}} })
	s.wait(300 * time.Second)
	s.want(t, v, second, nil, 4)
	s.wait(15*time.Minute - 1) // maximum lifetime
	s.want(t, v, second, nil, 4)
	s.set(func() { s.header = http.Header{"Cache-Control": {"max-age=300"}, "Age": {"290"}} })
	s.wait(1)
	s.want(t, v, second, nil, 5)
	s.wait(15 * time.Second)
	s.want(t, v, second, nil, 6)
	s.set(func() { s.header = http.Header{} })
	s.wait(15 * time.Second)
	s.want(t, v, second, nil, 7)
	s.wait(5*time.Minute - 1)
	s.want(t, v, second, nil, 7)
	s.wait(-24 * time.Hour) // clock set back
	s.want(t, v, second, nil, 8)
	if _, _, err := v.Verify(t.Context(), "eyJhbGciOiJub25lIn0.e30."); !errors.Is(err, handoff.ErrAlgorithm) || s.fetches.Load() != 8 {
		t.Errorf("no algorithm: %v, %d fetches", err, s.fetches.Load())
	}
}

// TestVerifierFails checks that known keys verify for an hour while the server is unavailable or sends invalid key
// sets.
func TestVerifierFails(t *testing.T) {
	t.Parallel()
	key := signer(t, "k1", tenantA)
	for name, breaks := range map[string]func(*site){
		"unavailable": func(s *site) { s.err = errors.New("no route") },
		"an error":    func(s *site) { s.status = 503 },
		"a redirect": func(s *site) {
			s.status, s.header = 302, http.Header{"Location": {"https://attacker.example/jwks.json"}}
		},
		"oversized":   func(s *site) { s.body += strings.Repeat(" ", handoff.MaxKeySet) },
		"no JSON":     func(s *site) { s.body = "<html>" },
		"private key": func(s *site) { s.body = strings.Replace(s.body, `"x"`, `"d":"AAAA","x"`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken, v := newSite(t, key)
			broken.set(func() { breaks(broken) })
			broken.want(t, v, key, handoff.ErrNoKeySet, 1)
			broken.want(t, v, key, handoff.ErrNoKeySet, 1) // before the next fetch

			s, v := newSite(t, key)
			s.want(t, v, key, nil, 1)
			s.set(func() { breaks(s) })
			s.wait(300 * time.Second)
			s.want(t, v, key, nil, 2)
			s.want(t, v, key, nil, 2)
			s.wait(time.Hour - 300*time.Second - 1)
			s.want(t, v, key, nil, 3)
			s.wait(1)
			s.want(t, v, key, handoff.ErrNoKeySet, 3)
			s.set(func() { s.err, s.status, s.header = nil, 200, http.Header{} })
			s.publish(t, key)
			s.wait(15 * time.Second)
			s.want(t, v, key, nil, 4)
		})
	}
}

// TestVerifierAtOnce checks that concurrent tokens wait for the same fetch, which continues if the first caller
// gives up.
func TestVerifierAtOnce(t *testing.T) {
	t.Parallel()
	key := signer(t, "k1", tenantA)
	s, v := newSite(t, key)
	s.begun, s.release = make(chan struct{}), make(chan struct{})
	token := signedAt(t, key, s.clock())
	ctx, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, _, err := v.Verify(ctx, token)
		gaveUp <- err
	}()
	<-s.begun
	giveUp()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, _, err := v.Verify(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
	close(s.release)
	all.Wait()
	if n := s.fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

func TestVerifierOptions(t *testing.T) {
	t.Parallel()
	good := handoff.VerifierOptions{KeySet: keySetURL, Issuer: issuer, Tenant: tenantA}
	for want, change := range map[string]func(*handoff.VerifierOptions){
		"key set: expected":       func(o *handoff.VerifierOptions) { o.KeySet = "http://guests.example/jwks.json" },
		"key set: expected an":    func(o *handoff.VerifierOptions) { o.KeySet = "https://user@guests.example/jwks.json" },
		"key set: expected an h":  func(o *handoff.VerifierOptions) { o.KeySet = "file:///jwks.json" },
		"key set: expected an ht": func(o *handoff.VerifierOptions) { o.KeySet = "" },
		"issuer: expected":        func(o *handoff.VerifierOptions) { o.Issuer = "" },
		"tenant: expected":        func(o *handoff.VerifierOptions) { o.Tenant = "" },
	} {
		o := good
		change(&o)
		if _, err := handoff.NewVerifier(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, local := range []string{"http://127.0.0.1:8000/jwks.json", "http://[::1]/jwks.json", "http://localhost/jwks.json"} {
		o := good
		o.KeySet = local
		if _, err := handoff.NewVerifier(o); err != nil {
			t.Errorf("%s: %v", local, err)
		}
	}
}

// FuzzVerifier checks that exactly the tokens of published keys are accepted.
func FuzzVerifier(f *testing.F) {
	signers := []*handoff.Signer{signer(f, "k0", tenantA), signer(f, "k1", tenantA), signer(f, "k2", tenantA)}
	f.Add([]byte{0, 3, 1, 6, 2, 9, 250, 0})
	f.Fuzz(func(t *testing.T, steps []byte) {
		s, v := newSite(t)
		published := 0
		for _, b := range steps[:min(len(steps), 40)] {
			if b%2 == 0 { // publish a subset, and wait until every copy has expired
				published = int(b/2) % 8
				var some []*handoff.Signer
				for i, one := range signers {
					if published&(1<<i) != 0 {
						some = append(some, one)
					}
				}
				s.publish(t, some...)
				s.wait(16 * time.Minute)
				continue
			}
			by := int(b/2) % 3
			_, _, err := v.Verify(t.Context(), signedAt(t, signers[by], s.clock()))
			if (err == nil) != (published&(1<<by) != 0) {
				t.Fatalf("key %d of %b: %v", by, published, err)
			}
			s.wait(16 * time.Minute)
		}
	})
}
