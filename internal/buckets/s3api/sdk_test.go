package s3api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func (s *server) client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.url), Region: region, UsePathStyle: true, Retryer: aws.NopRetryer{},
		// LoadDefaultConfig sets the same.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s.main.AccessKeyID, SecretAccessKey: s.main.Secret}, nil
		}),
	})
}

func ok[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func code(err error) string {
	var e interface{ ErrorCode() string }
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

func TestGoSDKObjects(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c, ctx, bucket := s.client(), t.Context(), aws.String("photos")
	ok[*s3.CreateBucketOutput](t)(c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket}))
	ok[*s3.HeadBucketOutput](t)(c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: bucket}))
	put := ok[*s3.PutObjectOutput](t)(c.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("a b/ü+"), Body: strings.NewReader(hello), Metadata: map[string]string{"camera": "box"}, Tagging: aws.String("a=b"),
	}))
	if aws.ToString(put.ChecksumCRC32) != crc32Of(hello) {
		t.Error(aws.ToString(put.ChecksumCRC32))
	}
	for _, a := range []types.ChecksumAlgorithm{types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme, types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256} {
		ok[*s3.PutObjectOutput](t)(c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String(string(a)), Body: strings.NewReader(hello), ChecksumAlgorithm: a}))
		get := ok[*s3.GetObjectOutput](t)(c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String(string(a)), ChecksumMode: types.ChecksumModeEnabled}))
		if body := ok[[]byte](t)(io.ReadAll(get.Body)); string(body) != hello {
			t.Errorf("%s: %q", a, body)
		}
	}
	get := ok[*s3.GetObjectOutput](t)(c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("a b/ü+")}))
	if body := ok[[]byte](t)(io.ReadAll(get.Body)); string(body) != hello || get.Metadata["camera"] != "box" || aws.ToInt32(get.TagCount) != 1 {
		t.Errorf("%q %v", body, get.Metadata)
	}
	ok[*s3.CopyObjectOutput](t)(c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String("photos/a%20b/%C3%BC%2B")}))
	var keys []string
	pages := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: bucket, MaxKeys: aws.Int32(2)})
	for pages.HasMorePages() {
		for _, o := range ok[*s3.ListObjectsV2Output](t)(pages.NextPage(ctx)).Contents {
			keys = append(keys, aws.ToString(o.Key))
		}
	}
	if got := strings.Join(keys, ","); got != "CRC32C,CRC64NVME,SHA1,SHA256,a b/ü+,copy" {
		t.Error(got)
	}
	_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("absent")})
	if _, isKey := errors.AsType[*types.NoSuchKey](err); !isKey {
		t.Error(err)
	}
	_, err = c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("absent")})
	if _, notFound := errors.AsType[*types.NotFound](err); !notFound {
		t.Error(err)
	}
	if _, err = c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket}); code(err) != "BucketNotEmpty" {
		t.Error(err)
	}
	var list []types.ObjectIdentifier
	for _, k := range keys {
		list = append(list, types.ObjectIdentifier{Key: aws.String(k)})
	}
	deleted := ok[*s3.DeleteObjectsOutput](t)(c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: list}}))
	if len(deleted.Deleted) != len(keys) || len(deleted.Errors) > 0 {
		t.Errorf("%+v", deleted)
	}
	ok[*s3.DeleteBucketOutput](t)(c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket}))
}

func TestGoSDKMultipart(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	c, ctx, bucket, key := s.client(), t.Context(), aws.String("photos"), aws.String("large/film")
	for _, a := range []types.ChecksumAlgorithm{"", types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc64nvme, types.ChecksumAlgorithmSha256} {
		up := ok[*s3.CreateMultipartUploadOutput](t)(c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key, ChecksumAlgorithm: a}))
		var parts []types.CompletedPart
		var whole bytes.Buffer
		for n := int32(1); n <= 3; n++ {
			body := strings.Repeat(string('a'+n), 100000)
			whole.WriteString(body)
			p := ok[*s3.UploadPartOutput](t)(c.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: up.UploadId, PartNumber: aws.Int32(n), Body: strings.NewReader(body), ChecksumAlgorithm: a}))
			parts = append(parts, types.CompletedPart{
				PartNumber: aws.Int32(n), ETag: p.ETag, ChecksumCRC32: p.ChecksumCRC32, ChecksumCRC64NVME: p.ChecksumCRC64NVME, ChecksumSHA256: p.ChecksumSHA256,
			})
		}
		if listed := ok[*s3.ListPartsOutput](t)(c.ListParts(ctx, &s3.ListPartsInput{Bucket: bucket, Key: key, UploadId: up.UploadId})); len(listed.Parts) != 3 {
			t.Errorf("%d parts", len(listed.Parts))
		}
		if uploads := ok[*s3.ListMultipartUploadsOutput](t)(c.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: bucket})); len(uploads.Uploads) != 1 {
			t.Errorf("%d uploads", len(uploads.Uploads))
		}
		done := ok[*s3.CompleteMultipartUploadOutput](t)(c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: bucket, Key: key, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		}))
		if !strings.HasSuffix(aws.ToString(done.ETag), `-3"`) || aws.ToString(done.Location) != s.url+"/photos/large/film" {
			t.Error(aws.ToString(done.ETag), aws.ToString(done.Location))
		}
		listed := ok[*s3.GetObjectAttributesOutput](t)(c.GetObjectAttributes(ctx, &s3.GetObjectAttributesInput{
			Bucket: bucket, Key: key, ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesObjectParts}, MaxParts: aws.Int32(2),
		})).ObjectParts
		if len(listed.Parts) != 2 || aws.ToInt32(listed.TotalPartsCount) != 3 || !aws.ToBool(listed.IsTruncated) || aws.ToString(listed.NextPartNumberMarker) != "2" ||
			aws.ToInt64(listed.Parts[1].Size) != 100000 || aws.ToString(listed.Parts[1].ChecksumSHA256) != aws.ToString(parts[1].ChecksumSHA256) {
			t.Errorf("%s: %+v", a, listed)
		}
		get := ok[*s3.GetObjectOutput](t)(c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key, ChecksumMode: types.ChecksumModeEnabled}))
		if body := ok[[]byte](t)(io.ReadAll(get.Body)); !bytes.Equal(body, whole.Bytes()) {
			t.Errorf("%s: %d bytes differ", a, len(body))
		}
	}
}

func TestGoSDKPresigned(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	p := s3.NewPresignClient(s.client())
	put, err := p.PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("photos"), Key: aws.String("k")}, s3.WithPresignExpires(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	s.anonymous("PUT", strings.TrimPrefix(put.URL, s.url), hello).want(200)
	get, err := p.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("photos"), Key: aws.String("k")})
	if err != nil {
		t.Fatal(err)
	}
	s.anonymous("GET", strings.TrimPrefix(get.URL, s.url), "").want(200).is(hello)
	s.anonymous("DELETE", strings.TrimPrefix(get.URL, s.url), "").fails(403, "SignatureDoesNotMatch")
}
