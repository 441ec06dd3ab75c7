package imports

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/errcode"
)

// outcome is the result for a setting at the source.
type outcome struct {
	text string // for the operator: the reason, if left; "" if there is nothing to say
	left bool   // the setting is not imported
}

// left returns the outcome of a setting that is not imported.
func left(why string) outcome { return outcome{why, true} }

// settingReader reads a setting at the source into the change or the pair.
type settingReader struct {
	setting buckets.Setting
	read    func(context.Context, *pair, *buckets.SettingsChange) (outcome, error)
}

// settingReaders has a reader for every kind of setting. The order matters: a policy must follow the public access
// block, and the lock versioning.
func (i *imports) settingReaders() []settingReader {
	return []settingReader{
		{buckets.SettingPublicRead, i.acl},
		{buckets.SettingAccessBlock, i.accessBlock},
		{buckets.SettingOwnership, i.ownership},
		{buckets.SettingCORS, i.cors},
		{buckets.SettingTags, i.bucketTags},
		{buckets.SettingPolicy, i.policy},
		{buckets.SettingNotifications, i.notifications},
		{buckets.SettingVersioning, i.versions},
		{buckets.SettingLock, i.lock},
		{buckets.SettingLifecycle, i.lifecycle},
	}
}

// settings imports bucket settings unless the target has its own. A setting is imported only if a client could set it
// here: otherwise it is left out as a whole, because a part of a policy or of lifecycle rules could allow or delete
// more than its author wanted. What is left out is reported, and noted in the bucket for `holdfast check`.
func (i *imports) settings(ctx context.Context, p *pair) error {
	var c buckets.SettingsChange
	unreadable := map[string][]string{} // names of settings by reason
	for _, r := range i.settingReaders() {
		out, err := r.read(ctx, p, &c)
		switch {
		case isMissing(err):
			continue
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case codeOf(err) == "NoSuchBucket":
			return readable("read the settings for bucket "+p.from, err)
		case err != nil:
			why := reason(readable("read it", err))
			unreadable[why] = append(unreadable[why], r.setting.Words())
			p.notes = append(p.notes, buckets.NewImportNote(r.setting, why))
		case out.left:
			p.notes = append(p.notes, buckets.NewImportNote(r.setting, out.text))
			i.problem(Problem{Bucket: p.from, Reason: r.setting.Words() + ": not imported: " + out.text})
		case out.text != "":
			i.problem(Problem{Bucket: p.from, Reason: r.setting.Words() + ": " + out.text})
		}
	}
	// A key without the rights for settings is common, so that these are one line each reason, not each setting.
	for _, why := range slices.Sorted(maps.Keys(unreadable)) {
		i.problem(Problem{Bucket: p.from, Reason: strings.Join(unreadable[why], ", ") + ": not imported: " + why})
	}
	if i.DryRun {
		return nil
	}
	return i.note(ctx, p, c)
}

// note writes a change of settings with the notes about missing settings, if either changed.
func (i *imports) note(ctx context.Context, p *pair, c buckets.SettingsChange) error {
	notes := slices.Clone(p.notes)
	if p.missing != nil {
		notes = append(notes, *p.missing)
	}
	if !slices.Equal(notes, p.noted) {
		c.ImportNotes = &notes
	}
	if c == (buckets.SettingsChange{}) {
		return nil
	}
	err := i.Target.SetBucket(ctx, i.Account.ID, p.bucket.BucketRef, c)
	if err == nil {
		p.noted = notes
	}
	return err
}

// noteFailed notes how many objects of the bucket are missing. Only an import of the whole bucket removes the note.
func (i *imports) noteFailed(ctx context.Context, p *pair, failed int64) error {
	switch {
	case failed > 0:
		n := buckets.NewImportNote(buckets.SettingObjects, fmt.Sprintf("%d could not be imported", failed))
		p.missing = &n
	case i.Prefix == "":
		p.missing = nil
	}
	return i.note(ctx, p, buckets.SettingsChange{})
}

// isMissing reports whether the source lacks a setting, or the feature.
func isMissing(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "NoSuch") && code != "NoSuchBucket" || slices.Contains([]string{
		"NotImplemented", "MethodNotAllowed", "XNotImplemented", "InvalidRequest", "ServerSideEncryptionConfigurationNotFoundError",
		"ObjectLockConfigurationNotFoundError", "OwnershipControlsNotFoundError",
	}, code)
}

