package buckets

import (
	"context"
	"math"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// quotaOperations declares account and bucket quotas.
func (s *Buckets) quotaOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewChange(operate.About{
			Path: "quotas/set", Doc: "Set an account's or bucket's quota",
			More: "A bucket is limited by its own quota and the account's. A quota takes effect at once and deletes nothing:\n" +
				"a write that would exceed it gets the error QuotaExceeded. Incomplete uploads count.",
			Example: "main --bytes 2GiB --objects 100000\nmain photos --bytes none",
			Group:   "Show and set account and bucket quotas", Title: "Quotas", Button: "Set quota",
		}, on(s, s.setQuota)),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "quotas/show", Doc: "Show an account's or bucket's usage and quotas", Title: "Quota", Finds: "Show quota"}, on(s, s.showQuota)),
	}
}

// quotaInput names an account, or a bucket in it.
type quotaInput struct {
	accountInput
	Bucket string `flag:"bucket" arg:"BUCKET" doc:"one of the account's buckets; default: the account itself"`
}

// setQuotaInput changes the quotas that are given.
type setQuotaInput struct {
	quotaInput
	Bytes   string `flag:"bytes" doc:"bytes, or with a unit, e.g. 2GiB; none removes the quota"`
	Objects string `flag:"objects" doc:"number of objects; none removes the quota"`
}

// Check parses the quotas before anything is read.
func (in setQuotaInput) Check() error {
	var q buckets.Quota
	return in.apply(&q)
}

// apply changes only the quotas that are given; none sets 0, which is no limit.
func (in *setQuotaInput) apply(q *buckets.Quota) (err error) {
	if in.Bytes != "" {
		if q.Bytes, err = parseLimit("bytes", in.Bytes); err != nil {
			return err
		}
	}
	if in.Objects != "" {
		q.Objects, err = parseLimit("objects", in.Objects)
	}
	return err
}

// noQuota is the word that removes a quota.
const noQuota = "none"

// parseLimit parses a quota. input, "bytes" or "objects", decides whether units are accepted. 0 is refused, because it
// could mean nothing or unlimited.
func parseLimit(input, text string) (int64, error) {
	if text == noQuota {
		return 0, nil
	}
	n, ok, expected := int64(0), false, "a number"
	if input == "bytes" {
		n, ok = service.ParseBytes(text)
		expected = "a number of bytes, e.g. 1048576 or 2GiB,"
	} else if parsed, err := strconv.ParseInt(text, 10, 64); err == nil {
		n, ok = parsed, true
	}
	if !ok || n < 1 || n == math.MaxInt64 {
		return 0, &operate.InputError{Input: input, Reason: "invalid value " + strconv.Quote(text) + ": expected " + expected + " above 0, or none"}
	}
	return n, nil
}

// quotaOutput is the use after a change. Bucket is "" for an account.
type quotaOutput struct {
	Account string `json:"account" title:"Account" subject:"account" example:"main"`
	Bucket  string `json:"bucket,omitempty" title:"Bucket" zero:"-" example:"photos"`
	usageOutput
}

// Notice is "", so that the quotas are shown.
func (quotaOutput) Notice() string { return "" }

// showQuota shows an account's or a bucket's use and own quotas.
func (s *Buckets) showQuota(ctx context.Context, in quotaInput) (quotaOutput, error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return quotaOutput{}, err
	}
	u, err := s.usageOf(ctx, a, in.Bucket)
	return quotaOutput{in.Account, in.Bucket, outputOfUsage(u.Usage, u.Quota)}, err
}

// setQuota takes effect with the next write, and deletes nothing.
func (s *Buckets) setQuota(ctx context.Context, in setQuotaInput) (quotaOutput, error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return quotaOutput{}, err
	}
	u, err := s.usageOf(ctx, a, in.Bucket)
	if err == nil {
		err = in.apply(&u.Quota)
	}
	if err == nil {
		err = s.opened.SetQuota(ctx, a.ID, u.Bucket, u.Quota)
	}
	if err != nil {
		return quotaOutput{}, err
	}
	return s.showQuota(ctx, in.quotaInput)
}

// showQuotaForm adds a form with the present quotas to a bucket's settings page.
func (s *Buckets) showQuotaForm(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	a, b, err := s.bucket(ctx, r)
	if err != nil {
		return nil, err
	}
	u, err := s.usageOf(ctx, a, b.Name)
	if err != nil {
		return nil, err
	}
	shown := func(n int64) string {
		if n == 0 {
			return noQuota
		}
		return decimal(n)
	}
	return &service.View{Parents: above(a, b.Name, ""), Blocks: []service.Block{&service.Form{
		Title: "Quota", Page: "quotas", Action: "set", Submit: "Set quota", Keep: map[string]string{"account": a.Name, "bucket": b.Name},
		Text: "The account's quota applies, too. A quota takes effect at once and deletes nothing.",
		Fields: []service.Field{
			{Name: "bytes", Label: "Bytes", Value: shown(u.Quota.Bytes), Help: "With a unit, e.g. 2GiB, or none."},
			{Name: "objects", Label: "Objects", Value: shown(u.Quota.Objects), Help: "A number, or none."},
		},
	}}}, nil
}

// usageOf reads a bucket's use or, for "", the account's. Bucket is then the zero reference.
func (s *Buckets) usageOf(ctx context.Context, a buckets.Account, bucket string) (u buckets.BucketUsage, err error) {
	if bucket == "" {
		all, err := s.opened.Totals(ctx, []buckets.AccountID{a.ID})
		if err != nil {
			return u, err
		}
		return buckets.BucketUsage{Usage: all[0].Total, Quota: all[0].Quota}, nil
	}
	b, err := s.opened.Bucket(ctx, a.ID, bucket)
	if err != nil {
		return u, about(bucket, err)
	}
	all, err := s.opened.BucketTotals(ctx, a.ID, b.BucketRef)
	if err != nil {
		return u, err
	}
	return all[0], nil
}
