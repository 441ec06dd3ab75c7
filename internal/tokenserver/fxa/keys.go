package fxa

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

const (
	keyLife = time.Hour // of fetched keys
	// freshGap and failedGap are the minimum time between fetches after success and failure, because anybody can send
	// unknown keys.
	freshGap  = time.Second
	failedGap = time.Minute
)

// keySource gives the keys to verify tokens with. newer is asked if no current key verifies a token.
type keySource interface {
	current(ctx context.Context) ([]jose.JSONWebKey, error)
	newer(ctx context.Context) ([]jose.JSONWebKey, error)
}

// fixedKeys are keys from the configuration.
type fixedKeys []jose.JSONWebKey

func (k fixedKeys) current(context.Context) ([]jose.JSONWebKey, error) { return k, nil }
func (k fixedKeys) newer(context.Context) ([]jose.JSONWebKey, error)   { return k, nil }

// fetchedKeys are fetched on demand and cached.
type fetchedKeys struct {
	fetch  func(context.Context) ([]jose.JSONWebKey, error)
	now    clock.Clock
	flight singleflight.Group

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time
	tried   time.Time
	failure error // of the last fetch
}

// current returns cached keys, even old keys if no others can be fetched.
func (f *fetchedKeys) current(ctx context.Context) ([]jose.JSONWebKey, error) {
	f.mu.Lock()
	keys, old := f.keys, f.since(f.fetched) >= keyLife
	f.mu.Unlock()
	if !old && len(keys) > 0 {
		return keys, nil
	}
	keys, err := f.newer(ctx)
	if len(keys) > 0 {
		return keys, nil
	}
	return nil, err
}

// newer fetches the keys, unless it did so a moment ago. Concurrent callers share a fetch, which goes on if a caller
// gives up.
func (f *fetchedKeys) newer(ctx context.Context) ([]jose.JSONWebKey, error) {
	f.mu.Lock()
	gap := freshGap
	if f.failure != nil {
		gap = failedGap
	}
	keys, failure, recent := f.keys, f.failure, f.since(f.tried) < gap
	f.mu.Unlock()
	if recent {
		return keys, failure
	}
	ended := f.flight.DoChan("", func() (any, error) {
		f.refresh(context.WithoutCancel(ctx))
		return nil, nil
	})
	select {
	case <-ended:
	case <-ctx.Done():
		return keys, unavailable(ctx.Err())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys, f.failure
}

// refresh fetches once. After an error the old keys stay.
func (f *fetchedKeys) refresh(ctx context.Context) {
	keys, err := f.fetch(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried, f.failure = f.now(), err
	if err == nil {
		f.keys, f.fetched = keys, f.tried
	}
}

// since returns the absolute time since t, so that keys expire even after the clock is set back.
func (f *fetchedKeys) since(t time.Time) time.Duration { return f.now().Sub(t).Abs() }

// configuredKey returns errcode.Invalid for a key that cannot verify tokens.
func configuredKey(k tokenserver.JWK) (jose.JSONWebKey, error) {
	raw, err := json.Marshal(map[string]string{"kty": k.KTY, "alg": k.Alg, "kid": k.KID, "use": k.Use, "n": k.N, "e": k.E})
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("encode a configured key: %w", err)
	}
	key, err := publicKey(raw)
	if err != nil {
		return key, errcode.Wrap(errcode.Invalid, "a configured key of the accounts server must be an RSA key for RS256", err)
	}
	return key, nil
}

// publicKey parses a JWK. It accepts RSA keys from 1024 bits for RS256.
func publicKey(raw []byte) (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(raw); err != nil {
		return key, err
	}
	if k, ok := key.Key.(*rsa.PublicKey); !ok || k.N.BitLen() < 1024 {
		return key, errors.New("not a public RSA key")
	}
	if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != string(jose.RS256) {
		return key, errors.New("a key for another purpose")
	}
	return key, nil
}

// named reports whether a key has the kid.
func named(keys []jose.JSONWebKey, kid string) bool {
	return slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return k.KeyID == kid })
}