// kept reports a setting that is not imported because the bucket has its own. It says nothing if both are equal, as
// after an earlier import.
func kept(p *pair, isEqual bool) outcome {
	if isEqual {
		return outcome{}
	}
	return outcome{text: fmt.Sprintf("not imported, because bucket %s has its own, which differs from the source", p.to)}
}

const allUsers = "http://acs.amazonaws.com/groups/global/AllUsers" // S3's group for anyone

// acl names grants, which are not imported: an object has the access of its bucket here, and a bucket must not become
// public because another server's bucket was.
func (i *imports) acl(ctx context.Context, p *pair, _ *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketAcl(ctx, &s3.GetBucketAclInput{Bucket: &p.from})
	if err != nil || p.bucket.Settings.PublicRead {
		return outcome{}, err
	}
	owner := ""
	if out.Owner != nil {
		owner = aws.ToString(out.Owner.ID)
	}
	for _, g := range out.Grants {
		switch {
		case g.Grantee == nil:
		case aws.ToString(g.Grantee.URI) == allUsers:
			return left("the bucket is public by its ACL at the source, and access for everybody is only set here"), nil
		case aws.ToString(g.Grantee.URI) != "", aws.ToString(g.Grantee.ID) != "" && *g.Grantee.ID != owner: // MinIO sends no ID
			return left("its ACL at the source grants access to others, which needs a policy here"), nil
		}
	}
	return outcome{}, nil
}

// accessBlock imports the restrictions of public access.
func (i *imports) accessBlock(ctx context.Context, p *pair, c *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &p.from})
	if err != nil || out.PublicAccessBlockConfiguration == nil {
		return outcome{}, err
	}
	from := out.PublicAccessBlockConfiguration
	b := buckets.PublicAccessBlock{
		Configured: true, BlockACLs: aws.ToBool(from.BlockPublicAcls), IgnoreACLs: aws.ToBool(from.IgnorePublicAcls),
		BlockPolicy: aws.ToBool(from.BlockPublicPolicy), RestrictPolicy: aws.ToBool(from.RestrictPublicBuckets),
	}
	switch here := p.bucket.Settings.PublicAccessBlock; {
	case here.Configured:
		return kept(p, here == b), nil
	case b.Check() != nil:
		return left(reason(b.Check())), nil //nolint:nilerr // the error is the outcome
	}
	c.PublicAccessBlock = &b
	return outcome{}, nil
}

// ownership imports the modes in which objects belong to the bucket owner. ObjectWriter gives objects other owners.
func (i *imports) ownership(ctx context.Context, p *pair, c *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketOwnershipControls(ctx, &s3.GetBucketOwnershipControlsInput{Bucket: &p.from})
	if err != nil || out.OwnershipControls == nil || p.bucket.Settings.OwnerEnforced || p.bucket.Settings.OwnerPreferred {
		return outcome{}, err
	}
	for _, r := range out.OwnershipControls.Rules {
		switch r.ObjectOwnership {
		case types.ObjectOwnershipBucketOwnerEnforced:
		case types.ObjectOwnershipBucketOwnerPreferred:
			c.OwnerPreferred = aws.Bool(true)
			continue
		default:
			return left(fmt.Sprintf("%q is not supported: objects belong to the owner of their bucket", string(r.ObjectOwnership))), nil
		}
		if err := p.bucket.Settings.CheckOwnerEnforced(); err != nil {
			return left(reason(err)), nil
		}
		c.OwnerEnforced = aws.Bool(true)
	}
	return outcome{}, nil
}

// cors imports CORS rules.
func (i *imports) cors(ctx context.Context, p *pair, c *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: &p.from})
	if err != nil || len(out.CORSRules) == 0 {
		return outcome{}, err
	}
	rules := make([]buckets.CORSRule, len(out.CORSRules))
	for n, r := range out.CORSRules {
		rules[n] = buckets.CORSRule{
			ID: aws.ToString(r.ID), AllowedOrigins: r.AllowedOrigins, AllowedMethods: r.AllowedMethods, AllowedHeaders: r.AllowedHeaders,
			ExposeHeaders: r.ExposeHeaders, MaxAgeSeconds: int(aws.ToInt32(r.MaxAgeSeconds)),
		}
	}
	if here := p.bucket.Settings.CORS; here != nil {
		return kept(p, reflect.DeepEqual(here, rules)), nil
	}
	if invalid := buckets.CheckCORS(rules); invalid != nil {
		return left(invalid.Error()), nil
	}
	c.CORS = &rules
	return outcome{}, nil
}

