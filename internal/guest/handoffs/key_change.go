package handoffs

import (
	"slices"
	"time"
)

// ChangeKeys is a request to change the keys of handoffs. Keys makes it.
type ChangeKeys struct {
	do      keyChange
	key     string   // its ID, where a change is about one
	tenant  string   // where a change is about the keys of one
	keys    *Keys    // makes new keys
	witness *Witness // for keySettle
}

// keyChange is a change of keys; see the methods of Keys.
type keyChange int

const (
	keyAdd keyChange = iota
	keyActivate
	keyRotate
	keyRetire
	keyRevoke
	keyRevokeAll
	keySettle

	// Of the Ed25519 keys of a tenant.
	keyCreateOfTenant
	keyRotateOfTenant
	keyRevokeOfTenant
)

// Witness is what a server knows outside of its SQLite file about the last use of the
// file.
type Witness struct {
	Last string // incarnation that the last server gave the file; "": not known
	Next string // incarnation to give it now
}

// Epoch says of which incarnation of the database the keys are.
type Epoch struct {
	Number      int64  // grows when the keys are replaced because the database was restored
	Incarnation string // of the keys

	// Current is the incarnation of the database. It changes when the database is restored.
	// "": the database does not know (SQLite).
	Current string
}

// KeyRing is what a store reads to change keys.
type KeyRing struct {
	Now   time.Time // of the database, to the microsecond
	All   []Key     // those of ChangeKeys.Scope, as Store.HandoffKeys returns them
	Epoch Epoch

	// HasTokens reports whether the key ChangeKeys.TokensOf has signed a handoff that
	// expires after ChangeKeys.TokensAfter.
	HasTokens bool
}

// ChangedKeys has the keys that a change stores, and its result.
type ChangedKeys struct {
	Key      Key  // the key that was added, changed, or takes the place of others
	Restored bool // the keys were replaced because the database was restored

	Put   []Key  // keys to add or to replace, in this order: no two are active at any time
	Epoch *Epoch // if set, its Number and Incarnation are replaced
}

// Scope says which keys the change reads: every key, or those with the tenant of a key, or of a tenant ("": the HMAC keys).
func (c *ChangeKeys) Scope() (every bool, key, tenant string) {
	switch c.do {
	case keyRevokeAll, keySettle:
		return true, "", ""
	case keyRevokeOfTenant:
		return false, c.key, ""
	}
	return false, "", c.tenant
}

// TokensOf returns the ID of the key whose tokens matter to the change, or "".
func (c *ChangeKeys) TokensOf() string {
	if c.do == keyRetire {
		return c.key
	}
	return ""
}

// TokensAfter returns the time from which an expired token is refused everywhere.
func (c *ChangeKeys) TokensAfter(now time.Time) time.Time { return now.Add(-verifierSkew) }

// Decide decides about a change.
func (c *ChangeKeys) Decide(r KeyRing) (ChangedKeys, error) {
	d := &keyDecision{KeyRing: r, keys: c.keys}
	err := d.decide(c)
	return d.ChangedKeys, err
}

// keyDecision is a decision in progress.
type keyDecision struct {
	KeyRing
	keys *Keys
	ChangedKeys
}

func (d *keyDecision) decide(c *ChangeKeys) error {
	switch c.do {
	case keyCreateOfTenant:
		d.createPair(c.tenant)
		return nil
	case keyRotateOfTenant:
		return d.rotatePair(c.tenant)
	case keyAdd:
		d.Key = d.keys.newKey(d.Now, "")
		d.put(d.Key)
		return nil
	case keyRotate:
		d.activate(d.keys.newKey(d.Now, ""))
		return nil
	case keyRevokeAll:
		d.replaceAll()
		return nil
	case keySettle:
		d.settle(c.witness)
		return nil
	}
	i := slices.IndexFunc(d.All, func(k Key) bool { return k.ID == c.key })
	if i < 0 || (d.All[i].Tenant != "") != (c.do == keyRevokeOfTenant) {
		return ErrNoSuchKey
	}
	key := d.All[i]
	switch {
	case key.State == KeyRetired:
		return ErrKeyRetired
	case c.do == keyRevokeOfTenant:
		d.revokeOfPair(key)
	case c.do == keyActivate:
		d.activate(key)
	case c.do == keyRevoke:
		d.revoke(key)
	case key.State == KeyActive:
		return ErrKeyActive
	case d.HasTokens:
		return ErrKeyHasTokens
	default:
		d.Key = d.retire(key)
	}
	return nil
}

// settle is Keys.Settle.
func (d *keyDecision) settle(w *Witness) {
	e := d.KeyRing.Epoch
	current, next := e.Current, e.Current
	switch {
	case w != nil:
		current, next = w.Last, w.Next
	case e.Current == "":
		current, next = e.Incarnation, e.Incarnation
	}
	isActive := func(key Key) bool { return key.State == KeyActive && key.Tenant == "" }
	switch {
	case len(d.All) > 0 && e.Incarnation != current:
		d.Restored = true
		e.Number++
		d.replaceAll()
	case !slices.ContainsFunc(d.All, isActive):
		d.activate(d.keys.newKey(d.Now, ""))
	case e.Incarnation == next:
		return
	}
	e.Incarnation = next
	d.ChangedKeys.Epoch = &e
}

// revoke retires a key, and replaces it by a new one if it is active.
func (d *keyDecision) revoke(key Key) {
	retired := d.retire(key)
	if key.State == KeyActive {
		d.All = nil // no other key is active
		d.activate(d.keys.newKey(d.Now, ""))
	}
	d.Key = retired
}

// replaceAll retires all keys, and makes a new HMAC key sign. A tenant gets new Ed25519 keys when the next token is signed.
func (d *keyDecision) replaceAll() {
	for _, key := range d.All {
		if key.State != KeyRetired {
			d.retire(key)
		}
	}
	d.All = nil
	d.activate(d.keys.newKey(d.Now, ""))
}

// activate makes a key sign instead of the one that does.
func (d *keyDecision) activate(key Key) {
	for _, old := range d.All {
		if old.State == KeyActive && old.ID != key.ID && old.Tenant == key.Tenant {
			old.State, old.NotAfter = KeyVerifyOnly, d.Now
			d.put(old)
		}
	}
	key.State, key.NotAfter = KeyActive, time.Time{}
	d.Key = key
	d.put(key)
}

func (d *keyDecision) retire(key Key) Key {
	if key.State == KeyActive {
		key.NotAfter = d.Now
	}
	key.State, key.Retired, key.Secret = KeyRetired, d.Now, nil
	d.put(key)
	return key
}

func (d *keyDecision) put(key Key) { d.Put = append(d.Put, key) }
