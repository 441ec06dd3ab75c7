package tokenserver

import (
	"context"
	"slices"

	"holdfast/internal/db/rows"
	"holdfast/internal/tokenserver"
)

// Owners returns the storage users in the accounts tables, named as in Spanner: by account and keys.
func Owners(db rows.Database) rows.Owners { return owners{db} }

// owners reads the names of storage users from a database with accounts. It implements rows.Owners.
type owners struct{ db rows.Database }

// The same table with two different keys.
var (
	usersByNumber = &rows.Table{Name: "users", Key: 1, Columns: rows.Columns(
		`uid integer, email text, client_state text, keys_changed_at integer, replaced_at integer`)}
	usersByEmail = &rows.Table{Name: "users", Key: 1, Columns: rows.Columns(
		`email text, uid integer, client_state text, keys_changed_at integer, replaced_at integer`)}
)

// storageUser is a row of the table users. replaced rows are never current.
type storageUser struct {
	uid      int64
	email    string
	keys     string // fxa_kid
	replaced bool
}

// storageUserOf converts a row. rest begins with client_state, keys_changed_at and replaced_at, which both tables end
// with.
func storageUserOf(uid, email any, rest rows.Row) storageUser {
	changed, _ := rest[1].(int64)
	u := tokenserver.User{ClientState: rest[0].(string), KeysChangedAt: tokenserver.At(changed)}
	return storageUser{uid: uid.(int64), email: email.(string), keys: u.KeyID().String(), replaced: rest[2] != nil}
}

// After returns the n users after a number, by number. See rows.Owners.
func (o owners) After(ctx context.Context, number int64, n int) (all []rows.Owner, err error) {
	err = o.db.View(ctx, func(v rows.View) error {
		span := rows.Span{After: rows.Row{number}}
		var err error
		if span.Until, err = v.NthOwner(usersByNumber, 1, span.After, n-1); err != nil {
			return err
		}
		var users []storageUser
		if err := v.Each(usersByNumber, 1, span, func(p rows.Packed) error {
			r := p.Row()
			users = append(users, storageUserOf(r[0], r[1], r[2:]))
			return nil
		}); err != nil {
			return err
		}
		all, err = currentOwners(v, users)
		return err
	})
	return all, err
}

// Find returns the users with these numbers, in any order; unknown numbers are omitted.
func (o owners) Find(ctx context.Context, numbers []int64) (all []rows.Owner, err error) {
	keys := make([]rows.Row, len(numbers))
	for i, n := range numbers {
		keys[i] = rows.Row{n}
	}
	err = o.db.View(ctx, func(v rows.View) error {
		all = nil
		// Each query names at most 500 keys, because engines limit a statement's parameters.
		for some := range slices.Chunk(keys, 500) {
			var users []storageUser
			if err := v.Find(usersByNumber, some, func(p rows.Packed) error {
				r := p.Row()
				users = append(users, storageUserOf(r[0], r[1], r[2:]))
				return nil
			}); err != nil {
				return err
			}
			owners, err := currentOwners(v, users)
			if err != nil {
				return err
			}
			all = append(all, owners...)
		}
		return nil
	})
	return all, err
}

// currentOwners returns the users as owners. If an account's users share keys, e.g. after a node change, the newest
// user that is not replaced is current.
func currentOwners(v rows.View, users []storageUser) ([]rows.Owner, error) {
	type name struct{ email, keys string }
	var emails []rows.Row
	for _, u := range users {
		emails = append(emails, rows.Row{u.email})
	}
	slices.SortFunc(emails, rows.Row.Compare)
	emails = slices.CompactFunc(emails, func(a, b rows.Row) bool { return a.Compare(b) == 0 })
	current := map[name]storageUser{}
	if err := v.Find(usersByEmail, emails, func(p rows.Packed) error {
		r := p.Row()
		u := storageUserOf(r[1], r[0], r[2:])
		was, ok := current[name{u.email, u.keys}]
		if !ok || was.replaced && !u.replaced || was.replaced == u.replaced && u.uid > was.uid {
			current[name{u.email, u.keys}] = u
		}
		return nil
	}); err != nil {
		return nil, err
	}
	all := make([]rows.Owner, len(users))
	for i, u := range users {
		account := tokenserver.User{Email: u.email}
		all[i] = rows.Owner{Number: u.uid, Keys: [2]string{account.Account().FxAUID, u.keys}, Current: current[name{u.email, u.keys}].uid}
	}
	return all, nil
}
