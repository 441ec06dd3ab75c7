package buckets

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/expirable"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/secretbox"
)

// Keyring creates access keys and finds their secrets, which are encrypted in the
// database. It is safe for concurrent use.
type Keyring struct {
	store Accounts
	clock clock.Clock
	box   *secretbox.Box
	given map[string]ConfiguredKey
	found *expirable.LRU[string, found]
	// unknown has keys that do not exist or are revoked, with the time when they were looked
	// for. So a client with a wrong key does not read the database with every request.
	unknown *lru.Cache[string, time.Time]
}

// found is an access key with its account, as it was a short time ago.
type found struct {
	account Account
	secret  string
}

const (
	cachedKeys = 10000
	// KeyDelay is how long a key that was revoked on another process still works.
	KeyDelay = 5 * time.Second
	// NewKeyDelay is how long a key that was used before it was created on another process
	// does not work yet.
	NewKeyDelay = time.Second
)

// NewKeyring returns a keyring. The secrets are those of Config.
// Keys of the configuration have precedence over those of the database.
func NewKeyring(store Accounts, now clock.Clock, secret string, old []string, configured ...ConfiguredKey) (*Keyring, error) {
	k := &Keyring{store: store, clock: now, given: map[string]ConfiguredKey{}, found: expirable.NewLRU[string, found](cachedKeys, nil, KeyDelay)}
	for _, c := range configured {
		k.given[c.ID] = c
	}
	var err error
	// Not an expirable.LRU: that would wake up a hundred times a second.
	if k.unknown, err = lru.New[string, time.Time](cachedKeys); err != nil {
		return nil, err
	}
	k.box, err = secretbox.New("buckets access keys", secret, old...)
	return k, err
}

// New returns a new access key for an account, which the caller stores, and its secret.
func (k *Keyring) New(account AccountID) (key Key, secret string) {
	key, secret = Key{ID: newKeyID(), Account: account, Created: At(k.clock())}, newKeySecret()
	key.Secret = k.box.Seal([]byte(secret), key.ID)
	return key, secret
}

// Create creates an access key for an account and returns its ID and secret.
func (k *Keyring) Create(ctx context.Context, account AccountID) (id, secret string, err error) {
	key, secret := k.New(account)
	err = k.store.CreateKey(ctx, key)
	k.Created(key.ID)
	return key.ID, secret, err
}

// Created must be called after a key of New was stored, so that it works at once.
func (k *Keyring) Created(id string) { k.unknown.Remove(id) }

// Known is Find without the database: known is false if Find would use it.
func (k *Keyring) Known(id string) (account Account, secret string, ok, known bool) {
	if f, ok := k.found.Get(id); ok {
		return f.account, f.secret, true, true
	}
	if at, ok := k.unknown.Get(id); ok {
		age := k.clock().Sub(at)
		known = 0 <= age && age < NewKeyDelay // not if the clock was set back
	}
	return Account{}, "", false, known
}

// Find returns the account and the secret of an access key that is not revoked.
func (k *Keyring) Find(ctx context.Context, id string) (account Account, secret string, ok bool, err error) {
	if account, secret, ok, known := k.Known(id); known {
		return account, secret, ok, nil
	}
	at := k.clock()
	account, secret, ok, err = k.read(ctx, id)
	switch {
	case err != nil:
		return Account{}, "", false, err
	case !ok:
		if _, given := k.given[id]; !given { // its account may be created right now
			k.unknown.Add(id, at)
		}
		return Account{}, "", false, nil
	}
	k.found.Add(id, found{account, secret})
	return account, secret, true, nil
}

// read is Find in the database.
func (k *Keyring) read(ctx context.Context, id string) (account Account, secret string, ok bool, err error) {
	if c, ok := k.given[id]; ok {
		account, err = k.store.Account(ctx, c.Account)
		switch {
		case errors.Is(err, ErrNoAccount):
			return account, "", false, nil
		case err != nil:
			return account, "", false, err
		}
		return account, c.Secret, true, nil
	}
	key, err := k.store.Key(ctx, id)
	if errors.Is(err, ErrNoKey) || err == nil && key.Revoked != 0 {
		return account, "", false, nil
	}
	if err != nil {
		return account, "", false, err
	}
	if secret, err = k.Secret(key); err != nil {
		return account, "", false, err
	}
	if account, err = k.store.AccountByID(ctx, key.Account); err != nil {
		if errors.Is(err, ErrNoAccount) {
			return account, "", false, nil
		}
		return account, "", false, err
	}
	return account, secret, true, nil
}

// Secret decrypts the secret of a key.
func (k *Keyring) Secret(key Key) (string, error) {
	if text, ok := k.box.Open(key.Secret, key.ID); ok {
		return string(text), nil
	}
	return "", errcode.New(errcode.Internal, "the secret of an access key was encrypted with another buckets.key_secret: restore it, or add it to buckets.old_key_secrets")
}

// Revoke revokes a key, here at once and in other processes within KeyDelay.
func (k *Keyring) Revoke(ctx context.Context, id string) error {
	if _, ok := k.given[id]; ok {
		return ErrKeyConfigured
	}
	defer k.found.Remove(id)
	return k.store.RevokeKey(ctx, id, At(k.clock()))
}

// newKeyID returns an access key ID: HF and 18 of A-Z and 2-7.
func newKeyID() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return "HF" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)[:18]
}

// newKeySecret returns a secret of 40 characters, like Amazon's.
func newKeySecret() string {
	b := make([]byte, 30)
	_, _ = rand.Read(b)
	return base64.URLEncoding.EncodeToString(b)
}
