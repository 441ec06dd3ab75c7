package buckets

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// keyOperations declares the access keys. Keys in the configuration are listed, and changed there.
func (s *Buckets) keyOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "keys", Doc: "List an account's access keys", Title: "Access keys", Empty: "There are no access keys.",
			Group: "Manage an account's access keys",
		}, on(s, s.listKeys)),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "keys/show", Doc: "Show an access key and its limits", Title: "Access key"}, on(s, s.showKey)),
		operate.NewChange(operate.About{
			Path: "keys/create", Doc: "Create an access key and print it with its secret", Title: "Create access key", Button: "Create access key",
			OwnForm: true, Done: "Access key created",
			Text: "Without limits the key may do everything in all the account's buckets.",
			More: "Without limits the key may do everything in all the account's buckets. The right write includes overwriting, and\n" +
				"manage creates and deletes buckets and changes their settings. A key limited to an object prefix can list\n" +
				"only below that prefix.",
			Example: "main --name backup --bucket backups --right read --right write --right list\nmain --bucket logs-* --right write --network 10.0.0.0/8 --expires-in 30d",
		}, on(s, s.addKey)),
		operate.NewChange(operate.About{
			Path: "keys/limit", Doc: "Change an access key's limits", Title: "Change limits", Button: "Change limits", Stays: true,
			Text:    "Omitted limits stay; none removes a limit.",
			More:    "Omitted limits stay; none removes a limit. Every process applies the change within a second.",
			Example: "HFABCDEFGHIJKLMNOPQR --right read --right list\nHFABCDEFGHIJKLMNOPQR --bucket none --expires-in 24h",
		}, on(s, s.limitKey)),
		operate.NewChange(operate.About{
			Path: "keys/revoke", Doc: "Revoke an access key", Danger: true, Ask: "Clients with this key are refused at once. This cannot be undone.",
		}, on(s, s.revokeKey)),
	}
}

// showKeyInput names a key and its account, because the console's link to a key contains both.
type showKeyInput struct {
	accountInput
	keyInput
}

// accountKey is a key with its account.
type accountKey struct {
	Account string `json:"account" title:"Account" subject:"account" example:"main"`
	keyDetail
}

// showKey returns buckets.ErrNoKey for another account's key.
func (s *Buckets) showKey(ctx context.Context, in showKeyInput) (k accountKey, err error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return k, err
	}
	for _, c := range s.cfg.ConfiguredKeys() {
		if c.ID == in.Key && c.Account == a.Name {
			return accountKey{a.Name, keyDetail{AccessKey: c.ID, State: keyConfigured}}, nil
		}
	}
	key, err := s.opened.Key(ctx, in.Key)
	if err == nil && key.Account != a.ID {
		err = buckets.ErrNoKey
	}
	if err != nil {
		return k, about(in.Key, err)
	}
	return accountKey{a.Name, s.detail(&key)}, nil
}

// keysInput selects an account's keys. Only the command, which can read the secret, shows secrets.
type keysInput struct {
	accountInput
	operate.Page[string]
	Secrets bool `flag:"secrets" doc:"show the secret keys" local:""`
}

const (
	// States of an access key.
	keyActive     = "active"
	keyExpired    = "expired"
	keyRevoked    = "revoked"
	keyConfigured = "in the configuration"
)

// keyOutput is a row of the list. Only the command that creates a key shows its secret.
type keyOutput struct {
	AccessKey string    `json:"accessKey" title:"Access key" subject:"key" example:"HFABCDEFGHIJKLMNOPQR"`
	Name      string    `json:"name,omitempty" title:"Name" names:"key" example:"backup"`
	State     string    `json:"state" title:"State" enum:"active,expired,revoked,in the configuration"`
	Created   time.Time `json:"created,omitzero" title:"Created"`
	Expires   time.Time `json:"expires,omitzero" title:"Expires" zero:"never"`
	Revoked   time.Time `json:"revoked,omitzero"`
	Limits    string    `json:"-" title:"Limits" zero:"none"`
	Buckets   words     `json:"buckets,omitempty" doc:"names, or prefixes that end in *"`
	Prefix    string    `json:"prefix,omitempty" doc:"object name prefix"`
	Rights    words     `json:"rights,omitempty"`
	Networks  words     `json:"networks,omitempty"`
	Version2  bool      `json:"signatureV2,omitempty" doc:"signs links and forms with Signature Version 2 although it has limits"`
	SecretKey string    `json:"secretKey,omitempty" title:"Secret key" with:"secrets" local:""`
	Next      string    `json:"-" cursor:""`
}

// rank orders a page: configured keys, revoked keys, then the others.
func (k *keyOutput) rank() int {
	switch k.State {
	case keyConfigured:
		return 0
	case keyRevoked:
		return 1
	}
	return 2
}

// Offers no change for configured and revoked keys.
func (k keyOutput) Offers(string) bool { return isKeyOpen(k.State) }

// listed joins the limits into one column.
func (k keyDetail) listed() keyOutput {
	o := keyOutput{
		AccessKey: k.AccessKey, Name: k.Name, State: k.State, Created: k.Created, Expires: k.Expires, Revoked: k.Revoked,
		Buckets: k.Buckets, Prefix: k.Prefix, Rights: k.Rights, Networks: k.Networks, Version2: k.Version2,
	}
	var limits []string
	for _, l := range []struct{ of, limit string }{
		{"buckets", k.Buckets.String()}, {"objects", k.Prefix}, {"rights", k.Rights.String()}, {"networks", k.Networks.String()},
	} {
		if l.limit != "" {
			limits = append(limits, l.of+" "+l.limit)
		}
	}
	o.Limits = strings.Join(limits, "; ")
	return o
}

