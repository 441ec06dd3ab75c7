package handoffs

import (
	"slices"
	"time"
)

// ChangeKeys is a change of the key ring. Backends read Scope, call Decide, and write the result, all in a transaction.
type ChangeKeys struct {
	do      keyChange
	key     string // ID of the key to change; "" for a new key
	tenant  string
	keys    *Keys
	witness *Witness // for keySettle; may be nil
}

// keyChange is a kind of change.
type keyChange int

const (
	// The changes that operators and Settle make.
	keyAdd keyChange = iota
	keyActivate
	keyRotate
	keyRetire
	keyRevoke
	keyRevokeAll
	keySettle

	keyCreateOfTenant
	keyRotateOfTenant
	keyRevokeOfTenant
)

// Witness is kept outside the SQLite file, to detect that the file was replaced since its last use.
type Witness struct {
	Last string // incarnation set by the last server; "": unknown
	Next string // incarnation to set now
}

// Epoch links the keys to an incarnation of the database.
type Epoch struct {
	Number      int64  // counts database restores that replaced the keys
	Incarnation string // of the keys

	// Current is the database's incarnation, which a restore changes; "" for SQLite, which cannot detect restores.
	Current string
}

// KeyRing is read before a key change.
type KeyRing struct {
	Now   time.Time
	All   []Key // the keys in ChangeKeys.Scope, ordered as in Store.HandoffKeys
	Epoch Epoch

	// HasTokens reports whether ChangeKeys.TokensOf signed a handoff that expires after ChangeKeys.TokensAfter.
	HasTokens bool
}

// ChangedKeys is the result of a change, with the rows to write.
type ChangedKeys struct {
	Key      Key  // the key that the change was about
	Restored bool // all keys were replaced after a restore

	Put   []Key  // to insert or replace in this order, so that two keys are never active at once
	Epoch *Epoch // if set, replaces Number and Incarnation
}

// Scope returns the keys to read: every key, the keys that share a key's tenant, or a tenant's keys ("" for HMAC).
func (c *ChangeKeys) Scope() (every bool, key, tenant string) {
	switch c.do {
	case keyRevokeAll, keySettle:
		return true, "", ""
	case keyRevokeOfTenant:
		return false, c.key, ""
	}
	return false, "", c.tenant
}

// TokensOf returns the key about whose tokens Decide must know; "" for none.
func (c *ChangeKeys) TokensOf() string {
	if c.do == keyRetire {
		return c.key
	}
	return ""
}

// TokensAfter returns the time before which expired tokens are refused everywhere.
func (c *ChangeKeys) TokensAfter(now time.Time) time.Time { return now.Add(-verifierSkew) }

// Decide returns the rows to write, or a key error. It changes nothing itself.
func (c *ChangeKeys) Decide(r KeyRing) (ChangedKeys, error) {
	d := &keyDecision{KeyRing: r, keys: c.keys}
	err := d.decide(c)
	return d.ChangedKeys, err
}

// keyDecision computes a change.
type keyDecision struct {
	KeyRing
	keys *Keys
	ChangedKeys
}

// decide applies the change to the key ring that was read.
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

// settle makes a first key, or replaces all keys if the incarnation shows that the database was restored.
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

// revoke retires an HMAC key, and activates another if it was active.
func (d *keyDecision) revoke(key Key) {
	retired := d.retire(key)
	if key.State == KeyActive {
		d.All = nil // no other key is active
		d.activate(d.keys.newKey(d.Now, ""))
	}
	d.Key = retired
}

// replaceAll retires all keys and activates a new HMAC key. Tenants get new Ed25519 keys when they next sign.
func (d *keyDecision) replaceAll() {
	for _, key := range d.All {
		if key.State != KeyRetired {
			d.retire(key)
		}
	}
	d.All = nil
	d.activate(d.keys.newKey(d.Now, ""))
}

// activate makes a key sign, and the previous key of the same tenant verify only.
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

// retire erases the key's secret.
func (d *keyDecision) retire(key Key) Key {
	if key.State == KeyActive {
		key.NotAfter = d.Now
	}
	key.State, key.Retired, key.Secret = KeyRetired, d.Now, nil
	d.put(key)
	return key
}

// put adds a row to write.
func (d *keyDecision) put(key Key) { d.Put = append(d.Put, key) }
