package s3clients

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// terraform creates, refreshes and deletes S3 resources with the SDK calls of Terraform's provider. A set attribute must
// read back unchanged, and an unset attribute must return an error code that the provider accepts as absent.
func terraform(c *client) {
	ctx, t := c.t.Context(), c.t
	p := &provider{sdk: newSDK(c.s3), t: t, bucket: c.bucket}
	p.create(ctx, t, c.bucket)
	ok[*s3.HeadBucketOutput](t)(p.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &p.bucket}))
	ok[*s3.PutBucketTaggingOutput](t)(p.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{Bucket: &p.bucket, Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("Name"), Value: aws.String("day")}}}}))
	p.refresh(ctx)
	p.versioning(ctx)
	p.lifecycle(ctx)
	p.access(ctx)
	p.cors(ctx)
	p.notifications(ctx)
	p.objects(ctx)
	p.refresh(ctx)
	p.forceDestroy(ctx)
	c.absent()
}

type provider struct {
	sdk
	t      *testing.T
	bucket string
}

// absent expects an error code that the provider accepts as an unset attribute.
func (p *provider) absent(what string, err error, codes ...string) {
	p.t.Helper()
	var e interface{ ErrorCode() string }
	if !errors.As(err, &e) || !slices.Contains(codes, e.ErrorCode()) {
		p.t.Errorf("%s: %v, want %v", what, err, codes)
	}
}

func (p *provider) refresh(ctx context.Context) {
	t, b := p.t, &p.bucket
	t.Helper()
	ok[*s3.HeadBucketOutput](t)(p.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: b}))
	_, err := p.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: b})
	p.absent("policy", err, "NoSuchBucketPolicy")
	acl := ok[*s3.GetBucketAclOutput](t)(p.GetBucketAcl(ctx, &s3.GetBucketAclInput{Bucket: b}))
	if acl.Owner == nil || len(acl.Grants) != 1 || acl.Grants[0].Permission != types.PermissionFullControl {
		t.Errorf("ACL %+v", acl)
	}
	_, err = p.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: b})
	p.absent("CORS", err, "NoSuchCORSConfiguration")
	_, err = p.GetBucketWebsite(ctx, &s3.GetBucketWebsiteInput{Bucket: b})
	p.absent("website", err, "NoSuchWebsiteConfiguration")
	ok[*s3.GetBucketVersioningOutput](t)(p.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: b}))
	if a := ok[*s3.GetBucketAccelerateConfigurationOutput](t)(p.GetBucketAccelerateConfiguration(ctx, &s3.GetBucketAccelerateConfigurationInput{Bucket: b})); a.Status != "" {
		t.Errorf("acceleration %+v", a)
	}
	if r := ok[*s3.GetBucketRequestPaymentOutput](t)(p.GetBucketRequestPayment(ctx, &s3.GetBucketRequestPaymentInput{Bucket: b})); r.Payer != types.PayerBucketOwner {
		t.Errorf("payer %+v", r)
	}
	if l := ok[*s3.GetBucketLoggingOutput](t)(p.GetBucketLogging(ctx, &s3.GetBucketLoggingInput{Bucket: b})); l.LoggingEnabled != nil {
		t.Errorf("logging %+v", l)
	}
	_, err = p.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: b})
	p.absent("lifecycle rules", err, "NoSuchLifecycleConfiguration")
	_, err = p.GetBucketReplication(ctx, &s3.GetBucketReplicationInput{Bucket: b})
	p.absent("replication", err, "ReplicationConfigurationNotFoundError")
	_, err = p.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{Bucket: b})
	p.absent("encryption", err, "ServerSideEncryptionConfigurationNotFoundError")
	_, err = p.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: b})
	p.absent("object lock", err, "ObjectLockConfigurationNotFoundError")
	ok[*s3.GetBucketLocationOutput](t)(p.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: b}))
	tags := ok[*s3.GetBucketTaggingOutput](t)(p.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: b}))
	if len(tags.TagSet) != 1 || *tags.TagSet[0].Key != "Name" {
		t.Errorf("tags %+v", tags.TagSet)
	}
	n := ok[*s3.GetBucketNotificationConfigurationOutput](t)(p.GetBucketNotificationConfiguration(ctx, &s3.GetBucketNotificationConfigurationInput{Bucket: b}))
	if len(n.QueueConfigurations)+len(n.TopicConfigurations)+len(n.LambdaFunctionConfigurations) > 0 {
		t.Errorf("notifications %+v", n)
	}
}

