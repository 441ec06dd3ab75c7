package s3clients

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"holdfast/internal/workload/buckets"
)

type sdk struct{ *s3.Client }

func newSDK(to *buckets.Client) sdk {
	return sdk{s3.New(s3.Options{
		BaseEndpoint: aws.String(to.URL), Region: to.Region, UsePathStyle: true,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: to.AccessKeyID, SecretAccessKey: to.Secret}, nil
		}),
	})}
}

// ok returns a function that fails the test on an error and returns the result.
func ok[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (s sdk) create(ctx context.Context, t *testing.T, bucket string) {
	t.Helper()
	ok[*s3.CreateBucketOutput](t)(s.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket}))
}

func (s sdk) put(ctx context.Context, t *testing.T, bucket, key string, body []byte) {
	t.Helper()
	ok[*s3.PutObjectOutput](t)(s.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body)}))
}

func (s sdk) get(ctx context.Context, t *testing.T, bucket, key string) []byte {
	t.Helper()
	got := ok[*s3.GetObjectOutput](t)(s.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key}))
	defer got.Body.Close()
	return ok[[]byte](t)(io.ReadAll(got.Body)) // the SDK verifies the checksum
}

func (s sdk) keys(ctx context.Context, t *testing.T, bucket, prefix string) (all []string) {
	t.Helper()
	pages := s3.NewListObjectsV2Paginator(s, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix, MaxKeys: aws.Int32(3)})
	for pages.HasMorePages() {
		for _, o := range ok[*s3.ListObjectsV2Output](t)(pages.NextPage(ctx)).Contents {
			all = append(all, *o.Key)
		}
	}
	return all
}

func (s sdk) purge(ctx context.Context, t *testing.T, bucket string) {
	t.Helper()
	for {
		page := ok[*s3.ListObjectsV2Output](t)(s.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket}))
		var list []types.ObjectIdentifier
		for _, o := range page.Contents {
			list = append(list, types.ObjectIdentifier{Key: o.Key})
		}
		if len(list) == 0 {
			break
		}
		deleted := ok[*s3.DeleteObjectsOutput](t)(s.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Objects: list}}))
		if len(deleted.Deleted) != len(list) || len(deleted.Errors) > 0 {
			t.Fatalf("%d of %d objects were deleted: %+v", len(deleted.Deleted), len(list), deleted.Errors)
		}
	}
	ok[*s3.DeleteBucketOutput](t)(s.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket}))
}

// versionsOf lists versions and delete markers in pages of two.
func (s sdk) versionsOf(ctx context.Context, t *testing.T, bucket, prefix string) (all []types.ObjectIdentifier) {
	t.Helper()
	pages := s3.NewListObjectVersionsPaginator(s.Client, &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &prefix, MaxKeys: aws.Int32(2)})
	for pages.HasMorePages() {
		page := ok[*s3.ListObjectVersionsOutput](t)(pages.NextPage(ctx))
		for _, v := range page.Versions {
			all = append(all, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, v := range page.DeleteMarkers {
			all = append(all, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
	}
	return all
}

func (s sdk) removeVersions(ctx context.Context, t *testing.T, bucket string, all []types.ObjectIdentifier) int {
	t.Helper()
	done := ok[*s3.DeleteObjectsOutput](t)(s.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, BypassGovernanceRetention: aws.Bool(true), Delete: &types.Delete{Objects: all, Quiet: aws.Bool(true)}}))
	for _, e := range done.Errors {
		if *e.Code != "AccessDenied" {
			t.Errorf("DeleteObjects: %s %s: %s", *e.Key, *e.Code, *e.Message)
		}
	}
	return len(done.Errors)
}

// purgeVersions deletes a bucket with its versions, none of which is locked any more.
func (s sdk) purgeVersions(ctx context.Context, t *testing.T, bucket string) {
	t.Helper()
	all := s.versionsOf(ctx, t, bucket, "")
	if len(all) > 0 && s.removeVersions(ctx, t, bucket, all) > 0 {
		t.Fatalf("locked versions are left: %+v", all)
	}
	ok[*s3.DeleteBucketOutput](t)(s.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket}))
}

func (s sdk) buckets(ctx context.Context, t *testing.T) (all []string) {
	t.Helper()
	for _, b := range ok[*s3.ListBucketsOutput](t)(s.ListBuckets(ctx, &s3.ListBucketsInput{})).Buckets {
		all = append(all, *b.Name)
	}
	return all
}

func goSDK(c *client) {
	t, ctx, s := c.t, c.t.Context(), newSDK(c.s3)
	s.create(ctx, t, c.bucket)
	day := tree(t, c.path("day"))
	manager := transfermanager.New(s.Client, func(o *transfermanager.Options) { o.PartSizeBytes, o.MultipartUploadThreshold = 5<<20, 6<<20 })
	for name, text := range day {
		// A reader with unknown length.
		ok[*transfermanager.UploadObjectOutput](t)(manager.UploadObject(ctx, &transfermanager.UploadObjectInput{
			Bucket: &c.bucket, Key: aws.String("day" + name), Body: io.MultiReader(bytes.NewReader(text)),
		}))
	}
	if keys := s.keys(ctx, t, c.bucket, "day/"); len(keys) != len(day) {
		t.Errorf("keys %q", keys)
	}
	for name, text := range day {
		if !bytes.Equal(s.get(ctx, t, c.bucket, "day"+name), text) {
			t.Errorf("%s is another one", name)
		}
	}
	head := ok[*s3.HeadObjectOutput](t)(s.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &c.bucket, Key: aws.String("day/" + big)}))
	if !strings.HasSuffix(*head.ETag, `-4"`) || *head.ContentLength != bigSize {
		t.Errorf("%s, %d bytes", *head.ETag, *head.ContentLength)
	}
	ok[*s3.CopyObjectOutput](t)(s.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &c.bucket, Key: aws.String("copy"), CopySource: aws.String(c.bucket + "/day/" + big)}))
	if !bytes.Equal(s.get(ctx, t, c.bucket, "copy"), day["/"+big]) {
		t.Error("the copy is another one")
	}
	_, err := s.PutObject(ctx, &s3.PutObjectInput{Bucket: &c.bucket, Key: aws.String("copy"), Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")})
	if e := interface{ ErrorCode() string }(nil); !errors.As(err, &e) || e.ErrorCode() != "PreconditionFailed" {
		t.Errorf("If-None-Match: %v", err)
	}
	links := s3.NewPresignClient(s.Client)
	link, err := links.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &c.bucket, Key: aws.String("linked")}, s3.WithPresignExpires(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, link.Method, link.URL, bytes.NewReader(day["/note.txt"]))
	if err != nil {
		t.Fatal(err)
	}
	answer := ok[*http.Response](t)(http.DefaultClient.Do(r))
	answer.Body.Close()
	if link, err = links.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &c.bucket, Key: aws.String("linked")}); err != nil {
		t.Fatal(err)
	}
	c.is("note.txt", c.fetch(link.URL))
	s.purge(ctx, t, c.bucket)
	c.absent()
}
