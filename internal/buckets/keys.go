package buckets

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/secretbox"
)

// Keyring manages access keys. It is safe for concurrent use.
type Keyring struct {
	store Accounts
	clock clock.Clock
	box   *secretbox.Box
	given map[string]ConfiguredKey  // configured keys by ID
	found *lru.Cache[string, found] // read from the store within KeyDelay
	// unknown caches failed lookups separately, so that they do not evict good keys.
	unknown *lru.Cache[string, time.Time]
}

// found is a cached key and when it was read.
type found struct {
	Credential
	at time.Time
}

const (
	// cachedKeys limits how many keys, and how many failed lookups, the Keyring remembers.
	cachedKeys = 10000
	// KeyDelay is how long keys are cached. Changes must take effect within a second.
	KeyDelay = 900 * time.Millisecond
)

// NewKeyring returns a keyring. Configured keys take precedence over stored keys. old are the previous encryption
// secrets.
func NewKeyring(store Accounts, now clock.Clock, secret string, old []string, configured ...ConfiguredKey) (*Keyring, error) {
	k := &Keyring{store: store, clock: now, given: map[string]ConfiguredKey{}}
	for _, c := range configured {
		k.given[c.ID] = c
	}
	var err error
	// expirable.LRU would wake up a hundred times a second.
	if k.found, err = lru.New[string, found](cachedKeys); err != nil {
		return nil, err
	}
	if k.unknown, err = lru.New[string, time.Time](cachedKeys); err != nil {
		return nil, err
	}
	k.box, err = secretbox.New("buckets access keys", secret, old...)
	return k, err
}

// New generates an access key without storing it.
func (k *Keyring) New(account AccountID, terms KeyTerms) (key Key, secret string) {
	key, secret = Key{ID: newKeyID(), Account: account, Created: At(k.clock()), KeyTerms: terms}, newKeySecret()
	key.Secret = k.box.Seal([]byte(secret), key.ID)
	return key, secret
}

// Create stores a new key and returns the secret, which cannot be read again. It returns ErrNoAccount, or the errors of
// KeyTerms.Check.
func (k *Keyring) Create(ctx context.Context, account AccountID, terms KeyTerms) (id, secret string, err error) {
	if err := terms.Check(); err != nil {
		return "", "", err
	}
	key, secret := k.New(account, terms)
	err = k.store.CreateKey(ctx, key)
	k.Changed(key.ID)
	return key.ID, secret, err
}

// Changed invalidates the cache. Call it after storing a key.
func (k *Keyring) Changed(id string) {
	k.found.Remove(id)
	k.unknown.Remove(id)
}

// Known is like Find without database access. It returns known = false if the key is not cached.
func (k *Keyring) Known(id string) (c Credential, ok, known bool) {
	if f, found := k.found.Get(id); found && k.isFresh(f.at) {
		return f.Credential, true, true
	}
	at, found := k.unknown.Get(id)
	return Credential{}, false, found && k.isFresh(at)
}

// isFresh returns false if the clock was set back.
func (k *Keyring) isFresh(at time.Time) bool {
	age := k.clock().Sub(at)
	return 0 <= age && age < KeyDelay
}

// Find returns a key that is not revoked. The key may have expired.
func (k *Keyring) Find(ctx context.Context, id string) (c Credential, ok bool, err error) {
	if c, ok, known := k.Known(id); known {
		return c, ok, nil
	}
	at := k.clock()
	c, err = k.read(ctx, id)
	switch missing := errors.Is(err, ErrNoKey); {
	case err == nil:
		k.found.Add(id, found{c, at})
		return c, true, nil
	case !missing:
		return Credential{}, false, err
	}
	if _, given := k.given[id]; !given { // the account may be created later
		k.unknown.Add(id, at)
	}
	return Credential{}, false, nil
}

// read looks in the configuration, then in the store. A revoked key and a key without an account are ErrNoKey.
func (k *Keyring) read(ctx context.Context, id string) (c Credential, err error) {
	if given, ok := k.given[id]; ok {
		c.Secret = given.Secret
		c.Account, err = k.store.Account(ctx, given.Account)
		return c, noKey(err)
	}
	key, err := k.store.Key(ctx, id)
	if err == nil && key.Revoked != 0 {
		err = ErrNoKey
	}
	if err != nil {
		return c, err
	}
	c.Expires, c.Limits = key.Expires, key.Limits
	if c.Secret, err = k.Secret(key); err != nil {
		return c, err
	}
	c.Account, err = k.store.AccountByID(ctx, key.Account)
	return c, noKey(err)
}

// noKey hides why a key cannot be used: its account was deleted meanwhile.
func noKey(err error) error {
	if errors.Is(err, ErrNoAccount) {
		return ErrNoKey
	}
	return err
}

// Secret decrypts a stored key's secret. It fails if it was encrypted with another key secret.
func (k *Keyring) Secret(key Key) (string, error) {
	if text, ok := k.box.Open(key.Secret, key.ID); ok {
		return string(text), nil
	}
	return "", errcode.New(errcode.Internal, "a secret key was encrypted with another buckets.key_secret: restore it, or add it to buckets.old_key_secrets")
}

// Revoke takes effect immediately in this process, and within KeyDelay in others.
func (k *Keyring) Revoke(ctx context.Context, id string) error {
	if _, ok := k.given[id]; ok {
		return ErrKeyConfigured
	}
	defer k.Changed(id)
	return k.store.RevokeKey(ctx, id, At(k.clock()))
}

// Change takes effect like Revoke.
func (k *Keyring) Change(ctx context.Context, id string, change func(KeyTerms) (KeyTerms, error)) (Key, error) {
	if _, ok := k.given[id]; ok {
		return Key{}, ErrKeyConfigured
	}
	defer k.Changed(id)
	for tries := 1; ; tries++ {
		key, err := k.store.Key(ctx, id)
		if err == nil && key.Revoked != 0 {
			err = ErrNoKey
		}
		if err != nil {
			return key, err
		}
		was := key.KeyTerms
		if key.KeyTerms, err = change(was); err == nil {
			err = key.Check()
		}
		if err != nil {
			return key, err
		}
		if err = k.store.ChangeKey(ctx, id, was, key.KeyTerms); !errors.Is(err, ErrKeyChanged) || tries == changeTries {
			return key, err
		}
	}
}

// changeTries limits how often Change reads the terms again because another process changed them.
const changeTries = 10

// newKeyID returns "HF" and 18 characters from A-Z and 2-7.
func newKeyID() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return "HF" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)[:18]
}

// newKeySecret returns 40 characters, like Amazon's secrets.
func newKeySecret() string {
	b := make([]byte, 30)
	_, _ = rand.Read(b)
	return base64.URLEncoding.EncodeToString(b)
}
