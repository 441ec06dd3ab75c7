package s3clients

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tm "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// terraformLocks replays the provider's calls for object_lock_enabled and the resources that need it.
func terraformLocks(c *client) {
	ctx, t := c.t.Context(), c.t
	p := &provider{sdk: newSDK(c.s3), t: t, bucket: c.bucket}
	ok[*s3.CreateBucketOutput](t)(p.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &p.bucket, ObjectLockEnabledForBucket: aws.Bool(true)}))
	if v := ok[*s3.GetBucketVersioningOutput](t)(p.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &p.bucket})); v.Status != types.BucketVersioningStatusEnabled {
		t.Errorf("versioning %+v", v)
	}
	p.lockConfiguration(ctx)
	p.lockedObject(ctx)
	p.purgeVersions(ctx, t, p.bucket)
	c.absent()

	p.create(ctx, t, p.bucket)
	_, err := p.PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{Bucket: &p.bucket, ObjectLockConfiguration: lockDefault(nil)})
	p.absent("object lock without versions", err, "InvalidBucketState")
	p.versioning(ctx)
	p.lockConfiguration(ctx)
	p.purgeVersions(ctx, t, p.bucket)
}

func lockDefault(retention *types.DefaultRetention) *types.ObjectLockConfiguration {
	c := &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled}
	if retention != nil {
		c.Rule = &types.ObjectLockRule{DefaultRetention: retention}
	}
	return c
}

// lockConfiguration creates and changes aws_s3_bucket_object_lock_configuration, and deletes it with a configuration
// without a rule.
func (p *provider) lockConfiguration(ctx context.Context) {
	p.t.Helper()
	for _, want := range []*types.ObjectLockConfiguration{
		lockDefault(&types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(5)}),
		lockDefault(&types.DefaultRetention{Mode: types.ObjectLockRetentionModeCompliance, Years: aws.Int32(1)}),
		lockDefault(nil),
	} {
		ok[*s3.PutObjectLockConfigurationOutput](p.t)(p.PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{Bucket: &p.bucket, ObjectLockConfiguration: want}))
		got := ok[*s3.GetObjectLockConfigurationOutput](p.t)(p.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &p.bucket}))
		p.equal("object lock", got.ObjectLockConfiguration, want)
	}
}

func (p *provider) equal(what string, got, want any) {
	p.t.Helper()
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	if err := errors.Join(errA, errB); err != nil || string(a) != string(b) {
		p.t.Errorf("%s: %s, want %s, %v", what, a, b, err)
	}
}

// lockedObject tests aws_s3_object with object_lock_mode, object_lock_retain_until_date and object_lock_legal_hold_status,
// then a shorter retention with force_destroy, and deletes it, which turns off the legal hold.
func (p *provider) lockedObject(ctx context.Context) {
	t, b, key := p.t, &p.bucket, aws.String("locked")
	t.Helper()
	until := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	put := ok[*transfermanager.UploadObjectOutput](t)(transfermanager.New(p.Client).UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket: b, Key: key, Body: strings.NewReader("locked"), ChecksumAlgorithm: tm.ChecksumAlgorithmCrc32,
		ObjectLockMode: tm.ObjectLockModeGovernance, ObjectLockRetainUntilDate: &until, ObjectLockLegalHoldStatus: tm.ObjectLockLegalHoldStatusOn,
	}))
	p.lock(ctx, until, types.ObjectLockLegalHoldStatusOn)
	ok[*s3.PutObjectTaggingOutput](t)(p.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: b, Key: key, Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}}))
	until = until.Add(-24 * time.Hour)
	shorter := &s3.PutObjectRetentionInput{Bucket: b, Key: key, Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeGovernance, RetainUntilDate: &until}}
	_, err := p.PutObjectRetention(ctx, shorter)
	p.absent("a shorter retention", err, "AccessDenied")
	shorter.BypassGovernanceRetention = aws.Bool(true)
	ok[*s3.PutObjectRetentionOutput](t)(p.PutObjectRetention(ctx, shorter))
	p.lock(ctx, until, types.ObjectLockLegalHoldStatusOn)

	remove := &s3.DeleteObjectInput{Bucket: b, Key: key, VersionId: put.VersionID, BypassGovernanceRetention: aws.Bool(true)}
	_, err = p.DeleteObject(ctx, remove)
	p.absent("delete under a legal hold", err, "AccessDenied")
	hold := &s3.PutObjectLegalHoldInput{Bucket: b, Key: key, VersionId: put.VersionID, LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOff}}
	ok[*s3.PutObjectLegalHoldOutput](t)(p.PutObjectLegalHold(ctx, hold))
	p.lock(ctx, until, types.ObjectLockLegalHoldStatusOff)
	remove.BypassGovernanceRetention = nil
	_, err = p.DeleteObject(ctx, remove)
	p.absent("delete under governance", err, "AccessDenied")
	remove.BypassGovernanceRetention = aws.Bool(true)
	ok[*s3.DeleteObjectOutput](t)(p.DeleteObject(ctx, remove))
	_, err = p.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: key})
	p.absent("the deleted object", err, "NotFound")
}

