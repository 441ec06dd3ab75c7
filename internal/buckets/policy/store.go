package policy

import (
	"context"
	"errors"
	"strconv"

	"holdfast/internal/buckets"
)

// Accounts looks up the accounts that a policy names.
type Accounts interface {
	// Account returns buckets.ErrNoAccount for an unknown name.
	Account(ctx context.Context, name string) (buckets.Account, error)
	// AccountByID returns buckets.ErrNoAccount for an unknown ID.
	AccountByID(ctx context.Context, id buckets.AccountID) (buckets.Account, error)
}

// New parses a new policy for an owner's bucket and resolves its accounts. It returns *Error for an invalid policy.
func New(ctx context.Context, accounts Accounts, owner buckets.AccountID, bucket string, document []byte) (*Policy, buckets.Policy, error) {
	stored := buckets.Policy{Document: string(document)}
	p, err := Parse(document, bucket)
	if err != nil {
		return nil, stored, err
	}
	for i := range p.statements {
		for _, name := range p.statements[i].accounts {
			if _, ok := stored.Accounts[name]; ok {
				continue
			}
			id, err := findAccount(ctx, accounts, name)
			if err != nil {
				return nil, stored, err
			}
			if stored.Accounts == nil {
				stored.Accounts = map[string]buckets.AccountID{}
			}
			stored.Accounts[name] = id
		}
	}
	p.resolve(stored.Accounts)
	stored.Shared, stored.Public = p.allowsOthers(owner), p.IsPublic()
	return p, stored, nil
}

// findAccount resolves a principal. It returns *Error if there is no such account, because a later account with the
// name must not gain access.
func findAccount(ctx context.Context, accounts Accounts, name string) (id buckets.AccountID, err error) {
	var a buckets.Account
	if uuid, invalid := buckets.ParseUUID(name); invalid == nil {
		a, err = accounts.AccountByID(ctx, buckets.AccountID(uuid))
	} else if buckets.CheckAccountName(name) == nil {
		a, err = accounts.Account(ctx, name)
	} else {
		err = buckets.ErrNoAccount
	}
	if errors.Is(err, buckets.ErrNoAccount) {
		return "", &Error{"the principal " + strconv.Quote(name) + " is not an account"}
	}
	return a.ID, err
}

// Load parses a stored policy. A policy that this release cannot parse denies everything.
func Load(stored buckets.Policy, bucket string) *Policy {
	p, err := Parse([]byte(stored.Document), bucket)
	if err != nil {
		everything := map[Action]bool{}
		for a := range known {
			everything[a] = true
		}
		return &Policy{bucket: bucket, statements: []statement{{everybody: true, actions: everything, notThese: true}}}
	}
	p.resolve(stored.Accounts)
	return p
}

// resolve sets the account IDs. Names without an ID match nobody.
func (p *Policy) resolve(ids map[string]buckets.AccountID) {
	for i := range p.statements {
		s := &p.statements[i]
		for _, name := range s.accounts {
			if id := ids[name]; id != "" {
				s.ids = append(s.ids, id)
			}
		}
	}
}
