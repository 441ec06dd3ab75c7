package handoffs

import (
	"context"
	"slices"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/errcode"
)

// Algorithm is how the tokens of a tenant are signed.
type Algorithm string

// The values of Algorithm.
const (
	HMAC    Algorithm = "hmac"    // with a key that all tenants share
	Ed25519 Algorithm = "ed25519" // with a key of the tenant, whose public key is published
)

// Errors of Ed25519 keys.
var (
	ErrNoTenantKeys = errcode.New(errcode.NotFound, "the tenant has no Ed25519 keys: holdfast guest tenant-keys create makes them")
	ErrNextKeyNew   = errcode.New(errcode.Conflict, "the next key was published less than 20 minutes ago, so sites may not know it: retry later, or revoke the active key")
)

const (
	// KeySetLife is how long caches may keep published keys.
	KeySetLife = 5 * time.Minute

	// published is how long a key is published before it signs. A Verifier may keep keys for 15 minutes, after a cache has kept them
	// for KeySetLife.
	published = 20 * time.Minute
)

// signer signs and verifies with a key. At the time of verify every token is from the future: the database has the clock.
type signer interface {
	sign(c handoff.Claims) (string, error)
	verify(token string) (handoff.Claims, error)
}

// newSigner returns the signer of a key with its decrypted secret.
func newSigner(key Key, secret []byte, issuer string) (signer, error) {
	if key.Tenant != "" {
		s, err := handoff.NewSigner(handoff.SignerOptions{ID: key.ID, Seed: secret, Issuer: issuer, Tenant: key.Tenant})
		return tenantSigner{s}, err
	}
	// The state in the database is what counts.
	r, err := handoff.NewRing([]handoff.Key{{ID: key.ID, Secret: secret, State: handoff.Active}})
	return sharedSigner{r}, err
}

type sharedSigner struct{ ring *handoff.Ring }

func (s sharedSigner) sign(c handoff.Claims) (token string, err error) {
	token, _, err = s.ring.Sign(c)
	return token, err
}

func (s sharedSigner) verify(token string) (c handoff.Claims, err error) {
	c, _, err = s.ring.Verify(token, time.Time{})
	return c, err
}

type tenantSigner struct{ *handoff.Signer }

func (s tenantSigner) sign(c handoff.Claims) (string, error) { return s.Sign(c) }

func (s tenantSigner) verify(token string) (handoff.Claims, error) {
	return s.Verify(token, time.Time{})
}

// sealedFor binds the secret of a key to its ID and tenant.
func sealedFor(id, tenant string) string {
	if tenant == "" {
		return id
	}
	return tenant + "/" + id
}

// precision is the unit of the times in tokens of the key.
func (k *Key) precision() time.Duration {
	if k.Tenant != "" {
		return time.Second
	}
	return time.Millisecond
}

// IsNext reports whether an Ed25519 key is the one that signs after a rotation.
func (k *Key) IsNext() bool { return k.State == KeyVerifyOnly && k.NotAfter.IsZero() }

// isOver reports whether all tokens of a key that was replaced have expired everywhere.
func (k *Key) isOver(now time.Time) bool {
	return k.State == KeyVerifyOnly && !k.NotAfter.IsZero() && now.After(k.NotAfter.Add(handoff.MaxLife+verifierSkew))
}

// ListOfTenants returns the Ed25519 keys of all tenants, as Store.TenantKeys does.
func (k *Keys) ListOfTenants(ctx context.Context, after Key, limit int) ([]Key, error) {
	return k.store.TenantKeys(ctx, after, limit)
}

// CreateOfTenant makes the Ed25519 keys of a tenant that has none: one that signs, and the next one. It returns the active key.
func (k *Keys) CreateOfTenant(ctx context.Context, tenant string) (Key, error) {
	r, err := k.store.ChangeHandoffKeys(ctx, ChangeKeys{do: keyCreateOfTenant, tenant: tenant, keys: k})
	return r.Key, err
}

// RotateOfTenant lets the next key of a tenant sign, which sites know already, and makes another next one.
func (k *Keys) RotateOfTenant(ctx context.Context, tenant string) (Key, error) {
	r, err := k.store.ChangeHandoffKeys(ctx, ChangeKeys{do: keyRotateOfTenant, tenant: tenant, keys: k})
	return r.Key, err
}

// RevokeOfTenant retires an Ed25519 key at once: it is not published any more, and its tokens are void. The next key takes the place
// of the active one.
func (k *Keys) RevokeOfTenant(ctx context.Context, id string) (Key, error) {
	return k.change(ctx, keyRevokeOfTenant, id)
}

// Published returns the JWK Set of a tenant: the keys whose tokens may be valid, and the next one.
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

// createPair makes the keys of a tenant, unless it has them.
func (d *keyDecision) createPair(tenant string) {
	if i := slices.IndexFunc(d.All, func(k Key) bool { return k.State == KeyActive }); i >= 0 {
		d.Key = d.All[i]
		return
	}
	d.activateNext(tenant)
}

// rotatePair makes the next key sign.
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

// activateNext activates the next key of a tenant, or a new key, and adds another next key.
func (d *keyDecision) activateNext(tenant string) {
	next := d.keys.newKey(d.Now, tenant)
	if i := slices.IndexFunc(d.All, func(k Key) bool { return k.IsNext() }); i >= 0 {
		next = d.All[i]
	}
	d.activate(next)
	d.put(d.keys.newKey(d.Now, tenant))
}

// revokeOfPair retires a key of a tenant. The pair is complete afterwards.
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