// bucketTags imports tags.
func (i *imports) bucketTags(ctx context.Context, p *pair, c *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &p.from})
	if err != nil || len(out.TagSet) == 0 {
		return outcome{}, err
	}
	tags, invalid := buckets.TagsOf(tagsOf(out.TagSet), buckets.MaxBucketTags)
	if here := p.bucket.Settings.Tags; len(here) > 0 {
		return kept(p, maps.Equal(here, tags)), nil
	}
	if invalid != nil {
		return left(invalid.Error()), nil
	}
	c.Tags = &tags
	return outcome{}, nil
}

// policy imports the bucket policy, whose accounts must be accounts of this server.
func (i *imports) policy(ctx context.Context, p *pair, c *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: &p.from})
	if err != nil || aws.ToString(out.Policy) == "" {
		return outcome{}, err
	}
	const arn = "arn:aws:s3:::"
	document := *out.Policy
	for _, end := range []string{`"`, "/"} {
		document = strings.ReplaceAll(document, arn+p.from+end, arn+p.to+end)
	}
	if here := p.bucket.Settings.Policy; !here.IsZero() {
		return kept(p, here.Document == document), nil
	}
	parsed, stored, err := policy.New(ctx, i.Target, i.Account.ID, p.to, []byte(document))
	if err == nil {
		s := c.Apply(p.bucket.Settings)
		err = s.CheckPolicy(parsed.IsPublic())
	}
	if code := errcode.Of(err); err != nil && code != errcode.Invalid && code != errcode.Conflict {
		return outcome{}, err
	} else if err != nil {
		return left(reason(err)), nil
	}
	if !parsed.IsPublic() {
		c.Policy = &stored
		return outcome{}, nil
	}
	// An object that is already here may be private.
	if o, err := i.objectsHere(p).head(ctx); err != nil || o != nil {
		return left(fmt.Sprintf("it grants public access, and bucket %s already contains objects", p.to)), err
	}
	c.Policy = &stored
	return outcome{text: fmt.Sprintf("bucket %s is public, as its policy at the source says", p.to)}, nil
}

// notifications names notifications, which are never imported: their ARNs are destinations of the other server, and the
// import itself would publish an event for each object.
func (i *imports) notifications(ctx context.Context, p *pair, _ *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketNotificationConfiguration(ctx, &s3.GetBucketNotificationConfigurationInput{Bucket: &p.from})
	if err != nil || !p.bucket.Settings.Notifications.IsZero() {
		return outcome{}, err
	}
	if n := len(out.TopicConfigurations) + len(out.QueueConfigurations) + len(out.LambdaFunctionConfigurations); n > 0 || out.EventBridgeConfiguration != nil {
		return left("their destinations are those of the source: set them with ARNs of this server once the objects are here"), nil
	}
	return outcome{}, nil
}

// versioningStates are the valid states at the source.
var versioningStates = map[types.BucketVersioningStatus]buckets.Versioning{
	types.BucketVersioningStatusEnabled: buckets.VersioningEnabled, types.BucketVersioningStatusSuspended: buckets.VersioningSuspended,
}

// versions notes that all versions must be imported.
func (i *imports) versions(ctx context.Context, p *pair, _ *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &p.from})
	if err != nil || out.Status == "" {
		return outcome{}, err
	}
	if _, ok := versioningStates[out.Status]; !ok {
		return left(fmt.Sprintf("the state %q is not Enabled or Suspended, so only each object's current version is imported", string(out.Status))), nil
	}
	if i.CurrentOnly {
		// The operator has chosen this, so `holdfast check` does not repeat it.
		return outcome{text: "only each object's current version is imported"}, nil
	}
	p.versioning = out.Status
	return outcome{}, nil
}

