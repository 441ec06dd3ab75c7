package s3clients

import (
	"cmp"
	"holdfast/test/binary"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func (p *probe) setVersioning(bucket string, status types.BucketVersioningStatus) error {
	_, err := p.PutBucketVersioning(p.ctx, &s3.PutBucketVersioningInput{Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: status}})
	if err != nil {
		return err
	}
	got, err := p.GetBucketVersioning(p.ctx, &s3.GetBucketVersioningInput{Bucket: &bucket})
	if err != nil {
		return err
	}
	return equal(got.Status, status)
}

var versionFeatures = []feature{
	{"versions, delete markers and their list", func(p *probe) error {
		b, err := p.filled()
		enabled := p.setVersioning(b, types.BucketVersioningStatusEnabled)
		first, firstErr := p.put(b, "key", "first")
		_, secondErr := p.put(b, "key", "second")
		_, removeErr := p.DeleteObject(p.ctx, &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("key")})
		l, listErr := p.ListObjectVersions(p.ctx, &s3.ListObjectVersionsInput{Bucket: &b})
		if err := cmp.Or(err, enabled, firstErr, secondErr, removeErr, listErr); err != nil {
			return err
		}
		return cmp.Or(equal(len(l.Versions), 3), equal(len(l.DeleteMarkers), 1), p.has(b, "key", aws.ToString(first.VersionId), "first"), p.has(b, "key", "null", "hello"))
	}},
	{"suspended versions", func(p *probe) error {
		b, err := p.fresh(false)
		enabled := p.setVersioning(b, types.BucketVersioningStatusEnabled)
		_, firstErr := p.put(b, "key", "first")
		suspended := p.setVersioning(b, types.BucketVersioningStatusSuspended)
		_, secondErr := p.put(b, "key", "second")
		_, thirdErr := p.put(b, "key", "third")
		l, listErr := p.ListObjectVersions(p.ctx, &s3.ListObjectVersionsInput{Bucket: &b})
		if err := cmp.Or(err, enabled, firstErr, suspended, secondErr, thirdErr, listErr); err != nil {
			return err
		}
		return cmp.Or(equal(len(l.Versions), 2), p.has(b, "key", "null", "third"))
	}},
}

func (p *probe) locked(lock func(*s3.PutObjectInput)) (bucket, version string, err error) {
	bucket, err = p.fresh(true)
	out, failed := p.put(bucket, "key", "hello", lock)
	return bucket, aws.ToString(out.VersionId), cmp.Or(err, failed)
}

func (p *probe) remove(bucket, version string, bypass bool) error {
	_, err := p.DeleteObject(p.ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("key"), VersionId: &version, BypassGovernanceRetention: &bypass})
	return err
}

func retention(mode types.ObjectLockMode) func(*s3.PutObjectInput) {
	return func(in *s3.PutObjectInput) {
		in.ObjectLockMode, in.ObjectLockRetainUntilDate = mode, aws.Time(time.Now().Add(time.Hour))
	}
}

var lockedCodes = []string{"AccessDenied", "InvalidRequest", "ObjectLocked"}

var lockFeatures = []feature{
	{"object lock: governance and its bypass", func(p *probe) error {
		b, version, err := p.locked(retention(types.ObjectLockModeGovernance))
		return cmp.Or(err, refused(p.remove(b, version, false), lockedCodes...), p.remove(b, version, true))
	}},
	{"object lock: compliance", func(p *probe) error {
		b, version, err := p.locked(retention(types.ObjectLockModeCompliance))
		return cmp.Or(err, refused(p.remove(b, version, true), lockedCodes...))
	}},
	{"object lock: legal hold", func(p *probe) error {
		b, version, err := p.locked(func(in *s3.PutObjectInput) { in.ObjectLockLegalHoldStatus = types.ObjectLockLegalHoldStatusOn })
		return cmp.Or(err, refused(p.remove(b, version, true), lockedCodes...))
	}},
	{"object lock: default retention of a bucket", func(p *probe) error {
		b, err := p.fresh(true)
		_, putErr := p.PutObjectLockConfiguration(p.ctx, &s3.PutObjectLockConfigurationInput{
			Bucket: &b, ObjectLockConfiguration: lockDefault(&types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(1)}),
		})
		out, objectErr := p.put(b, "key", "hello")
		return cmp.Or(err, putErr, objectErr, refused(p.remove(b, aws.ToString(out.VersionId), false), lockedCodes...))
	}},
	{"object lock for an existing bucket with versions", func(p *probe) error {
		b, err := p.fresh(false)
		enabled := p.setVersioning(b, types.BucketVersioningStatusEnabled)
		_, putErr := p.PutObjectLockConfiguration(p.ctx, &s3.PutObjectLockConfigurationInput{Bucket: &b, ObjectLockConfiguration: lockDefault(nil)})
		return cmp.Or(err, enabled, putErr)
	}},
}

