package handoffs

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"strings"
	"sync"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/errcode"
	"holdfast/internal/secretbox"
)

// Key is a signing key, as the database stores it.
type Key struct {
	ID     string
	Tenant string // lower-case UUID for Ed25519; "" for HMAC keys, which all tenants share
	Secret []byte // encrypted; empty once retired
	State  KeyState

	NotBefore time.Time // minimum mint time of its tokens
	NotAfter  time.Time // when another key replaced it; zero: active or never active
	Retired   time.Time // zero unless State is KeyRetired
}

// KeyState says how a key may be used.
type KeyState string

// Key states. At most one HMAC key, and one Ed25519 key per tenant, is active.
const (
	KeyActive     KeyState = "active"
	KeyVerifyOnly KeyState = "verify-only"
	KeyRetired    KeyState = "retired" // tokens are refused, the secret is erased
)

// verifierSkew is how far an offline verifier's clock may lag.
const verifierSkew = time.Minute

// Key errors.
var (
	ErrNoSuchKey    = errcode.New(errcode.NotFound, "no such key: holdfast guest keys list shows all")
	ErrKeyRetired   = errcode.New(errcode.Conflict, "the key is retired")
	ErrKeyActive    = errcode.New(errcode.Conflict, "the key is active: activate another key first, or revoke it")
	ErrKeyHasTokens = errcode.New(errcode.Conflict, "the key has signed tokens that are still valid: retire it when they have expired, after 31 minutes at most, or revoke it")
	errKeySecret    = errcode.New(errcode.Internal, "a handoff key was encrypted with another guest.handoff_secret: restore it, or add it to guest.old_handoff_secrets")
)

// Keys is the key ring, shared by all processes through the database. It reads keys when needed, so changes take
// effect everywhere at once. It is safe for concurrent use.
type Keys struct {
	store   Store
	box     *secretbox.Box
	answers *secretbox.Box // encrypts mint answers, which contain tokens
	issuer  string

	mu      sync.Mutex
	signers map[string]signer // by key ID; the database knows the state
}

// NewKeys returns the database's key ring.
func NewKeys(store Store, secret string, old []string, issuer string) (*Keys, error) {
	box, err := secretbox.New("guest handoff keys", secret, old...)
	if err != nil {
		return nil, err
	}
	answers, err := secretbox.New("guest answers", secret, old...)
	if err != nil {
		return nil, err
	}
	return &Keys{store: store, box: box, answers: answers, issuer: issuer, signers: map[string]signer{}}, nil
}

// sign returns a token. The caller has chosen the key in a transaction.
func (k *Keys) sign(key Key, c handoff.Claims) (token string, err error) {
	s, err := k.signer(key)
	if err != nil {
		return "", err
	}
	if token, err = s.sign(c); err != nil {
		return "", errcode.Wrap(errcode.Internal, "sign a handoff", err)
	}
	return token, nil
}

// signer returns the decrypted key. A key never changes, so it is cached for good.
func (k *Keys) signer(key Key) (signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.signers[key.ID]; s != nil {
		return s, nil
	}
	secret, err := k.decrypt(key)
	if err != nil {
		return nil, err
	}
	s, err := newSigner(key, secret, k.issuer)
	if err != nil {
		return nil, errcode.Wrap(errcode.Internal, "use a key of handoffs", err)
	}
	k.signers[key.ID] = s
	return s, nil
}

// decrypt returns errKeySecret if another secret encrypted the key.
func (k *Keys) decrypt(key Key) ([]byte, error) {
	secret, ok := k.box.Open(key.Secret, sealedFor(key.ID, key.Tenant))
	if !ok {
		return nil, errKeySecret
	}
	return secret, nil
}