// keyDetail is a key without its secret. Missing limits mean that the key may do everything in its account.
type keyDetail struct {
	AccessKey string    `json:"accessKey" title:"Access key" subject:"key" example:"HFABCDEFGHIJKLMNOPQR"`
	Name      string    `json:"name,omitempty" title:"Name" names:"key" example:"backup"`
	State     string    `json:"state" title:"State" enum:"active,expired,revoked,in the configuration"`
	Created   time.Time `json:"created,omitzero" title:"Created"`
	Expires   time.Time `json:"expires,omitzero" title:"Expires" zero:"never"`
	Revoked   time.Time `json:"revoked,omitzero" title:"Revoked"`
	Buckets   words     `json:"buckets,omitempty" title:"Buckets" zero:"all" doc:"names, or prefixes that end in *"`
	Prefix    string    `json:"prefix,omitempty" title:"Objects" zero:"all" doc:"object name prefix"`
	Rights    words     `json:"rights,omitempty" title:"Rights" zero:"all"`
	Networks  words     `json:"networks,omitempty" title:"Networks" zero:"all"`
	Version2  bool      `json:"signatureV2,omitempty" title:"Signature Version 2" doc:"signs links and forms with Signature Version 2 although it has limits"`
}

// Offers no change for configured and revoked keys.
func (k keyDetail) Offers(string) bool { return isKeyOpen(k.State) }

// isKeyOpen reports whether a key can be changed: an expired key can get another expiry.
func isKeyOpen(state string) bool { return state == keyActive || state == keyExpired }

// Notice is for keys/limit, which returns the changed key.
func (k keyDetail) Notice() string { return "limits for access key " + k.AccessKey + " changed" }

// detail converts a stored key; its state depends on the service's clock.
func (s *Buckets) detail(k *buckets.Key) keyDetail {
	o := keyDetail{
		AccessKey: k.ID, Name: k.Name, State: keyActive, Created: k.Created.Time(), Revoked: service.TimeOf(k.Revoked), Expires: service.TimeOf(k.Expires),
		Buckets: k.Limits.Buckets, Prefix: k.Limits.Prefix,
		Version2: k.Limits.Version2,
		Rights:   wordsOf(k.Limits.Rights, func(r buckets.Right) string { return string(r) }),
		Networks: wordsOf(k.Limits.Networks, netip.Prefix.String),
	}
	switch {
	case k.Revoked != 0:
		o.State = keyRevoked
	case k.Expires != 0 && k.Expires <= s.opened.Now():
		o.State = keyExpired
	}
	return o
}

// listKeys returns pages ordered by ID. On each page, configured keys come first, then revoked keys.
func (s *Buckets) listKeys(ctx context.Context, in keysInput) (all []keyOutput, err error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	keys, err := s.opened.Keys(ctx, a.ID, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	for _, k := range s.cfg.ConfiguredKeys() {
		if k.Account == a.Name && k.ID > in.After {
			all = append(all, keyOutput{AccessKey: k.ID, State: keyConfigured, SecretKey: k.Secret})
		}
	}
	for _, k := range keys {
		o := s.detail(&k).listed()
		if in.Secrets {
			if o.SecretKey, err = s.keys.Secret(k); err != nil {
				return nil, err
			}
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b keyOutput) int { return cmp.Compare(a.AccessKey, b.AccessKey) })
	all = all[:min(len(all), in.Limit)]
	// The rows are sorted once more below, so each carries the page's greatest ID as its position.
	for i := range all {
		all[i].Next = all[len(all)-1].AccessKey
		if !in.Secrets {
			all[i].SecretKey = ""
		}
	}
	slices.SortFunc(all, func(a, b keyOutput) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), a.Created.Compare(b.Created), cmp.Compare(a.AccessKey, b.AccessKey))
	})
	return all, nil
}

// addKeyInput names the account and the new key's limits.
type addKeyInput struct {
	accountInput
	termsInput
}

// addKey needs the saved key secret, which encrypts the new secret.
func (s *Buckets) addKey(ctx context.Context, in addKeyInput) (madeKey, error) {
	if err := s.needKeySecret(); err != nil {
		return madeKey{}, err
	}
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return madeKey{}, err
	}
	terms, err := in.apply(buckets.KeyTerms{}, s.opened.Now())
	if err != nil {
		return madeKey{}, err
	}
	var key newKey
	key.id, key.secret, err = s.keys.Create(ctx, a.ID, terms)
	made := s.made(a.Name, key)
	made.terms = terms
	return made, err
}

// keyInput names a key by its ID, which is unique in the server.
type keyInput struct {
	Key string `subject:"key" doc:"access key ID"`
}

// keyChange is the revoked key.
type keyChange struct {
	AccessKey string `json:"accessKey" subject:"key" example:"HFABCDEFGHIJKLMNOPQR"`
}

func (c keyChange) Notice() string { return "access key " + c.AccessKey + " is revoked" }

// revokeKey cannot be undone; a revoked key stays listed.
func (s *Buckets) revokeKey(ctx context.Context, in keyInput) (keyChange, error) {
	return keyChange{in.Key}, about(in.Key, s.keys.Revoke(ctx, in.Key))
}
