package buckets

import (
	"context"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// allAccounts limits the accounts read per page, because accounts without buckets add no rows.
const allAccounts = 100

// showBuckets lists the buckets of all accounts. A cursor is ACCOUNT/BUCKET.
func (s *Buckets) showBuckets(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	t := &service.Table{
		Columns: []service.Column{
			{Title: "Bucket"}, {Title: "Account"}, {Title: "Objects", Number: true}, {Title: "Size", Number: true}, {Title: "Access"}, {Title: "Created"}, {Title: "Settings"},
		},
		Empty:  "There are no buckets. Create one below.",
		Search: []service.Field{{Name: "account", Label: "Account", Kind: "account"}, {Name: "prefix", Label: "Name prefix"}},
	}
	view := &service.View{Blocks: []service.Block{t, &service.Form{
		Title: "Create bucket", Action: "create", Submit: "Create bucket",
		Text:   "3 to 63 lower-case letters, digits, hyphens and dots.",
		Fields: []service.Field{{Name: "account", Label: "Account", Kind: "account", Value: r.Value("account")}, {Name: "bucket", Label: "Bucket"}},
	}}}
	account, bucket, _ := strings.Cut(r.Value("after"), "/")
	if only := r.Value("account"); only != "" {
		a, err := s.account(ctx, only)
		if err != nil {
			return nil, err
		}
		view.Title, view.Parents = "Buckets in account "+a.Name, above(a, "", "")[:2]
		_, err = s.addBuckets(ctx, t, a, buckets.BucketQuery{Prefix: r.Value("prefix"), After: bucket, Limit: consoleRows})
		return view, err
	}
	accounts, err := s.accountsFrom(ctx, account)
	if err != nil {
		return nil, err
	}
	for i, a := range accounts {
		q := buckets.BucketQuery{Prefix: r.Value("prefix"), Limit: consoleRows - len(t.Rows)}
		if a.Name == account {
			q.After = bucket
		}
		more, err := s.addBuckets(ctx, t, a, q)
		if err != nil {
			return nil, err
		}
		if more || len(t.Rows) == consoleRows {
			break
		}
		if i == allAccounts-1 {
			t.Next = a.Name + "/~" // sorts after all bucket names
		}
	}
	return view, nil
}

// accountsFrom returns the account name itself, if it still exists, and the accounts after it.
func (s *Buckets) accountsFrom(ctx context.Context, name string) (all []buckets.Account, err error) {
	if name != "" {
		if a, err := s.opened.Account(ctx, name); err == nil {
			all = append(all, a)
		}
	}
	more, err := s.opened.ListAccounts(ctx, name, allAccounts-len(all))
	return append(all, more...), err
}

// addBuckets appends an account's buckets to t, and sets the next page's position. more says that the account has
// further buckets.
func (s *Buckets) addBuckets(ctx context.Context, t *service.Table, a buckets.Account, q buckets.BucketQuery) (more bool, err error) {
	page, more, err := s.opened.Buckets(ctx, a.ID, q)
	if err != nil || len(page) == 0 {
		return more, err
	}
	used, err := s.usageOfBuckets(ctx, a.ID, page)
	for i, u := range used {
		b := &page[i]
		t.Rows = append(t.Rows, []service.Cell{
			{Icon: "bucket", Text: b.Name, To: service.PageLink("objects", "account", a.Name, "bucket", b.Name)},
			{Text: a.Name, To: service.PageLink("accounts/show", "account", a.Name)},
			usageCell(u.Usage.Objects, u.Quota.Objects, decimal), usageCell(u.Usage.Bytes, u.Quota.Bytes, service.FormatBytes),
			service.TextCell(accessOf(b)), momentCell(b.Created),
			{Text: "Settings", To: service.PageLink("buckets/show", "account", a.Name, "bucket", b.Name)},
		})
	}
	if more || len(t.Rows) == consoleRows {
		t.Next = a.Name + "/" + page[len(page)-1].Name
	}
	return more, err
}
