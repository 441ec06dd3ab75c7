package buckets

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// finds are the hints on the page with the search results.
var finds = []service.Query{
	{What: "Bucket accounts by name", Example: "main"}, {What: "Buckets by name", Example: "photos"}, {What: "Objects as BUCKET/NAME", Example: "photos/2026/"},
}

// search finds accounts and buckets by name prefix, and objects after a slash.
func (s *Buckets) search(ctx context.Context, prefix string) (hits []service.Hit, err error) {
	if !utf8.ValidString(prefix) || strings.ContainsRune(prefix, 0) {
		return nil, nil
	}
	if bucket, object, ok := strings.Cut(prefix, "/"); ok {
		if bucket == "" {
			return nil, nil
		}
		return s.searchObjects(ctx, bucket, object)
	}
	accounts, err := s.accountsNamed(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for i := range accounts {
		hits = append(hits, service.Hit{Kind: "Account", Text: accounts[i].Name, To: service.PageLink("accounts/show", "account", accounts[i].Name)})
	}
	matches, err := s.opened.FindBuckets(ctx, prefix, service.MaxHits)
	if err != nil {
		return nil, err
	}
	for i := range matches {
		b := &matches[i]
		a, err := s.opened.AccountByID(ctx, b.Owner)
		if errors.Is(err, buckets.ErrNoAccount) {
			continue
		}
		if err != nil {
			return nil, err
		}
		hits = append(hits, service.Hit{Kind: "Bucket", Text: b.Name, To: service.PageLink("objects", "account", a.Name, "bucket", b.Name)})
	}
	return hits, nil
}

// accountsNamed returns the accounts whose name begins with prefix, an exact match first: the list begins after a name.
func (s *Buckets) accountsNamed(ctx context.Context, prefix string) (all []buckets.Account, err error) {
	exact, err := s.opened.Account(ctx, prefix)
	switch {
	case err == nil:
		all = append(all, exact)
	case !errors.Is(err, buckets.ErrNoAccount):
		return nil, err
	}
	after, err := s.opened.ListAccounts(ctx, prefix, service.MaxHits-len(all))
	for i := range after {
		if !strings.HasPrefix(after[i].Name, prefix) {
			break
		}
		all = append(all, after[i])
	}
	return all, err
}

// searchObjects looks into all buckets with just this name, because several accounts may have one.
func (s *Buckets) searchObjects(ctx context.Context, bucket, prefix string) (hits []service.Hit, err error) {
	matches, err := s.opened.FindBuckets(ctx, bucket, service.MaxHits) // begins with the buckets that have just this name
	if err != nil {
		return nil, err
	}
	for i := range matches {
		b := &matches[i]
		if b.Name != bucket {
			break
		}
		a, err := s.opened.AccountByID(ctx, b.Owner)
		if err != nil {
			return nil, err
		}
		page, err := s.opened.List(ctx, a.ID, b.ID, buckets.Query{Prefix: prefix, Limit: service.MaxHits})
		if err != nil {
			return nil, err
		}
		for j := range page.Entries {
			name := page.Entries[j].Name()
			hits = append(hits, service.Hit{Kind: "Object", Text: b.Name + "/" + name, To: service.PageLink("object", "account", a.Name, "bucket", b.Name, "object", name)})
		}
	}
	return hits, nil
}
