package handoffs

import (
	"context"
	"slices"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/errcode"
)

// Algorithm signs a tenant's tokens.
type Algorithm string

// Token algorithms.
const (
	HMAC    Algorithm = "hmac"    // shared by all tenants
	Ed25519 Algorithm = "ed25519" // the tenant's own, with a published public key
)

// Ed25519 key errors.
var (
	ErrNoTenantKeys = errcode.New(errcode.NotFound, "the tenant has no Ed25519 keys: create them with holdfast guest tenant-keys create")
	ErrNextKeyNew   = errcode.New(errcode.Conflict, "the next key was published less than 20 minutes ago, so sites may not know it: retry later, or revoke the active key")
)

const (
	// KeySetLife is how long caches may keep published keys.
	KeySetLife = 5 * time.Minute

	// published is how long a key is published before it signs: caches keep keys for KeySetLife, and a Verifier keeps
	// them for another 15 minutes.
	published = 20 * time.Minute
)

// signer signs and verifies with a key. verify accepts expired tokens, because the database checks times with its
// own clock.
type signer interface {
	sign(c handoff.Claims) (string, error)
	verify(token string) (handoff.Claims, error)
}

// newSigner returns the signer for a decrypted key.
func newSigner(key Key, secret []byte, issuer string) (signer, error) {
	if key.Tenant != "" {
		s, err := handoff.NewSigner(handoff.SignerOptions{ID: key.ID, Seed: secret, Issuer: issuer, Tenant: key.Tenant})
		return tenantSigner{s}, err
	}
	// The state does not matter here: the database checks it.
	r, err := handoff.NewRing([]handoff.Key{{ID: key.ID, Secret: secret, State: handoff.Active}})
	return sharedSigner{r}, err
}

// sharedSigner is an HMAC key.
type sharedSigner struct{ ring *handoff.Ring }

func (s sharedSigner) sign(c handoff.Claims) (token string, err error) {
	token, _, err = s.ring.Sign(c)
	return token, err
}

func (s sharedSigner) verify(token string) (c handoff.Claims, err error) {
	c, _, err = s.ring.Verify(token, time.Time{})
	return c, err
}

// tenantSigner is an Ed25519 key.
type tenantSigner struct{ *handoff.Signer }

func (s tenantSigner) sign(c handoff.Claims) (string, error) { return s.Sign(c) }

func (s tenantSigner) verify(token string) (handoff.Claims, error) {
	return s.Verify(token, time.Time{})
}

// sealedFor binds an encrypted secret to its key, so that rows cannot be swapped.
func sealedFor(id, tenant string) string {
	if tenant == "" {
		return id
	}
	return tenant + "/" + id
}

// precision returns the precision of times in the key's tokens: JWTs have whole seconds.
func (k *Key) precision() time.Duration {
	if k.Tenant != "" {
		return time.Second
	}
	return time.Millisecond
}

// IsNext reports whether an Ed25519 key will sign after the next rotation.
func (k *Key) IsNext() bool { return k.State == KeyVerifyOnly && k.NotAfter.IsZero() }

// isOver reports whether all tokens of a replaced key are expired for every verifier.
func (k *Key) isOver(now time.Time) bool {
	return k.State == KeyVerifyOnly && !k.NotAfter.IsZero() && now.After(k.NotAfter.Add(handoff.MaxLife+verifierSkew))
}

// ListOfTenants lists Ed25519 keys. See Store.TenantKeys.
func (k *Keys) ListOfTenants(ctx context.Context, after Key, limit int) ([]Key, error) {
	return k.store.TenantKeys(ctx, after, limit)
}

// CreateOfTenant creates a tenant's first Ed25519 keys, one active and one next, and returns the active key.
func (k *Keys) CreateOfTenant(ctx context.Context, tenant string) (Key, error) {
	r, err := k.store.ChangeHandoffKeys(ctx, ChangeKeys{do: keyCreateOfTenant, tenant: tenant, keys: k})
	return r.Key, err
}

// RotateOfTenant activates the next key, which sites already know, and adds another next key.
func (k *Keys) RotateOfTenant(ctx context.Context, tenant string) (Key, error) {
	r, err := k.store.ChangeHandoffKeys(ctx, ChangeKeys{do: keyRotateOfTenant, tenant: tenant, keys: k})
	return r.Key, err
}

// RevokeOfTenant unpublishes an Ed25519 key and voids its tokens at once. If the key was active, the next key
// replaces it.
func (k *Keys) RevokeOfTenant(ctx context.Context, id string) (Key, error) {
	return k.change(ctx, keyRevokeOfTenant, id)
}

// Published returns a tenant's JWK Set: keys whose tokens may be valid, and the next key.
func (k *Keys) Published(ctx context.Context, tenant string, now time.Time) (set []byte, empty bool, err error) {
	all, err := k.store.HandoffKeys(ctx, tenant)
	if err != nil {
		return nil, false, err
	}
	var signers []*handoff.Signer
	for _, key := range all {
		if key.State == KeyRetired || key.Tenant == "" || key.isOver(now) {
			continue
		}
		s, err := k.signer(key)
		if err != nil {
			return nil, false, err
		}
		if of, ok := s.(tenantSigner); ok {
			signers = append(signers, of.Signer)
		}
	}
	set, err = handoff.FormatKeySet(signers)
	return set, len(signers) == 0, err
}

// createPair creates a tenant's keys unless an active key exists.
func (d *keyDecision) createPair(tenant string) {
	if i := slices.IndexFunc(d.All, func(k Key) bool { return k.State == KeyActive }); i >= 0 {
		d.Key = d.All[i]
		return
	}
	d.activateNext(tenant)
}

// rotatePair activates the next key, if it was published long enough.
func (d *keyDecision) rotatePair(tenant string) error {
	active := false
	for _, key := range d.All {
		active = active || key.State == KeyActive
		if key.IsNext() && d.Now.Before(key.NotBefore.Add(published)) {
			return ErrNextKeyNew
		}
	}
	if !active {
		return ErrNoTenantKeys
	}
	for _, key := range d.All {
		if key.isOver(d.Now) {
			d.retire(key)
		}
	}
	d.activateNext(tenant)
	return nil
}

// activateNext activates the next key, or a new key, and adds another next key.
func (d *keyDecision) activateNext(tenant string) {
	next := d.keys.newKey(d.Now, tenant)
	if i := slices.IndexFunc(d.All, func(k Key) bool { return k.IsNext() }); i >= 0 {
		next = d.All[i]
	}
	d.activate(next)
	d.put(d.keys.newKey(d.Now, tenant))
}

// revokeOfPair retires an Ed25519 key and fills its place.
func (d *keyDecision) revokeOfPair(key Key) {
	wasActive, wasNext := key.State == KeyActive, key.IsNext()
	retired := d.retire(key)
	d.All = slices.DeleteFunc(slices.Clone(d.All), func(k Key) bool { return k.ID == key.ID })
	switch {
	case wasActive:
		d.activateNext(key.Tenant)
	case wasNext:
		d.put(d.keys.newKey(d.Now, key.Tenant))
	}
	d.Key = retired
}
