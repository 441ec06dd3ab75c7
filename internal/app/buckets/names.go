package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
)

// nameCache finds account and bucket names by ID, and reads each account's buckets only once.
type nameCache struct {
	service  *buckets.Service
	accounts map[buckets.AccountID]*accountNames
}

// accountNames are an account's name and its buckets' names. For a deleted account, the name is its ID.
type accountNames struct {
	name    string
	buckets map[buckets.BucketID]string
}

// find returns the names of an account and a bucket, or the ID of a deleted one.
func (n *nameCache) find(ctx context.Context, id buckets.AccountID, bucket buckets.BucketID) (account, of string, err error) {
	if id == "" {
		return "", "", nil
	}
	a := n.accounts[id]
	if a == nil {
		if a, err = n.read(ctx, id); err != nil {
			return "", "", err
		}
		n.accounts[id] = a
	}
	return a.name, cmp.Or(a.buckets[bucket], string(bucket)), nil
}

// read reads all the account's buckets, because a report usually names many.
func (n *nameCache) read(ctx context.Context, id buckets.AccountID) (*accountNames, error) {
	a := &accountNames{name: string(id), buckets: map[buckets.BucketID]string{}}
	account, err := n.service.AccountByID(ctx, id)
	switch {
	case errors.Is(err, buckets.ErrNoAccount):
		return a, nil
	case err != nil:
		return nil, err
	}
	a.name = account.Name
	for q := (buckets.BucketQuery{Limit: buckets.MaxPage}); ; {
		page, more, err := n.service.Buckets(ctx, id, q)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			a.buckets[b.ID] = b.Name
			q.After = b.Name
		}
		if !more {
			return a, nil
		}
	}
}

// subject names a finding's object, part or bucket, or its path if no row names it.
func (n *nameCache) subject(ctx context.Context, f *maintenance.Finding) (string, error) {
	account, bucket, err := n.find(ctx, f.Account, f.Bucket)
	switch {
	case err != nil:
		return "", err
	case f.Upload != "":
		return fmt.Sprintf("%s/%s/%s (part %d of upload %s, body %s)", account, bucket, printable(f.Object), f.Part, f.Upload, f.Body), nil
	case f.Object != "":
		return fmt.Sprintf("%s/%s/%s (body %s)", account, bucket, printable(f.Object), f.Body), nil
	case account != "" && bucket != "":
		return account + "/" + bucket, nil
	}
	return cmp.Or(f.Path, account), nil
}

// printable quotes a name that contains unprintable characters or quotes.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
