package buckets

import (
	"context"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// bucketOperations declares the buckets and their simple settings; lifecycle, policy and notifications are separate
// nouns.
func (s *Buckets) bucketOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "buckets", Doc: "List an account's buckets with their usage and quotas", Title: "Buckets", Empty: "There are no buckets.",
			Group: "Create, list, change and delete buckets", Opens: "objects",
		}, on(s, s.listBuckets)),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "buckets/show", Doc: "Show a bucket with its usage, quotas, access and CORS rules", Title: "Settings for bucket"}, on(s, s.showBucket)),
		operate.NewChange(operate.About{
			Path: "buckets/create", Doc: "Create a bucket", Title: "Create bucket", Button: "Create bucket", NewRow: true,
			Text: "3 to 63 lower-case letters, digits, hyphens and dots.",
		}, on(s, s.createBucket)),
		operate.NewChange(operate.About{
			Path: "buckets/set-access", Doc: "Set who may read a bucket's objects", Title: "Access", Button: "Set access", Stays: true,
			Text: "private: clients need an access key. public-read: everybody may list and read the objects.", Example: "main photos --access public-read",
		}, on(s, s.setAccess)),
		operate.NewChange(operate.About{
			Path: "buckets/set-versioning", Doc: "Turn versioning on or off for a bucket", Title: "Versioning", Button: "Set versioning", Stays: true,
			Text: "enabled: overwritten and deleted objects stay as noncurrent versions, which count towards the quota. " +
				"suspended: existing versions stay, and new objects replace the null version. Versioning cannot be turned off once enabled.",
			Example: "main photos --versioning enabled",
		}, on(s, s.setVersioning)),
		s.lockOperation(),
		s.acceptOperation(),
		operate.NewChange(operate.About{
			Path: "buckets/set-cors", Doc: "Set a bucket's CORS rule, for pages from other origins", Title: "CORS", Button: "Set CORS rule", Stays: true,
			Text:    "Replaces all CORS rules of the bucket. Separate list items by commas. Set origins to none to remove all rules.",
			Example: "main photos --origins https://app.example.org --methods GET,PUT --headers Content-Type\nmain photos --origins none",
		}, on(s, s.setCORS)),
		operate.NewChange(operate.About{
			Path: "buckets/delete", Doc: "Delete an empty bucket", Title: "Delete the bucket", Button: "Delete bucket", Danger: true, Retypes: true,
			Text: "The bucket must be empty. Its incomplete uploads are aborted. This cannot be undone.",
		}, on(s, s.deleteBucket)),
	}
}

// bucketsInput selects an account's buckets.
type bucketsInput struct {
	accountInput
	Prefix string `flag:"prefix" doc:"only buckets whose names start with this prefix"`
	operate.Page[string]
}

// bucketOutput is a bucket with its use and its quotas. Access is only the public-read setting; a policy may also make
// it public.
type bucketOutput struct {
	Bucket string `json:"bucket" title:"Bucket" subject:"bucket" cursor:"" example:"photos"`
	usageOutput
	Created time.Time `json:"created" title:"Created"`
	Access  string    `json:"access" title:"Access" enum:"private,public-read"`
}

// listBuckets orders by name, and reads a page's counters with one query.
func (s *Buckets) listBuckets(ctx context.Context, in bucketsInput) (all []bucketOutput, err error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	page, _, err := s.opened.Buckets(ctx, a.ID, buckets.BucketQuery{After: in.After, Prefix: in.Prefix, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	used, err := s.usageOfBuckets(ctx, a.ID, page)
	for i := range used {
		all = append(all, outputOfBucket(&page[i], used[i]))
	}
	return all, err
}

// outputOfBucket joins a bucket and its use.
func outputOfBucket(b *buckets.Bucket, u buckets.BucketUsage) bucketOutput {
	return bucketOutput{b.Name, outputOfUsage(u.Usage, u.Quota), b.Created.Time(), accessOf(b)}
}

// accessOf returns the canned ACL that the setting stands for.
func accessOf(b *buckets.Bucket) string {
	if b.Settings.PublicRead {
		return accessPublic
	}
	return accessPrivate
}

// usageOfBuckets returns each bucket's use, in the order of page.
func (s *Buckets) usageOfBuckets(ctx context.Context, a buckets.AccountID, page []buckets.Bucket) ([]buckets.BucketUsage, error) {
	refs := make([]buckets.BucketRef, len(page))
	for i := range page {
		refs[i] = page[i].BucketRef
	}
	return s.opened.BucketTotals(ctx, a, refs...)
}
