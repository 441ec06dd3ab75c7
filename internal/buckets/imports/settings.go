package imports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
)

// settings imports bucket settings unless the target has its own.
func (i *imports) settings(ctx context.Context, p *pair) error {
	var c buckets.SettingsChange
	now := &p.bucket.Settings
	for _, read := range []func(context.Context, *pair, *buckets.SettingsChange) (note string, err error){i.cors, i.bucketTags, i.policy, i.versions, i.lock, i.lifecycle} {
		note, err := read(ctx, p, &c)
		switch {
		case isMissing(err):
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case codeOf(err) == "NoSuchBucket":
			return readable("read the settings for bucket "+p.from, err)
		case err != nil:
			i.problem(Problem{Bucket: p.from, Reason: reason(readable("read a bucket setting", err))})
		case note != "":
			i.problem(Problem{Bucket: p.from, Reason: note})
		}
	}
	if now.CORS != nil {
		c.CORS = nil
	}
	if len(now.Tags) > 0 {
		c.Tags = nil
	}
	if i.DryRun || c == (buckets.SettingsChange{}) {
		return nil
	}
	return i.Target.SetBucket(ctx, i.Account.ID, p.bucket.BucketRef, c)
}

// isMissing reports whether the source lacks a setting, or the feature.
func isMissing(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "NoSuch") && code != "NoSuchBucket" ||
		slices.Contains([]string{"NotImplemented", "MethodNotAllowed", "XNotImplemented", "InvalidRequest", "ServerSideEncryptionConfigurationNotFoundError", "ObjectLockConfigurationNotFoundError"}, code)
}

// cors imports CORS rules. The text explains why they are not imported; "" if they are.
func (i *imports) cors(ctx context.Context, p *pair, c *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: &p.from})
	if err != nil {
		return "", err
	}
	rules := make([]buckets.CORSRule, len(out.CORSRules))
	for n, r := range out.CORSRules {
		rules[n] = buckets.CORSRule{
			ID: aws.ToString(r.ID), AllowedOrigins: r.AllowedOrigins, AllowedMethods: r.AllowedMethods, AllowedHeaders: r.AllowedHeaders,
			ExposeHeaders: r.ExposeHeaders, MaxAgeSeconds: int(aws.ToInt32(r.MaxAgeSeconds)),
		}
		if invalid := rules[n].Check(); invalid != nil {
			return "its CORS rules are not imported: " + invalid.Error(), nil
		}
	}
	c.CORS = &rules
	return "", nil
}

// bucketTags imports tags.
func (i *imports) bucketTags(ctx context.Context, p *pair, c *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &p.from})
	if err != nil || len(out.TagSet) == 0 {
		return "", err
	}
	all := tagsOf(out.TagSet)
	c.Tags = &all
	return "", nil
}

// policy imports the bucket policy, whose accounts must be accounts of this server.
func (i *imports) policy(ctx context.Context, p *pair, c *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: &p.from})
	if err != nil || aws.ToString(out.Policy) == "" || !p.bucket.Settings.Policy.IsZero() {
		return "", err
	}
	const arn = "arn:aws:s3:::"
	document := *out.Policy
	for _, end := range []string{`"`, "/"} {
		document = strings.ReplaceAll(document, arn+p.from+end, arn+p.to+end)
	}
	parsed, stored, err := policy.New(ctx, i.Target, i.Account.ID, p.to, []byte(document))
	if err != nil {
		return "its policy is not imported: " + reason(err), nil
	}
	if !parsed.IsPublic() {
		c.Policy = &stored
		return "", nil
	}
	// An object that is already here may be private.
	if o, err := i.objectsHere(p).head(ctx); err != nil || o != nil {
		return fmt.Sprintf("its policy is not imported, because it grants public access, and bucket %s already contains objects", p.to), err
	}
	c.Policy = &stored
	return fmt.Sprintf("bucket %s is public, as its policy at the source says", p.to), nil
}

// versions notes that all versions must be imported.
func (i *imports) versions(ctx context.Context, p *pair, _ *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &p.from})
	if err != nil || out.Status == "" {
		return "", err
	}
	if i.CurrentOnly {
		return "it has versioning: only each object's current version is imported", nil
	}
	p.versioning = out.Status
	return "", nil
}

// lock notes the object lock, for setVersions.
func (i *imports) lock(ctx context.Context, p *pair, _ *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &p.from})
	if err != nil || out.ObjectLockConfiguration == nil || out.ObjectLockConfiguration.ObjectLockEnabled != types.ObjectLockEnabledEnabled {
		return "", err
	}
	if p.versioning == "" {
		return "it has object lock, which is only imported with all versions", nil
	}
	l := buckets.BucketLock{Enabled: true}
	if r := out.ObjectLockConfiguration.Rule; r != nil && r.DefaultRetention != nil {
		l.Mode, l.Days, l.Years = buckets.LockMode(r.DefaultRetention.Mode), int(aws.ToInt32(r.DefaultRetention.Days)), int(aws.ToInt32(r.DefaultRetention.Years))
	}
	note := ""
	if invalid := l.Check(); invalid != nil {
		note, l = "its default retention is not imported: "+invalid.Error(), buckets.BucketLock{Enabled: true}
	}
	p.lock = &l
	return note, nil
}

