package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// VerifierOptions configure NewVerifier. All but Client and Now are required.
type VerifierOptions struct {
	KeySet string // URL of the tenant's JWK Set: https, or http on this machine
	Issuer string // the server's guest.handoff_issuer
	Tenant string // lower-case UUID

	Client *http.Client     // nil for a client with a timeout. Redirects are not followed
	Now    func() time.Time // nil for time.Now
}

// Verifier verifies the JWTs of a tenant with the public keys that the server publishes. It is safe for concurrent
// use.
type Verifier struct {
	o      VerifierOptions
	client http.Client

	mu      sync.Mutex
	set     *KeySet // nil if never fetched
	fetched time.Time
	fresh   time.Time // until then the set needs no refresh
	tried   time.Time // when the latest fetch started
	failed  error     // error of the latest fetch
	running chan struct{}
}

const (
	defaultFresh = 5 * time.Minute // if the answer does not say
	maxFresh     = 15 * time.Minute
	maxStale     = time.Hour        // maximum age of the set while the server is unavailable
	fetchPause   = 15 * time.Second // minimum time between two fetches, even for unknown keys
	fetchTime    = 10 * time.Second
)

// ErrNoKeySet means that the key set could not be fetched, so no token can be verified.
var ErrNoKeySet = errors.New("the key set is not available")

// NewVerifier returns a verifier that fetches the key set on demand.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	u, err := url.Parse(o.KeySet)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, errors.New("key set: expected an https URL without a user, or an http URL of this machine")
	case !IsIssuer(o.Issuer):
		return nil, fmt.Errorf("issuer: expected 1 to %d printable ASCII characters without spaces", maxIssuer)
	case !isText(o.Tenant):
		return nil, fmt.Errorf("tenant: expected 1 to %d printable ASCII characters without spaces", maxText)
	}
	v := &Verifier{o: o}
	if o.Client != nil {
		v.client = *o.Client
	}
	if v.client.Timeout == 0 {
		v.client.Timeout = fetchTime
	}
	v.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if v.o.Now == nil {
		v.o.Now = time.Now
	}
	return v, nil
}

// isLoopback reports whether the host is this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Verify returns the claims and the key ID of a JWT, like KeySet.Verify. If the key set is old or does not contain
// the key, Verify fetches it, at most every 15 seconds. It returns ErrNoKeySet if there is no key set.
func (v *Verifier) Verify(ctx context.Context, token string) (c Claims, key string, err error) {
	t, err := parseJWT(token)
	if err != nil {
		return c, "", err
	}
	set, err := v.keys(ctx, t.key)
	if err != nil {
		return c, "", err
	}
	return set.Verify(token, Expected{v.o.Issuer, v.o.Tenant, v.o.Now()})
}

// keys returns the set in which to look for the key, after a fetch if necessary.
func (v *Verifier) keys(ctx context.Context, id string) (*KeySet, error) {
	running := v.begin(ctx, id)
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.set != nil && v.o.Now().Before(v.fetched.Add(maxStale)) {
		return v.set, nil
	}
	return nil, fmt.Errorf("%w: %w", ErrNoKeySet, v.failed)
}

// begin starts a fetch if necessary and allowed. It returns a channel that is closed when the running fetch ends, or
// nil if the caller need not wait.
func (v *Verifier) begin(ctx context.Context, id string) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.o.Now()
	if v.set != nil && v.set.has(id) && now.Before(v.fresh) && !now.Before(v.fetched) {
		return nil
	}
	if v.running != nil {
		return v.running
	}
	if since := now.Sub(v.tried); since >= 0 && since < fetchPause {
		return nil
	}
	v.tried = now
	done := make(chan struct{})
	v.running = done
	go func() { // not canceled with the caller, because others wait for it
		set, fresh, err := v.fetch(context.WithoutCancel(ctx))
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.failed = err; err == nil {
			v.set, v.fetched, v.fresh = set, now, now.Add(fresh)
		}
		v.running = nil
		close(done)
	}()
	return done
}

// fetch reads the key set. fresh is how long the answer may be used without asking again.
func (v *Verifier) fetch(ctx context.Context) (set *KeySet, fresh time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.o.KeySet, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	r.Header.Set("Cache-Control", "no-cache") // a cache in between may not have the newest key
	answer, err := v.client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxKeySet+1))
	if err != nil {
		return nil, 0, err
	}
	set, err = ParseKeySet(text)
	return set, freshness(answer.Header), err
}

// freshness reads Cache-Control and Age (RFC 9111), at most maxFresh.
func freshness(h http.Header) time.Duration {
	fresh := defaultFresh
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch seconds, err := strconv.ParseUint(value, 10, 31); {
		case name == "no-store" || name == "no-cache":
			return 0
		case name == "max-age" && err == nil:
			fresh = time.Duration(seconds) * time.Second
		}
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		fresh -= time.Duration(age) * time.Second
	}
	return min(max(fresh, 0), maxFresh)
}