// versioning tests aws_s3_bucket_versioning, which waits until it reads the new status.
func (p *provider) versioning(ctx context.Context) {
	p.t.Helper()
	for _, status := range []types.BucketVersioningStatus{types.BucketVersioningStatusEnabled, types.BucketVersioningStatusSuspended, types.BucketVersioningStatusEnabled} {
		ok[*s3.PutBucketVersioningOutput](p.t)(p.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: &p.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: status}}))
		if v := ok[*s3.GetBucketVersioningOutput](p.t)(p.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &p.bucket})); v.Status != status || v.MFADelete != "" {
			p.t.Errorf("versioning %+v, want %s", v, status)
		}
	}
}

// lifecycle tests aws_s3_bucket_lifecycle_configuration, which polls until it reads the rules that it set.
func (p *provider) lifecycle(ctx context.Context) {
	t := p.t
	t.Helper()
	rules := []types.LifecycleRule{
		{
			ID: aws.String("logs"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{And: &types.LifecycleRuleAndOperator{
				Prefix: aws.String("logs/"), ObjectSizeGreaterThan: aws.Int64(1), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
			}},
			Expiration: &types.LifecycleExpiration{Days: aws.Int32(30)},
		},
		{
			ID: aws.String("old"), Status: types.ExpirationStatusDisabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("")},
			NoncurrentVersionExpiration:    &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(7), NewerNoncurrentVersions: aws.Int32(2)},
			AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(3)},
		},
		{
			ID: aws.String("markers"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Tag: &types.Tag{Key: aws.String("t"), Value: aws.String("")}},
			Expiration: &types.LifecycleExpiration{Days: aws.Int32(1)},
		},
		{
			ID: aws.String("expired"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{},
			Expiration: &types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)},
		},
	}
	for n, size := range []types.TransitionDefaultMinimumObjectSize{types.TransitionDefaultMinimumObjectSizeAllStorageClasses128k, types.TransitionDefaultMinimumObjectSizeVariesByStorageClass} {
		rules := rules[n:]
		ok[*s3.PutBucketLifecycleConfigurationOutput](t)(p.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
			Bucket: &p.bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules}, TransitionDefaultMinimumObjectSize: size,
		}))
		got := ok[*s3.GetBucketLifecycleConfigurationOutput](t)(p.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &p.bucket}))
		if !reflect.DeepEqual(got.Rules, rules) || got.TransitionDefaultMinimumObjectSize != size {
			want, _ := json.Marshal(rules)
			have, _ := json.Marshal(got.Rules)
			t.Errorf("the provider would wait for ever: rules %s, %s, want %s, %s", have, got.TransitionDefaultMinimumObjectSize, want, size)
		}
	}
	ok[*s3.DeleteBucketLifecycleOutput](t)(p.DeleteBucketLifecycle(ctx, &s3.DeleteBucketLifecycleInput{Bucket: &p.bucket}))
}