func (p *probe) anonymous(target string, status int) error {
	r, err := http.Get(p.url + target)
	if err != nil {
		return err
	}
	r.Body.Close()
	return equal(r.StatusCode, status)
}

func (p *probe) policy(bucket, statement string) error {
	document := `{"Version":"2012-10-17","Statement":[{` + strings.ReplaceAll(statement, "BUCKET", "arn:aws:s3:::"+bucket) + `}]}`
	_, err := p.PutBucketPolicy(p.ctx, &s3.PutBucketPolicyInput{Bucket: &bucket, Policy: &document})
	return err
}

const everybodyReads = `"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"BUCKET/*"`

func (p *probe) lifecycle(bucket string, rule types.LifecycleRule) error {
	rule.ID, rule.Status = aws.String("rule"), types.ExpirationStatusEnabled
	if rule.Filter == nil {
		rule.Filter = &types.LifecycleRuleFilter{Prefix: aws.String("")}
	}
	_, err := p.PutBucketLifecycleConfiguration(p.ctx, &s3.PutBucketLifecycleConfigurationInput{Bucket: &bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{rule}}})
	if err != nil {
		return err
	}
	_, err = p.GetBucketLifecycleConfiguration(p.ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &bucket})
	return err
}

var bucketFeatures = []feature{
	{"bucket policy: everybody reads", func(p *probe) error {
		b, err := p.filled()
		return cmp.Or(err, p.policy(b, everybodyReads), p.anonymous("/"+b+"/key", http.StatusOK), p.anonymous("/"+b, http.StatusForbidden))
	}},
	{"bucket policy: condition on the source address", func(p *probe) error {
		b, err := p.filled()
		return cmp.Or(err, p.policy(b, everybodyReads+`,"Condition":{"IpAddress":{"aws:SourceIp":"192.0.2.0/24"}}`), p.anonymous("/"+b+"/key", http.StatusForbidden),
			p.policy(b, everybodyReads+`,"Condition":{"IpAddress":{"aws:SourceIp":"127.0.0.0/8"}}`), p.anonymous("/"+b+"/key", http.StatusOK))
	}},
	{"bucket policy: condition on tags of the object", func(p *probe) error {
		b, err := p.filled()
		_, failed := p.put(b, "tagged", "hello", func(in *s3.PutObjectInput) { in.Tagging = aws.String("public=yes") })
		return cmp.Or(err, failed, p.policy(b, everybodyReads+`,"Condition":{"StringEquals":{"s3:ExistingObjectTag/public":"yes"}}`),
			p.anonymous("/"+b+"/key", http.StatusForbidden), p.anonymous("/"+b+"/tagged", http.StatusOK))
	}},
	{"bucket policy: `NotAction`", func(p *probe) error {
		b, err := p.filled()
		return cmp.Or(err, p.policy(b, `"Effect":"Allow","Principal":"*","NotAction":"s3:PutObject","Resource":"BUCKET/*"`), p.anonymous("/"+b+"/key", http.StatusOK))
	}},
	{"bucket policy with an unknown condition is refused", func(p *probe) error {
		b, err := p.filled()
		return cmp.Or(err, refused(p.policy(b, everybodyReads+`,"Condition":{"StringEquals":{"s3:unknown":"x"}}`), "MalformedPolicy"))
	}},
	{"public access block", func(p *probe) error {
		b, err := p.filled()
		_, failed := p.PutPublicAccessBlock(p.ctx, &s3.PutPublicAccessBlockInput{Bucket: &b, PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{BlockPublicPolicy: aws.Bool(true)}})
		return cmp.Or(err, failed, refused(p.policy(b, everybodyReads), "AccessDenied"))
	}},
	{"ownership controls: `BucketOwnerEnforced`", func(p *probe) error { return p.ownership(types.ObjectOwnershipBucketOwnerEnforced) }},
	{"ownership controls: `ObjectWriter`", func(p *probe) error { return p.ownership(types.ObjectOwnershipObjectWriter) }},
	{"canned ACL `public-read` of a bucket", func(p *probe) error {
		b, err := p.filled()
		_, _ = p.PutBucketOwnershipControls(p.ctx, &s3.PutBucketOwnershipControlsInput{Bucket: &b, OwnershipControls: owned(types.ObjectOwnershipBucketOwnerPreferred)}) // required by versitygw
		_, failed := p.PutBucketAcl(p.ctx, &s3.PutBucketAclInput{Bucket: &b, ACL: types.BucketCannedACLPublicRead})
		return cmp.Or(err, failed, p.anonymous("/"+b, http.StatusOK))
	}},
	{"CORS of a bucket", func(p *probe) error {
		b, err := p.filled()
		rules := []types.CORSRule{{AllowedMethods: []string{"GET"}, AllowedOrigins: []string{"https://app.example.org"}}}
		_, failed := p.PutBucketCors(p.ctx, &s3.PutBucketCorsInput{Bucket: &b, CORSConfiguration: &types.CORSConfiguration{CORSRules: rules}})
		return cmp.Or(err, failed)
	}},
	{"tags of buckets", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.PutBucketTagging(p.ctx, &s3.PutBucketTaggingInput{Bucket: &b, Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}})
		_, getErr := p.GetBucketTagging(p.ctx, &s3.GetBucketTaggingInput{Bucket: &b})
		return cmp.Or(err, failed, getErr)
	}},
	{"lifecycle: expiration, with `x-amz-expiration`", func(p *probe) error {
		b, err := p.fresh(false)
		set := p.lifecycle(b, types.LifecycleRule{Expiration: &types.LifecycleExpiration{Days: aws.Int32(3)}})
		_, putErr := p.put(b, "key", "hello")
		head, headErr := p.HeadObject(p.ctx, &s3.HeadObjectInput{Bucket: &b, Key: aws.String("key")})
		if err := cmp.Or(err, set, putErr, headErr); err != nil {
			return err
		}
		return equal(head.Expiration != nil, true)
	}},
	{"lifecycle: noncurrent versions", func(p *probe) error {
		b, err := p.fresh(false)
		return cmp.Or(err, p.setVersioning(b, types.BucketVersioningStatusEnabled),
			p.lifecycle(b, types.LifecycleRule{NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(3), NewerNoncurrentVersions: aws.Int32(2)}}))
	}},
	{"lifecycle: abort of incomplete uploads", func(p *probe) error {
		b, err := p.fresh(false)
		return cmp.Or(err, p.lifecycle(b, types.LifecycleRule{AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(3)}}))
	}},
	{"notifications set by the owner of a bucket", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.PutBucketNotificationConfiguration(p.ctx, &s3.PutBucketNotificationConfigurationInput{Bucket: &b, NotificationConfiguration: &types.NotificationConfiguration{
			QueueConfigurations: []types.QueueConfiguration{{QueueArn: aws.String(minIOHookARN), Events: []types.Event{"s3:ObjectCreated:*"}}},
		}})
		_, putErr := p.put(b, "key", "hello")
		if err := cmp.Or(err, failed, putErr); err != nil {
			return err
		}
		return p.awaitEvent(b, "key", binary.Bound)
	}},
	{"notifications of all buckets, set by the operator", func(p *probe) error {
		b, err := p.filled()
		return cmp.Or(err, p.awaitEvent(b, "key", 2*time.Second))
	}},
	{"website of a bucket", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.PutBucketWebsite(p.ctx, &s3.PutBucketWebsiteInput{Bucket: &b, WebsiteConfiguration: &types.WebsiteConfiguration{IndexDocument: &types.IndexDocument{Suffix: aws.String("index.html")}}})
		return cmp.Or(err, failed)
	}},
	{"default encryption of a bucket", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.PutBucketEncryption(p.ctx, &s3.PutBucketEncryptionInput{Bucket: &b, ServerSideEncryptionConfiguration: &types.ServerSideEncryptionConfiguration{
			Rules: []types.ServerSideEncryptionRule{{ApplyServerSideEncryptionByDefault: &types.ServerSideEncryptionByDefault{SSEAlgorithm: types.ServerSideEncryptionAes256}}},
		}})
		return cmp.Or(err, failed)
	}},
}

func owned(by types.ObjectOwnership) *types.OwnershipControls {
	return &types.OwnershipControls{Rules: []types.OwnershipControlsRule{{ObjectOwnership: by}}}
}

func (p *probe) ownership(by types.ObjectOwnership) error {
	b, err := p.fresh(false)
	_, putErr := p.PutBucketOwnershipControls(p.ctx, &s3.PutBucketOwnershipControlsInput{Bucket: &b, OwnershipControls: owned(by)})
	_, getErr := p.GetBucketOwnershipControls(p.ctx, &s3.GetBucketOwnershipControlsInput{Bucket: &b})
	return cmp.Or(err, putErr, getErr)
}