// verify checks neither times nor the key's state, which the database checks.
func (k *Keys) verify(ctx context.Context, token string) (c handoff.Claims, id string, err error) {
	id, ok := handoff.KeyID(token)
	if !ok {
		return c, "", ErrToken
	}
	k.mu.Lock()
	s := k.signers[id]
	k.mu.Unlock()
	if s == nil {
		key, err := k.store.HandoffKey(ctx, id)
		switch {
		case errors.Is(err, ErrNoSuchKey) || err == nil && key.State == KeyRetired:
			return c, "", ErrToken
		case err != nil:
			return c, "", err
		}
		if s, err = k.signer(key); err != nil {
			return c, "", err
		}
	}
	c, err = s.verify(token)
	if !errors.Is(err, handoff.ErrNotYetValid) {
		return c, "", ErrToken
	}
	return c, id, nil
}

// newKey generates a key without storing it. IDs begin with the date. tenant is "" for HMAC.
func (k *Keys) newKey(now time.Time, tenant string) Key {
	text := make([]byte, 40)
	_, _ = rand.Read(text) // never fails
	random := 6
	if tenant != "" { // many tenants may get keys on the same day
		random = 13
	}
	id := now.UTC().Format("20060102") + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(text[32:])[:random])
	key := Key{ID: id, Tenant: tenant, State: KeyVerifyOnly, Secret: k.box.Seal(text[:32], sealedFor(id, tenant))}
	key.NotBefore = now.Truncate(key.precision())
	return key
}

// List returns the HMAC keys, by time added.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	return k.store.HandoffKeys(ctx, "")
}

// Export returns the unretired HMAC keys with their secrets, for sites that verify tokens offline.
func (k *Keys) Export(ctx context.Context) ([]handoff.Key, error) {
	all, err := k.store.HandoffKeys(ctx, "")
	if err != nil {
		return nil, err
	}
	var keys []handoff.Key
	for _, key := range all {
		if key.State == KeyRetired {
			continue
		}
		secret, err := k.decrypt(key)
		if err != nil {
			return nil, err
		}
		// NotAfter is omitted, because it is not final: a key may become active at any time.
		keys = append(keys, handoff.Key{ID: key.ID, Secret: secret, State: handoff.VerifyOnly, NotBefore: key.NotBefore})
	}
	return keys, nil
}

// Add starts a rotation with a key that verifies but does not sign yet.
func (k *Keys) Add(ctx context.Context) (Key, error) { return k.change(ctx, keyAdd, "") }

// Activate makes a key sign; the previous key only verifies from now on.
func (k *Keys) Activate(ctx context.Context, id string) (Key, error) {
	return k.change(ctx, keyActivate, id)
}

// Rotate adds a key that signs at once, before offline verifiers know it.
func (k *Keys) Rotate(ctx context.Context) (Key, error) {
	return k.change(ctx, keyRotate, "")
}

// Retire retires a key without valid tokens.
func (k *Keys) Retire(ctx context.Context, id string) (Key, error) {
	return k.change(ctx, keyRetire, id)
}

// Revoke retires a key at once and voids its tokens. If the key was active, a new key replaces it.
func (k *Keys) Revoke(ctx context.Context, id string) (Key, error) {
	return k.change(ctx, keyRevoke, id)
}

// RevokeAll voids all tokens, including Ed25519, and returns the new active HMAC key.
func (k *Keys) RevokeAll(ctx context.Context) (Key, error) {
	return k.change(ctx, keyRevokeAll, "")
}

// change applies a change to the database's keys.
func (k *Keys) change(ctx context.Context, do keyChange, id string) (Key, error) {
	r, err := k.store.ChangeHandoffKeys(ctx, ChangeKeys{do: do, key: id, keys: k})
	return r.Key, err
}

// Settle makes a new database's first key. After a database restore, consumed handoffs may be open again, so Settle
// voids all tokens by replacing all keys and returns true. w is nil if the database itself detects restores.
func (k *Keys) Settle(ctx context.Context, w *Witness) (restored bool, err error) {
	r, err := k.store.ChangeHandoffKeys(ctx, ChangeKeys{do: keySettle, keys: k, witness: w})
	return r.Restored, err
}