// access tests aws_s3_bucket_public_access_block, _ownership_controls and _policy.
func (p *provider) access(ctx context.Context) {
	t, b := p.t, &p.bucket
	t.Helper()
	_, err := p.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: b})
	p.absent("public access block", err, "NoSuchPublicAccessBlockConfiguration")
	for _, restrict := range []bool{true, false} {
		block := &types.PublicAccessBlockConfiguration{BlockPublicAcls: aws.Bool(true), BlockPublicPolicy: aws.Bool(!restrict), IgnorePublicAcls: aws.Bool(true), RestrictPublicBuckets: &restrict}
		ok[*s3.PutPublicAccessBlockOutput](t)(p.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{Bucket: b, PublicAccessBlockConfiguration: block}))
		if got := ok[*s3.GetPublicAccessBlockOutput](t)(p.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: b})); !reflect.DeepEqual(got.PublicAccessBlockConfiguration, block) {
			t.Errorf("public access block %+v", got.PublicAccessBlockConfiguration)
		}
	}
	_, err = p.GetBucketOwnershipControls(ctx, &s3.GetBucketOwnershipControlsInput{Bucket: b})
	p.absent("ownership controls", err, "OwnershipControlsNotFoundError")
	owned := &types.OwnershipControls{Rules: []types.OwnershipControlsRule{{ObjectOwnership: types.ObjectOwnershipBucketOwnerEnforced}}}
	ok[*s3.PutBucketOwnershipControlsOutput](t)(p.PutBucketOwnershipControls(ctx, &s3.PutBucketOwnershipControlsInput{Bucket: b, OwnershipControls: owned}))
	if got := ok[*s3.GetBucketOwnershipControlsOutput](t)(p.GetBucketOwnershipControls(ctx, &s3.GetBucketOwnershipControlsInput{Bucket: b})); !reflect.DeepEqual(got.OwnershipControls, owned) {
		t.Errorf("ownership controls %+v", got.OwnershipControls)
	}
	for _, action := range []string{"s3:DeleteBucket", "s3:PutBucketTagging"} {
		document := `{"Version":"2012-10-17","Statement":[{"Sid":"tls","Effect":"Deny","Principal":"*","Action":"` + action + `","Resource":"arn:aws:s3:::` + p.bucket + `","Condition":{"NumericLessThan":{"s3:signatureAge":"0"}}}]}`
		ok[*s3.PutBucketPolicyOutput](t)(p.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: b, Policy: &document}))
		if got := ok[*s3.GetBucketPolicyOutput](t)(p.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: b})); *got.Policy != document {
			t.Errorf("policy %s", *got.Policy)
		}
	}
	ok[*s3.DeleteBucketPolicyOutput](t)(p.DeleteBucketPolicy(ctx, &s3.DeleteBucketPolicyInput{Bucket: b}))
	ok[*s3.DeleteBucketOwnershipControlsOutput](t)(p.DeleteBucketOwnershipControls(ctx, &s3.DeleteBucketOwnershipControlsInput{Bucket: b}))
	ok[*s3.DeletePublicAccessBlockOutput](t)(p.DeletePublicAccessBlock(ctx, &s3.DeletePublicAccessBlockInput{Bucket: b}))
}

func (p *provider) cors(ctx context.Context) {
	t, b := p.t, &p.bucket
	t.Helper()
	rules := []types.CORSRule{
		{ID: aws.String("app"), AllowedHeaders: []string{"*"}, AllowedMethods: []string{"PUT", "POST"}, AllowedOrigins: []string{"https://app.example.org"}, ExposeHeaders: []string{"ETag"}, MaxAgeSeconds: aws.Int32(3000)},
		{AllowedMethods: []string{"GET"}, AllowedOrigins: []string{"*"}},
	}
	for ; len(rules) > 0; rules = rules[1:] {
		ok[*s3.PutBucketCorsOutput](t)(p.PutBucketCors(ctx, &s3.PutBucketCorsInput{Bucket: b, CORSConfiguration: &types.CORSConfiguration{CORSRules: rules}}))
		if got := ok[*s3.GetBucketCorsOutput](t)(p.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: b})); !reflect.DeepEqual(got.CORSRules, rules) {
			t.Errorf("CORS rules %+v", got.CORSRules)
		}
	}
	ok[*s3.DeleteBucketCorsOutput](t)(p.DeleteBucketCors(ctx, &s3.DeleteBucketCorsInput{Bucket: b}))
}

// objects tests aws_s3_object: written with tags, refreshed with HEAD and its tags, changed, and deleted.
func (p *provider) objects(ctx context.Context) {
	t, b, key := p.t, &p.bucket, aws.String("folder/object")
	t.Helper()
	for _, body := range []string{"one", "two"} {
		put := ok[*s3.PutObjectOutput](t)(p.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: key, Body: strings.NewReader(body), ContentType: aws.String("text/plain"), Tagging: aws.String("Name=" + body)}))
		head := ok[*s3.HeadObjectOutput](t)(p.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: key, ChecksumMode: types.ChecksumModeEnabled}))
		if *head.ETag != *put.ETag || *head.VersionId != *put.VersionId || *head.ContentType != "text/plain" {
			t.Errorf("HEAD %+v, PUT %+v", head, put)
		}
		tags := ok[*s3.GetObjectTaggingOutput](t)(p.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: b, Key: key}))
		if len(tags.TagSet) != 1 || *tags.TagSet[0].Value != body {
			t.Errorf("tags %+v", tags.TagSet)
		}
	}
	ok[*s3.DeleteObjectOutput](t)(p.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: aws.String("other")}))
}

func (p *provider) forceDestroy(ctx context.Context) {
	p.t.Helper()
	_, err := p.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &p.bucket})
	p.absent("empty bucket", err, "BucketNotEmpty")
	if all := p.versionsOf(ctx, p.t, p.bucket, ""); len(all) != 3 {
		p.t.Errorf("versions %+v", all)
	}
	p.purgeVersions(ctx, p.t, p.bucket)
}
