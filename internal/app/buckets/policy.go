package buckets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/operate"
)

// policyOperations declares a bucket's policy and its public access block.
func (s *Buckets) policyOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewRead(operate.About{
			Access: operate.ForViewers, Path: "policy/show", Doc: "Show a bucket's policy, and whether the bucket is public", Title: "Policy for bucket", Group: "Show and change a bucket's policy",
		}, on(s, s.showPolicy)),
		operate.NewChange(operate.About{
			Path: "policy/set", Doc: "Set a bucket's policy", Title: "Set the policy", Button: "Set policy", Stays: true,
			Text:    "JSON in Amazon's policy language. A policy with unknown elements is refused.",
			Example: "main photos --policy \"$(<policy.json)\"",
		}, on(s, s.setPolicy)),
		operate.NewChange(operate.About{
			Path: "policy/delete", Doc: "Delete a bucket's policy", Button: "Delete policy", Danger: true, Stays: true,
			Ask: "Only the bucket's owner keeps access, and everyone if the bucket is public-read.",
		}, on(s, s.deletePolicy)),
		operate.NewChange(operate.About{
			Path: "policy/block-public", Doc: "Block public access to a bucket", Title: "Block public access", Button: "Block public access", Stays: true,
			Text:    "Replaces the bucket's public access block: all, acls (public-read), policies (public policies) or none.",
			Example: "main photos --block all",
		}, on(s, s.blockPublic)),
	}
}

// policyOutput is the policy as it was set.
type policyOutput struct {
	Account string `json:"account" title:"Account" subject:"account" example:"main"`
	Bucket  string `json:"bucket" title:"Bucket" subject:"bucket" example:"photos"`
	Public  bool   `json:"public" title:"Public" doc:"the policy or the public-read setting allows anonymous access"`
	Blocks  string `json:"publicAccessBlock,omitempty" title:"Public access block" zero:"-" example:"BlockPublicAcls, BlockPublicPolicy" doc:"active flags"`
	Policy  string `json:"policy,omitempty" text:"Policy" doc:"missing: no policy"`
}

// Offers delete only if there is a policy.
func (o policyOutput) Offers(verb string) bool { return verb != "delete" || o.Policy != "" }

// showPolicy also says whether anonymous requests are allowed, by the policy or by public-read.
func (s *Buckets) showPolicy(ctx context.Context, in bucketInput) (o policyOutput, err error) {
	a, b, err := s.bucketOf(ctx, in)
	if err != nil {
		return o, err
	}
	o = policyOutput{Account: a.Name, Bucket: b.Name, Public: b.Settings.IsOpen(), Blocks: blocksOf(b.Settings.PublicAccessBlock), Policy: b.Settings.Policy.Document}
	if o.Policy != "" {
		o.Public = o.Public || policy.Load(b.Settings.Policy, b.Name).IsPublic()
	}
	return o, nil
}

// blocksOf lists the active flags with S3's names.
func blocksOf(b buckets.PublicAccessBlock) string {
	var all []string
	for _, flag := range []struct {
		is   bool
		name string
	}{{b.BlockACLs, "BlockPublicAcls"}, {b.IgnoreACLs, "IgnorePublicAcls"}, {b.BlockPolicy, "BlockPublicPolicy"}, {b.RestrictPolicy, "RestrictPublicBuckets"}} {
		if flag.is {
			all = append(all, flag.name)
		}
	}
	return strings.Join(all, ", ")
}

// policyInput is the whole policy.
type policyInput struct {
	bucketInput
	Policy string `flag:"policy" title:"Policy" value:"JSON" doc:"the policy as JSON" lines:"16"`
}

// Check does not parse the policy: that needs the bucket and the accounts that it names.
func (in policyInput) Check() error {
	if strings.TrimSpace(in.Policy) == "" {
		return &operate.InputError{Input: "policy", Reason: "must not be empty"}
	}
	return nil
}

// setPolicy refuses a policy with unknown elements, and a public policy that the public access block forbids. A shared
// bucket claims its plain name.
func (s *Buckets) setPolicy(ctx context.Context, in policyInput) (c bucketChange, err error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return c, err
	}
	p, stored, err := policy.New(ctx, s.opened, a.ID, b.Name, []byte(in.Policy))
	if invalid, ok := errors.AsType[*policy.Error](err); ok {
		return c, &operate.InputError{Input: "policy", Reason: "is not valid: " + invalid.Reason}
	}
	if err == nil {
		err = about(in.Bucket, b.Settings.CheckPolicy(p.IsPublic()))
	}
	if err == nil {
		err = s.opened.SetBucket(ctx, a.ID, b.BucketRef, buckets.SettingsChange{Policy: &stored})
	}
	notice := "set the policy for bucket " + in.Bucket
	if err == nil {
		notice, err = s.sharedAs(ctx, in.bucketInput, notice)
	}
	return bucketChange{in.Account, in.Bucket, notice}, err
}

// deletePolicy succeeds for a bucket without a policy.
func (s *Buckets) deletePolicy(ctx context.Context, in bucketInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in)
	if err == nil {
		err = s.opened.SetBucket(ctx, a.ID, b.BucketRef, buckets.SettingsChange{Policy: &buckets.Policy{}})
	}
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("bucket %s has no policy", in.Bucket)}, err
}

// publicBlocks are the flags for each word.
var publicBlocks = map[string]buckets.PublicAccessBlock{
	"all":      {Configured: true, BlockACLs: true, IgnoreACLs: true, BlockPolicy: true, RestrictPolicy: true},
	"acls":     {Configured: true, BlockACLs: true, IgnoreACLs: true},
	"policies": {Configured: true, BlockPolicy: true, RestrictPolicy: true},
	"none":     {},
}

// blockInput replaces all four flags.
type blockInput struct {
	bucketInput
	Block string `flag:"block" doc:"all, acls, policies or none" enum:"all,acls,policies,none"`
}

// Check refuses a missing value: there is no default.
func (in blockInput) Check() error {
	if _, ok := publicBlocks[in.Block]; !ok {
		return &operate.InputError{Input: "block", Reason: "must be all, acls, policies or none"}
	}
	return nil
}

// blockPublic replaces the flags. The flags that ignore or restrict also take effect for public access that exists.
func (s *Buckets) blockPublic(ctx context.Context, in blockInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if block := publicBlocks[in.Block]; err == nil {
		err = s.opened.SetBucket(ctx, a.ID, b.BucketRef, buckets.SettingsChange{PublicAccessBlock: &block})
	}
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("the public access block for bucket %s is %s", in.Bucket, in.Block)}, err
}
