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
	"holdfast/internal/fault"
	"holdfast/internal/tokenserver"
)

const (
	// keyLife is how long fetched keys are used before they are fetched again.
	keyLife = time.Hour
	// freshGap and failedGap are the least time between two fetches, whatever tokens
	// come, after one that succeeded and after one that failed: anybody can make up a
	// token with an unknown key. The first is how long an outage can go unnoticed, in
	// which such a token is refused though nobody knows whether its key is new.
	freshGap  = time.Second
	failedGap = time.Minute
)

// keySource is where the accounts server's public keys come from.
type keySource interface {
	// current returns the keys, possibly none; the error,
	// tokenserver.ErrAccountsAway, says why there are none.
	current(ctx context.Context) ([]jose.JSONWebKey, error)
	// newer returns the keys after a token referred to one that is not among
	// them; the error is tokenserver.ErrAccountsAway when nobody knows whether
	// there are new ones.
	newer(ctx context.Context) ([]jose.JSONWebKey, error)
}

// fixedKeys are those of the settings.
type fixedKeys []jose.JSONWebKey

func (k fixedKeys) current(context.Context) ([]jose.JSONWebKey, error) { return k, nil }
func (k fixedKeys) newer(context.Context) ([]jose.JSONWebKey, error)   { return k, nil }

// fetchedKeys are those that the accounts server publishes. Old keys are used
// as long as new ones cannot be had.
type fetchedKeys struct {
	fetch  func(context.Context) ([]jose.JSONWebKey, error)
	now    clock.Clock
	flight singleflight.Group

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time // when keys were had
	tried   time.Time // when the last fetch ended
	failure error     // how it ended
}

func (f *fetchedKeys) current(ctx context.Context) ([]jose.JSONWebKey, error) {
	f.mu.Lock()
	keys, old := f.keys, f.since(f.fetched) >= keyLife
	f.mu.Unlock()
	if !old && len(keys) > 0 {
		return keys, nil
	}
	keys, err := f.newer(ctx)
	if len(keys) > 0 {
		return keys, nil // old ones must do when there are no new ones
	}
	return nil, err
}

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
	// One fetch for all who wait; it goes on when one of them leaves.
	ended := f.flight.DoChan("", func() (any, error) {
		f.refresh(context.WithoutCancel(ctx))
		return nil, nil
	})
	select {
	case <-ended:
	case <-ctx.Done():
		return keys, away(ctx.Err())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys, f.failure
}

func (f *fetchedKeys) refresh(ctx context.Context) {
	keys, err := f.fetch(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried, f.failure = f.now(), err
	if err == nil {
		f.keys, f.fetched = keys, f.tried
	}
}

// since is how long ago t was; a clock that stepped back must not keep keys
// for ever.
func (f *fetchedKeys) since(t time.Time) time.Duration { return f.now().Sub(t).Abs() }

// configuredKey is a key of the settings.
func configuredKey(k tokenserver.JWK) (jose.JSONWebKey, error) {
	raw, err := json.Marshal(map[string]string{"kty": k.KTY, "alg": k.Alg, "kid": k.KID, "use": k.Use, "n": k.N, "e": k.E})
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("encode a configured key: %w", err)
	}
	key, err := publicKey(raw)
	if err != nil {
		return key, fault.Wrap(fault.Invalid, "a configured key of the accounts server must be an RSA key for RS256", err)
	}
	return key, nil
}

// publicKey reads a key and refuses what RS256 cannot be verified with.
func publicKey(raw []byte) (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(raw); err != nil {
		return key, err
	}
	// A text without a modulus reads as a key of zero bits.
	if k, ok := key.Key.(*rsa.PublicKey); !ok || k.N.BitLen() < 1024 {
		return key, errors.New("not a public RSA key")
	}
	if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != string(jose.RS256) {
		return key, errors.New("a key for another purpose")
	}
	return key, nil
}

// named reports whether a key has this name.
func named(keys []jose.JSONWebKey, kid string) bool {
	return slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return k.KeyID == kid })
}
