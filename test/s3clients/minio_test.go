package s3clients

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
	"github.com/minio/minio-go/v7/pkg/notification"
	"github.com/minio/minio-go/v7/pkg/replication"
	"github.com/minio/minio-go/v7/pkg/tags"
)

// minIO is MinIO's SDK for Go, which mc and kopia use, with a bucket.
type minIO struct {
	*minio.Client
	t      *testing.T
	bucket string
}

// newMinIO returns a client; trailers sends checksums in trailers, like mc --checksum.
func newMinIO(c *client, bucket string, trailers bool) minIO {
	c.t.Helper()
	m, err := minio.New(strings.TrimPrefix(c.s3.URL, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(c.s3.AccessKeyID, c.s3.Secret, ""), TrailingHeaders: trailers, MaxRetries: 1,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return minIO{m, c.t, bucket}
}

func (m minIO) done(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m minIO) refused(what string, err error, code string) {
	m.t.Helper()
	if got := minio.ToErrorResponse(err).Code; err == nil || got != code {
		m.t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func (m minIO) put(ctx context.Context, key, body string, o minio.PutObjectOptions) minio.UploadInfo {
	m.t.Helper()
	return ok[minio.UploadInfo](m.t)(m.PutObject(ctx, m.bucket, key, strings.NewReader(body), int64(len(body)), o))
}

func (m minIO) get(ctx context.Context, key, version string) string {
	m.t.Helper()
	o := ok[*minio.Object](m.t)(m.GetObject(ctx, m.bucket, key, minio.GetObjectOptions{VersionID: version}))
	defer o.Close()
	return string(ok[[]byte](m.t)(io.ReadAll(o)))
}

func (m minIO) list(ctx context.Context, prefix string, versions bool) (all []minio.ObjectInfo) {
	m.t.Helper()
	for o := range m.ListObjectsIter(ctx, m.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, WithVersions: versions, WithMetadata: true, MaxKeys: 2}) {
		m.done(o.Err)
		all = append(all, o)
	}
	return all
}

func (m minIO) remove(ctx context.Context, all []minio.ObjectInfo, bypass bool) (refused int) {
	m.t.Helper()
	results, err := m.RemoveObjectsWithIter(ctx, m.bucket, slices.Values(all), minio.RemoveObjectsOptions{GovernanceBypass: bypass})
	m.done(err)
	for r := range results {
		if r.Err != nil {
			m.refused("DeleteObjects", r.Err, "AccessDenied")
			refused++
		}
	}
	return refused
}

// empty deletes all versions, none of which is locked any more, and the bucket.
func (m minIO) empty(ctx context.Context) {
	m.t.Helper()
	if m.remove(ctx, m.list(ctx, "", true), true) > 0 {
		m.t.Fatalf("locked versions are left: %+v", m.list(ctx, "", true))
	}
	m.done(m.RemoveBucketWithOptions(ctx, m.bucket, minio.RemoveBucketOptions{ForceDelete: true}))
}

func minIOSDK(c *client) {
	ctx, m := c.t.Context(), newMinIO(c, c.bucket, true)
	m.done(m.MakeBucket(ctx, m.bucket, minio.MakeBucketOptions{}))
	m.files(ctx, c)
	m.settings(ctx)
	m.notifications(ctx, c)
	m.versions(ctx)
	m.empty(ctx)
	c.absent()
}

func minIOLocks(c *client) {
	ctx, m := c.t.Context(), newMinIO(c, c.bucket, false)
	m.done(m.MakeBucket(ctx, m.bucket, minio.MakeBucketOptions{ObjectLocking: true}))
	m.locks(ctx)
	c.node.pass(c.t, 2*lockTime)
	m.empty(ctx)
	c.absent()
}

// files tests mc cp, ls, stat, cat, share and mv.
func (m minIO) files(ctx context.Context, c *client) {
	t, day := m.t, tree(m.t, c.path("day"))
	t.Helper()
	for name, text := range day {
		o := minio.PutObjectOptions{PartSize: 5 << 20, UserMetadata: map[string]string{"author": "me"}, UserTags: map[string]string{"kind": "file"}}
		ok[minio.UploadInfo](t)(m.FPutObject(ctx, m.bucket, "day"+name, c.path("day", name), o))
		if m.get(ctx, "day"+name, "") != string(text) {
			t.Errorf("%s is another one", name)
		}
	}
	if all := m.list(ctx, "day/", false); len(all) != len(day) {
		t.Errorf("objects %+v", all)
	}
	// A stream with unknown length.
	piped := ok[minio.UploadInfo](t)(m.PutObject(ctx, m.bucket, "piped", io.MultiReader(bytes.NewReader(day["/"+big])), -1, minio.PutObjectOptions{PartSize: 5 << 20}))
	if info := ok[minio.ObjectInfo](t)(m.StatObject(ctx, m.bucket, "piped", minio.StatObjectOptions{Checksum: true})); info.Size != bigSize || info.ETag != piped.ETag || !strings.HasSuffix(info.ETag, "-4") || info.ChecksumCRC32C == "" {
		t.Errorf("%+v", info)
	}
	src := minio.CopySrcOptions{Bucket: m.bucket, Object: "day/" + big}
	ok[minio.UploadInfo](t)(m.CopyObject(ctx, minio.CopyDestOptions{Bucket: m.bucket, Object: "copy"}, src))
	ok[minio.UploadInfo](t)(m.ComposeObject(ctx, minio.CopyDestOptions{Bucket: m.bucket, Object: "both"}, src, minio.CopySrcOptions{Bucket: m.bucket, Object: "day/note.txt"}))
	if m.get(ctx, "copy", "") != string(day["/"+big]) || m.get(ctx, "both", "") != string(day["/"+big])+string(day["/note.txt"]) {
		t.Error("a copy is another one")
	}
	attributes := ok[*minio.ObjectAttributes](t)(m.GetObjectAttributes(ctx, m.bucket, "piped", minio.ObjectAttributesOptions{}))
	if attributes.ObjectSize != bigSize || attributes.ObjectParts.PartsCount != 4 {
		t.Errorf("%+v", attributes)
	}
	c.is("note.txt", c.fetch(ok[*url.URL](t)(m.PresignedGetObject(ctx, m.bucket, "day/note.txt", time.Minute, nil)).String()))
	m.done(m.RemoveObject(ctx, m.bucket, "both", minio.RemoveObjectOptions{}))
	_, err := m.StatObject(ctx, m.bucket, "both", minio.StatObjectOptions{})
	m.refused("a deleted object", err, "NoSuchKey")
}

// settings tests mc tag, anonymous and ilm, and mc stat for a bucket without settings.
func (m minIO) settings(ctx context.Context) {
	t := m.t
	t.Helper()
	if v := ok[minio.BucketVersioningConfiguration](t)(m.GetBucketVersioning(ctx, m.bucket)); v.Status != "" {
		t.Errorf("versioning %+v", v)
	}
	mode, _, _, err := m.GetBucketObjectLockConfig(ctx, m.bucket)
	if m.refused("object lock", err, "ObjectLockConfigurationNotFoundError"); mode != nil {
		t.Errorf("default retention %v", *mode)
	}
	_, err = m.GetBucketEncryption(ctx, m.bucket)
	m.refused("encryption", err, "ServerSideEncryptionConfigurationNotFoundError")
	ok[replication.Config](t)(m.GetBucketReplication(ctx, m.bucket)) // the SDK returns an empty configuration instead of the error
	_, err = m.GetBucketTagging(ctx, m.bucket)
	m.refused("tags", err, "NoSuchTagSet")
	set := ok[*tags.Tags](t)(tags.NewTags(map[string]string{"team": "a b"}, false))
	m.done(m.SetBucketTagging(ctx, m.bucket, set))
	m.done(m.PutObjectTagging(ctx, m.bucket, "day/note.txt", set, minio.PutObjectTaggingOptions{}))
	for _, got := range []*tags.Tags{
		ok[*tags.Tags](t)(m.GetBucketTagging(ctx, m.bucket)),
		ok[*tags.Tags](t)(m.GetObjectTagging(ctx, m.bucket, "day/note.txt", minio.GetObjectTaggingOptions{})),
	} {
		if !reflect.DeepEqual(got.ToMap(), set.ToMap()) {
			t.Errorf("tags %v", got)
		}
	}

	if p := ok[string](t)(m.GetBucketPolicy(ctx, m.bucket)); p != "" {
		t.Errorf("policy %s", p)
	}
	// Written by mc anonymous set download.
	p := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetBucketLocation","s3:ListBucket"],"Resource":["arn:aws:s3:::` + m.bucket +
		`"],"Condition":{"StringEquals":{"s3:prefix":["public/"]}}},{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::` + m.bucket + `/public/*"]}]}`
	m.done(m.SetBucketPolicy(ctx, m.bucket, p))
	if got := ok[string](t)(m.GetBucketPolicy(ctx, m.bucket)); got != p {
		t.Errorf("policy %s", got)
	}
	m.done(m.SetBucketPolicy(ctx, m.bucket, ""))

	rules := &lifecycle.Configuration{Rules: []lifecycle.Rule{
		{ID: "logs", Status: "Enabled", RuleFilter: lifecycle.Filter{Prefix: "logs/"}, Expiration: lifecycle.Expiration{Days: 30}},
		{
			ID: "old", Status: "Enabled", RuleFilter: lifecycle.Filter{And: lifecycle.And{Prefix: "old/", Tags: []lifecycle.Tag{{Key: "a", Value: "b"}}}},
			NoncurrentVersionExpiration: lifecycle.NoncurrentVersionExpiration{NoncurrentDays: 3, NewerNoncurrentVersions: 2},
		},
		{ID: "markers", Status: "Enabled", Expiration: lifecycle.Expiration{DeleteMarker: true}},
	}}
	m.done(m.SetBucketLifecycle(ctx, m.bucket, rules))
	got := ok[*lifecycle.Configuration](t)(m.GetBucketLifecycle(ctx, m.bucket))
	if len(got.Rules) != 3 || got.Rules[0].Expiration.Days != 30 || got.Rules[1].RuleFilter.And.Prefix != "old/" || got.Rules[1].NoncurrentVersionExpiration.NewerNoncurrentVersions != 2 || !bool(got.Rules[2].Expiration.DeleteMarker) {
		t.Errorf("lifecycle rules %+v", got.Rules)
	}
	if info := m.put(ctx, "logs/a", "a", minio.PutObjectOptions{}); info.ExpirationRuleID != "logs" {
		t.Errorf("the rule of a PUT: %+v", info)
	}
	m.done(m.SetBucketLifecycle(ctx, m.bucket, lifecycle.NewConfiguration()))
	_, err = m.GetBucketLifecycle(ctx, m.bucket)
	m.refused("lifecycle rules", err, "NoSuchLifecycleConfiguration")
}

// notifications tests mc event add, ls and rm.
func (m minIO) notifications(ctx context.Context, c *client) {
	t := m.t
	t.Helper()
	config := ok[notification.Configuration](t)(m.GetBucketNotification(ctx, m.bucket))
	arn := ok[notification.Arn](t)(notification.NewArnFromString(minIOHookARN))
	rule := notification.NewConfig(arn)
	rule.AddEvents(notification.ObjectCreatedAll, notification.ObjectRemovedAll)
	rule.AddFilterPrefix("seen/")
	rule.AddFilterSuffix(".txt")
	if !config.AddQueue(rule) {
		t.Error("the rule exists already")
	}
	m.done(m.SetBucketNotification(ctx, m.bucket, config))
	config = ok[notification.Configuration](t)(m.GetBucketNotification(ctx, m.bucket))
	if len(config.QueueConfigs) != 1 || config.QueueConfigs[0].Queue != minIOHookARN ||
		!config.QueueConfigs[0].Equal([]notification.EventType{notification.ObjectCreatedAll, notification.ObjectRemovedAll}, "seen/", ".txt") {
		t.Errorf("notifications %+v", config)
	}
	m.put(ctx, "seen/a b.txt", "a", minio.PutObjectOptions{})
	c.await("ObjectCreated:Put", "seen/a b.txt")
	m.done(m.RemoveObject(ctx, m.bucket, "seen/a b.txt", minio.RemoveObjectOptions{}))
	c.await("ObjectRemoved:Delete", "seen/a b.txt")
	rule = notification.NewConfig(ok[notification.Arn](t)(notification.NewArnFromString("arn:minio:sqs::nobody:webhook")))
	rule.AddEvents(notification.ObjectCreatedPut)
	other := notification.Configuration{}
	other.AddQueue(rule)
	m.refused("an unknown destination", m.SetBucketNotification(ctx, m.bucket, other), "InvalidArgument")
	config.RemoveQueueByArn(arn)
	m.done(m.SetBucketNotification(ctx, m.bucket, config))
	if config = ok[notification.Configuration](t)(m.GetBucketNotification(ctx, m.bucket)); len(config.QueueConfigs) > 0 {
		t.Errorf("notifications %+v", config)
	}
}

// versions tests mc version, ls --versions, undo and rm --versions.
func (m minIO) versions(ctx context.Context) {
	t := m.t
	t.Helper()
	m.put(ctx, "v/key", "null", minio.PutObjectOptions{})
	m.done(m.EnableVersioning(ctx, m.bucket))
	first := m.put(ctx, "v/key", "first", minio.PutObjectOptions{UserMetadata: map[string]string{"n": "1"}})
	second := m.put(ctx, "v/key", "second", minio.PutObjectOptions{})
	m.done(m.RemoveObject(ctx, m.bucket, "v/key", minio.RemoveObjectOptions{}))
	_, err := m.StatObject(ctx, m.bucket, "v/key", minio.StatObjectOptions{})
	if r := minio.ToErrorResponse(err); r.Code != "NoSuchKey" && r.Code != "MethodNotAllowed" {
		t.Errorf("below a delete marker: %+v", r)
	}
	all := m.list(ctx, "v/", true)
	if len(all) != 4 || !all[0].IsDeleteMarker || !all[0].IsLatest || all[1].VersionID != second.VersionID || all[2].VersionID != first.VersionID || all[3].VersionID != "null" || all[3].Size != 4 {
		t.Fatalf("versions %+v", all)
	}
	if m.get(ctx, "v/key", first.VersionID) != "first" || m.get(ctx, "v/key", "null") != "null" {
		t.Error("another version")
	}
	if info := ok[minio.ObjectInfo](t)(m.StatObject(ctx, m.bucket, "v/key", minio.StatObjectOptions{VersionID: first.VersionID})); info.UserMetadata["N"] != "1" || info.VersionID != first.VersionID {
		t.Errorf("%+v", info)
	}
	copied := ok[minio.UploadInfo](t)(m.CopyObject(ctx, minio.CopyDestOptions{Bucket: m.bucket, Object: "v/restored"}, minio.CopySrcOptions{Bucket: m.bucket, Object: "v/key", VersionID: first.VersionID}))
	if copied.VersionID == "" || m.get(ctx, "v/restored", "") != "first" {
		t.Errorf("copy of a version: %+v", copied)
	}
	m.done(m.RemoveObject(ctx, m.bucket, "v/key", minio.RemoveObjectOptions{VersionID: all[0].VersionID}))
	if m.get(ctx, "v/key", "") != "second" {
		t.Error("the deletion was not undone")
	}
	m.done(m.SuspendVersioning(ctx, m.bucket))
	if v := ok[minio.BucketVersioningConfiguration](t)(m.GetBucketVersioning(ctx, m.bucket)); v.Status != "Suspended" {
		t.Errorf("versioning %+v", v)
	}
	m.put(ctx, "v/key", "null again", minio.PutObjectOptions{})
	if all = m.list(ctx, "v/key", true); len(all) != 3 || all[0].VersionID != "null" || m.get(ctx, "v/key", "null") != "null again" {
		t.Errorf("versions of a suspended bucket %+v", all)
	}
}

// locks tests mc retention and legalhold.
func (m minIO) locks(ctx context.Context) {
	t := m.t
	t.Helper()
	if state, mode, _, _, err := m.GetObjectLockConfig(ctx, m.bucket); err != nil || state != "Enabled" || mode != nil {
		t.Errorf("object lock %s, %v, %v", state, mode, err)
	}
	governance, compliance, days, one := minio.Governance, minio.Compliance, minio.Days, uint(1)
	m.done(m.SetObjectLockConfig(ctx, m.bucket, &governance, &one, &days))
	if mode, n, unit, err := m.GetBucketObjectLockConfig(ctx, m.bucket); err != nil || *mode != governance || *n != 1 || *unit != days {
		t.Errorf("default retention %v %v %v %v", mode, n, unit, err)
	}
	kept := m.put(ctx, "kept", "kept", minio.PutObjectOptions{})
	mode, until, err := m.GetObjectRetention(ctx, m.bucket, "kept", kept.VersionID)
	if m.done(err); *mode != governance || time.Until(*until) < 23*time.Hour || time.Until(*until) > 25*time.Hour {
		t.Errorf("retention %v until %v", *mode, until)
	}
	this := minio.RemoveObjectOptions{VersionID: kept.VersionID}
	m.refused("delete under governance", m.RemoveObject(ctx, m.bucket, "kept", this), "AccessDenied")
	later := time.Now().Add(48 * time.Hour).UTC()
	m.done(m.PutObjectRetention(ctx, m.bucket, "kept", minio.PutObjectRetentionOptions{VersionID: kept.VersionID, Mode: &governance, RetainUntilDate: &later}))
	m.refused("remove a retention", m.PutObjectRetention(ctx, m.bucket, "kept", minio.PutObjectRetentionOptions{VersionID: kept.VersionID}), "AccessDenied")
	m.done(m.PutObjectRetention(ctx, m.bucket, "kept", minio.PutObjectRetentionOptions{VersionID: kept.VersionID, GovernanceBypass: true}))
	on, off := minio.LegalHoldEnabled, minio.LegalHoldDisabled
	m.done(m.PutObjectLegalHold(ctx, m.bucket, "kept", minio.PutObjectLegalHoldOptions{VersionID: kept.VersionID, Status: &on}))
	if state := ok[*minio.LegalHoldStatus](t)(m.GetObjectLegalHold(ctx, m.bucket, "kept", minio.GetObjectLegalHoldOptions{VersionID: kept.VersionID})); *state != on {
		t.Errorf("legal hold %v", *state)
	}
	this.GovernanceBypass = true
	m.refused("delete under a legal hold", m.RemoveObject(ctx, m.bucket, "kept", this), "AccessDenied")
	m.done(m.PutObjectLegalHold(ctx, m.bucket, "kept", minio.PutObjectLegalHoldOptions{VersionID: kept.VersionID, Status: &off}))
	m.done(m.RemoveObject(ctx, m.bucket, "kept", this))

	soon := time.Now().Add(lockTime).UTC()
	strict := m.put(ctx, "strict", "strict", minio.PutObjectOptions{Mode: compliance, RetainUntilDate: soon, LegalHold: on, SendContentMd5: true})
	info := ok[minio.ObjectInfo](t)(m.StatObject(ctx, m.bucket, "strict", minio.StatObjectOptions{}))
	if info.Metadata.Get("x-amz-object-lock-mode") != "COMPLIANCE" || info.Metadata.Get("x-amz-object-lock-legal-hold") != "ON" || info.Metadata.Get("x-amz-object-lock-retain-until-date") == "" {
		t.Errorf("%+v", info.Metadata)
	}
	longer, shorter := soon.Add(time.Minute), soon.Add(-time.Minute)
	m.done(m.PutObjectRetention(ctx, m.bucket, "strict", minio.PutObjectRetentionOptions{VersionID: strict.VersionID, Mode: &compliance, RetainUntilDate: &longer}))
	m.refused("shorten compliance", m.PutObjectRetention(ctx, m.bucket, "strict", minio.PutObjectRetentionOptions{VersionID: strict.VersionID, Mode: &compliance, RetainUntilDate: &shorter, GovernanceBypass: true}), "AccessDenied")
	m.done(m.PutObjectLegalHold(ctx, m.bucket, "strict", minio.PutObjectLegalHoldOptions{VersionID: strict.VersionID, Status: &off}))
	if n := m.remove(ctx, m.list(ctx, "strict", true), true); n != 1 {
		t.Errorf("%d versions under compliance were not deleted, want 1", n)
	}
	m.done(m.RemoveObject(ctx, m.bucket, "strict", minio.RemoveObjectOptions{}))
	if all := m.list(ctx, "strict", true); len(all) != 2 || !all[0].IsDeleteMarker {
		t.Errorf("versions %+v", all)
	}
	m.refused("suspend versions of a locked bucket", m.SuspendVersioning(ctx, m.bucket), "InvalidBucketState")
}
