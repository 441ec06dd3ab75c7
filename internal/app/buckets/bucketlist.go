package buckets

import (
	"context"
	"slices"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

func (s *Buckets) bucketOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Path: "buckets", Doc: "List the buckets of an account with what they store and their quotas", Title: "Buckets", Empty: "There are no buckets.",
			Group: "Show the buckets of an account", Former: []operate.Former{{Words: "buckets buckets"}, {Words: "buckets list"}}, Opens: "objects", //nolint:dupword // the noun is the name of the service
		}, on(s, s.listBuckets)),
	}
}

type bucketsInput struct {
	accountInput
	Prefix string `flag:"prefix" doc:"only buckets whose names begin with this"`
	operate.Page[string]
}

// bucketOutput is a bucket with its usage.
type bucketOutput struct {
	Bucket string `json:"bucket" title:"Bucket" subject:"bucket" cursor:"" example:"photos"`
	usageOutput
	Created time.Time `json:"created" title:"Created"`
	Access  string    `json:"access" title:"Access" enum:"with an access key,everybody may read"`
}

func (s *Buckets) listBuckets(ctx context.Context, in bucketsInput) (all []bucketOutput, err error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	page, _, err := s.opened.Buckets(ctx, a.ID, buckets.BucketQuery{After: in.After, Prefix: in.Prefix, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	used, err := s.opened.Usage(ctx, a.ID)
	for i := range page {
		b, access := &page[i], "with an access key"
		if b.Settings.PublicRead {
			access = "everybody may read"
		}
		u := usageOfBucket(&used, b.Name)
		all = append(all, bucketOutput{b.Name, outputOfUsage(u.Usage, u.Quota), b.Created.Time(), access})
	}
	return all, err
}

// usageOfBucket returns the usage of a bucket, which is 0 if it was created just now.
func usageOfBucket(all *buckets.AccountUsage, name string) (u buckets.BucketUsage) {
	if i := slices.IndexFunc(all.Buckets, func(u buckets.BucketUsage) bool { return u.Bucket.Name == name }); i >= 0 {
		u = all.Buckets[i]
	}
	return u
}