// lock expects the object's lock in a HEAD response, which the provider uses to refresh.
func (p *provider) lock(ctx context.Context, until time.Time, hold types.ObjectLockLegalHoldStatus) {
	p.t.Helper()
	head := ok[*s3.HeadObjectOutput](p.t)(p.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &p.bucket, Key: aws.String("locked"), ChecksumMode: types.ChecksumModeEnabled}))
	if head.ObjectLockMode != types.ObjectLockModeGovernance || !aws.ToTime(head.ObjectLockRetainUntilDate).Equal(until) || head.ObjectLockLegalHoldStatus != hold || head.ChecksumCRC32 == nil {
		p.t.Errorf("lock %s, %v, %s, want until %v, %s", head.ObjectLockMode, head.ObjectLockRetainUntilDate, head.ObjectLockLegalHoldStatus, until, hold)
	}
}

// notifications tests aws_s3_bucket_notification, which the provider deletes with an empty configuration.
func (p *provider) notifications(ctx context.Context) {
	p.t.Helper()
	filter := func(name, value string) *types.NotificationConfigurationFilter {
		return &types.NotificationConfigurationFilter{Key: &types.S3KeyFilter{FilterRules: []types.FilterRule{{Name: types.FilterRuleName(name), Value: &value}}}}
	}
	queue := types.QueueConfiguration{Id: aws.String("tf-s3-queue-1"), QueueArn: aws.String(hookARN), Events: []types.Event{"s3:ObjectCreated:*"}, Filter: filter("prefix", "a/")}
	topic := types.TopicConfiguration{Id: aws.String("tf-s3-topic-1"), TopicArn: aws.String(hookARN), Events: []types.Event{"s3:ObjectRemoved:*", "s3:LifecycleExpiration:Delete"}}
	function := types.LambdaFunctionConfiguration{Id: aws.String("tf-s3-lambda-1"), LambdaFunctionArn: aws.String(hookARN), Events: []types.Event{"s3:ObjectCreated:Put"}, Filter: filter("suffix", ".jpg")}
	for _, want := range []*types.NotificationConfiguration{
		{QueueConfigurations: []types.QueueConfiguration{queue}, TopicConfigurations: []types.TopicConfiguration{topic}},
		{LambdaFunctionConfigurations: []types.LambdaFunctionConfiguration{function}},
		{},
	} {
		ok[*s3.PutBucketNotificationConfigurationOutput](p.t)(p.PutBucketNotificationConfiguration(ctx, &s3.PutBucketNotificationConfigurationInput{Bucket: &p.bucket, NotificationConfiguration: want}))
		got := ok[*s3.GetBucketNotificationConfigurationOutput](p.t)(p.GetBucketNotificationConfiguration(ctx, &s3.GetBucketNotificationConfigurationInput{Bucket: &p.bucket}))
		p.equal("notifications", types.NotificationConfiguration{
			QueueConfigurations: got.QueueConfigurations, TopicConfigurations: got.TopicConfigurations, LambdaFunctionConfigurations: got.LambdaFunctionConfigurations,
		}, want)
	}
}