// keepVersions enables versioning and object lock before the import, so that imported versions replace nothing.
// setVersions sets the default retention afterwards, because it would lock versions that are not locked at the
// source.
func (i *imports) keepVersions(ctx context.Context, p *pair) error {
	b, err := i.Target.Bucket(ctx, i.Account.ID, p.to)
	if err == nil && b.Versioning != buckets.VersioningEnabled {
		err = i.Target.SetVersioning(ctx, i.Account.ID, b.BucketRef, buckets.VersioningEnabled)
	}
	if err == nil && p.lock != nil && !b.Lock.Enabled {
		err = i.Target.SetBucketLock(ctx, i.Account.ID, b.BucketRef, buckets.BucketLock{Enabled: true})
	}
	return err
}

// setVersions sets versioning and the default retention after all versions are here.
func (i *imports) setVersions(ctx context.Context, p *pair) error {
	want, ok := map[types.BucketVersioningStatus]buckets.Versioning{
		types.BucketVersioningStatusEnabled: buckets.VersioningEnabled, types.BucketVersioningStatusSuspended: buckets.VersioningSuspended,
	}[p.versioning]
	b, err := i.Target.Bucket(ctx, i.Account.ID, p.to)
	if err == nil && ok && b.Versioning != want {
		err = i.Target.SetVersioning(ctx, i.Account.ID, b.BucketRef, want)
	}
	if err == nil && p.lock != nil && b.Lock.Mode == "" && b.Lock != *p.lock {
		err = i.Target.SetBucketLock(ctx, i.Account.ID, b.BucketRef, *p.lock)
	}
	return err
}

// lifecycle imports all rules or none.
func (i *imports) lifecycle(ctx context.Context, p *pair, c *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &p.from})
	if err != nil || len(out.Rules) == 0 || len(p.bucket.Settings.Lifecycle.Rules) > 0 {
		return "", err
	}
	l := buckets.Lifecycle{MinimumSize: string(out.TransitionDefaultMinimumObjectSize), Changed: i.Target.Now(), Bucket: p.to}
	for _, r := range out.Rules {
		if len(r.Transitions)+len(r.NoncurrentVersionTransitions) > 0 {
			return "its lifecycle rules are not imported, because a rule moves objects to another storage class", nil
		}
		l.Rules = append(l.Rules, ruleOf(&r))
	}
	if invalid := l.Check(); invalid != nil {
		return "its lifecycle rules are not imported: " + invalid.Error(), nil
	}
	c.Lifecycle = &l
	return "", nil
}

// ruleOf converts a rule.
func ruleOf(r *types.LifecycleRule) buckets.LifecycleRule {
	rule := buckets.LifecycleRule{ID: cmp.Or(aws.ToString(r.ID), buckets.NewUUID()), Disabled: r.Status != types.ExpirationStatusEnabled, Filter: filterOf(r.Filter)}
	if rule.Filter == nil {
		rule.Prefix = cmp.Or(r.Prefix, aws.String("")) //nolint:staticcheck // S3's older form
	}
	if e := r.Expiration; e != nil {
		rule.Expiration = &buckets.Expiration{Days: int(aws.ToInt32(e.Days)), DeleteMarker: e.ExpiredObjectDeleteMarker}
		if e.Date != nil {
			rule.Expiration.Date = buckets.At(*e.Date)
		}
	}
	if n := r.NoncurrentVersionExpiration; n != nil {
		rule.Noncurrent = &buckets.NoncurrentVersion{Days: int(aws.ToInt32(n.NoncurrentDays))}
		if n.NewerNoncurrentVersions != nil {
			rule.Noncurrent.Keep = aws.Int(int(*n.NewerNoncurrentVersions))
		}
	}
	if a := r.AbortIncompleteMultipartUpload; a != nil {
		rule.AbortDays = int(aws.ToInt32(a.DaysAfterInitiation))
	}
	return rule
}

// filterOf converts a filter; nil stays nil.
func filterOf(f *types.LifecycleRuleFilter) *buckets.LifecycleFilter {
	if f == nil {
		return nil
	}
	out := &buckets.LifecycleFilter{Prefix: f.Prefix, GreaterThan: f.ObjectSizeGreaterThan, LessThan: f.ObjectSizeLessThan}
	tags := []types.Tag{}
	if f.Tag != nil {
		tags = append(tags, *f.Tag)
	}
	if a := f.And; a != nil {
		out = &buckets.LifecycleFilter{Prefix: a.Prefix, GreaterThan: a.ObjectSizeGreaterThan, LessThan: a.ObjectSizeLessThan, And: true}
		tags = a.Tags
	}
	for _, t := range tags {
		out.Tags = append(out.Tags, buckets.Tag{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value)})
	}
	return out
}