// lock notes the object lock, for setVersions.
func (i *imports) lock(ctx context.Context, p *pair, _ *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &p.from})
	if err != nil || out.ObjectLockConfiguration == nil || out.ObjectLockConfiguration.ObjectLockEnabled != types.ObjectLockEnabledEnabled {
		return outcome{}, err
	}
	if i.CurrentOnly {
		return outcome{text: "only imported with all versions"}, nil // the operator's choice, too
	}
	if p.versioning == "" {
		return left("it is only imported with all versions"), nil
	}
	l := buckets.BucketLock{Enabled: true}
	if r := out.ObjectLockConfiguration.Rule; r != nil && r.DefaultRetention != nil {
		l.Mode, l.Days, l.Years = buckets.LockMode(r.DefaultRetention.Mode), int(aws.ToInt32(r.DefaultRetention.Days)), int(aws.ToInt32(r.DefaultRetention.Years))
	}
	var note outcome
	if invalid := l.Check(); invalid != nil {
		// The lock itself is imported: without it, the versions would lose their own retention.
		note, l = left("the default retention for new objects: "+reason(invalid)), buckets.BucketLock{Enabled: true}
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
	want, ok := versioningStates[p.versioning]
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
func (i *imports) lifecycle(ctx context.Context, p *pair, c *buckets.SettingsChange) (outcome, error) {
	out, err := i.Source.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &p.from})
	if err != nil || len(out.Rules) == 0 {
		return outcome{}, err
	}
	l := buckets.Lifecycle{MinimumSize: string(out.TransitionDefaultMinimumObjectSize), Changed: i.Target.Now(), Bucket: p.to}
	var why string
	for _, r := range out.Rules {
		rule, problem := ruleOf(&r)
		why = cmp.Or(why, problem)
		l.Rules = append(l.Rules, rule)
	}
	if here := p.bucket.Settings.Lifecycle.Rules; len(here) > 0 {
		return kept(p, reflect.DeepEqual(here, l.Rules)), nil
	}
	if invalid := l.Check(); why == "" && invalid != nil {
		why = invalid.Error()
	}
	if why != "" {
		return left(why), nil
	}
	c.Lifecycle = &l
	return outcome{}, nil
}

// ruleOf converts a rule. problem explains parts that have no form here, so that Lifecycle.Check does not see them.
func ruleOf(r *types.LifecycleRule) (rule buckets.LifecycleRule, problem string) {
	rule = buckets.LifecycleRule{ID: cmp.Or(aws.ToString(r.ID), buckets.NewUUID()), Disabled: r.Status == types.ExpirationStatusDisabled, Filter: filterOf(r.Filter)}
	switch {
	case len(r.Transitions)+len(r.NoncurrentVersionTransitions) > 0:
		problem = "a rule moves objects to another storage class"
	case r.Status != types.ExpirationStatusEnabled && r.Status != types.ExpirationStatusDisabled:
		problem = "the Status of a rule is not Enabled or Disabled"
	}
	if rule.Filter == nil {
		rule.Prefix = cmp.Or(r.Prefix, aws.String("")) //nolint:staticcheck // S3's older form
	}
	if e := r.Expiration; e != nil {
		rule.Expiration = &buckets.Expiration{Days: int(aws.ToInt32(e.Days)), DeleteMarker: e.ExpiredObjectDeleteMarker}
		if e.Date != nil {
			rule.Expiration.Date = buckets.At(*e.Date)
			if rule.Expiration.Date == 0 { // 0 means no date
				problem = "the Date of a rule is not later than 1970"
			}
		}
		if e.Days != nil && *e.Days < 1 {
			problem = "the Days of a rule are not positive"
		}
	}
	if n := r.NoncurrentVersionExpiration; n != nil {
		rule.Noncurrent = &buckets.NoncurrentVersion{Days: int(aws.ToInt32(n.NoncurrentDays))}
		if n.NewerNoncurrentVersions != nil {
			rule.Noncurrent.Keep = aws.Int(int(*n.NewerNoncurrentVersions))
		}
	}
	if a := r.AbortIncompleteMultipartUpload; a != nil {
		if rule.AbortDays = int(aws.ToInt32(a.DaysAfterInitiation)); rule.AbortDays < 1 { // 0 means no such action
			problem = "the DaysAfterInitiation of a rule are not positive"
		}
	}
	return rule, problem
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
