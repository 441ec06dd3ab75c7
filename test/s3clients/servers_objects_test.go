package s3clients

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// feature is a row of the table: try returns nil if a server supports it.
type feature struct {
	name string
	try  func(p *probe) error
}

func probes() [][]feature {
	return [][]feature{objectFeatures, versionFeatures, lockFeatures, bucketFeatures}
}

func (p *probe) put(bucket, key, body string, options ...func(*s3.PutObjectInput)) (*s3.PutObjectOutput, error) {
	in := &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body)}
	for _, o := range options {
		o(in)
	}
	out, err := p.PutObject(p.ctx, in)
	if out == nil {
		out = &s3.PutObjectOutput{}
	}
	return out, err
}

func (p *probe) get(bucket, key, version string) (string, error) {
	in := &s3.GetObjectInput{Bucket: &bucket, Key: &key}
	if version != "" {
		in.VersionId = &version
	}
	out, err := p.GetObject(p.ctx, in)
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	return string(text), err
}

func (p *probe) has(bucket, key, version, want string) error {
	got, err := p.get(bucket, key, version)
	return cmp.Or(err, equal(got, want))
}

func (p *probe) filled() (bucket string, err error) {
	bucket, err = p.fresh(false)
	_, failed := p.put(bucket, "key", "hello")
	return bucket, cmp.Or(err, failed)
}

var objectFeatures = []feature{
	{"conditional PUT: `If-None-Match: *`", func(p *probe) error {
		b, err := p.filled()
		_, again := p.put(b, "key", "other", func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
		return cmp.Or(err, refused(again, "PreconditionFailed"))
	}},
	{"conditional PUT: `If-Match`", func(p *probe) error {
		b, err := p.filled()
		_, again := p.put(b, "key", "other", func(in *s3.PutObjectInput) { in.IfMatch = aws.String(`"00000000000000000000000000000000"`) })
		return cmp.Or(err, refused(again, "PreconditionFailed"))
	}},
	{"conditional DELETE: `If-Match`", func(p *probe) error {
		b, err := p.filled()
		_, again := p.DeleteObject(p.ctx, &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("key"), IfMatch: aws.String(`"00000000000000000000000000000000"`)})
		return cmp.Or(err, refused(again, "PreconditionFailed"))
	}},
	{"conditional CompleteMultipartUpload", func(p *probe) error {
		b, err := p.filled()
		_, again := p.upload(b, "key", types.ChecksumAlgorithmCrc32, "", func(in *s3.CompleteMultipartUploadInput) { in.IfNoneMatch = aws.String("*") })
		return cmp.Or(err, refused(again, "PreconditionFailed"))
	}},
	{"checksums CRC32, CRC32C, SHA1, SHA256", func(p *probe) error {
		return p.checksums(types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256)
	}},
	{"checksum CRC64NVME", func(p *probe) error { return p.checksums(types.ChecksumAlgorithmCrc64nvme) }},
	{"checksum of a whole multipart object", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.upload(b, "key", types.ChecksumAlgorithmCrc32, types.ChecksumTypeFullObject, nil)
		head, headErr := p.HeadObject(p.ctx, &s3.HeadObjectInput{Bucket: &b, Key: aws.String("key"), ChecksumMode: types.ChecksumModeEnabled})
		if err := cmp.Or(err, failed, headErr); err != nil {
			return err
		}
		return cmp.Or(equal(head.ChecksumType, types.ChecksumTypeFullObject), equal(head.ChecksumCRC32 != nil, true))
	}},
	{"GetObjectAttributes with parts", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.upload(b, "key", types.ChecksumAlgorithmCrc32, "", nil)
		a, attributesErr := p.GetObjectAttributes(p.ctx, &s3.GetObjectAttributesInput{Bucket: &b, Key: aws.String("key"), ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesObjectParts}})
		if err := cmp.Or(err, failed, attributesErr); err != nil {
			return err
		}
		return equal(a.ObjectParts != nil && aws.ToInt32(a.ObjectParts.TotalPartsCount) == 2, true)
	}},
	{"POST forms", func(p *probe) error {
		b, err := p.fresh(false)
		form, signErr := s3.NewPresignClient(p.Client).PresignPostObject(p.ctx, &s3.PutObjectInput{Bucket: &b, Key: aws.String("form")})
		if err := cmp.Or(err, signErr); err != nil {
			return err
		}
		var body bytes.Buffer
		for k, v := range form.Values {
			body.WriteString("--x\r\nContent-Disposition: form-data; name=\"" + k + "\"\r\n\r\n" + v + "\r\n")
		}
		body.WriteString("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhello\r\n--x--\r\n")
		r, err := http.Post(p.url+"/"+b, "multipart/form-data; boundary=x", &body)
		if err != nil {
			return err
		}
		r.Body.Close()
		return p.has(b, "form", "", "hello")
	}},
	{"tags of objects", func(p *probe) error {
		b, err := p.filled()
		_, putErr := p.PutObjectTagging(p.ctx, &s3.PutObjectTaggingInput{Bucket: &b, Key: aws.String("key"), Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}})
		got, getErr := p.GetObjectTagging(p.ctx, &s3.GetObjectTaggingInput{Bucket: &b, Key: aws.String("key")})
		if err := cmp.Or(err, putErr, getErr); err != nil {
			return err
		}
		return equal(len(got.TagSet), 1)
	}},
	{"objects `a` and `a/b` beside each other", func(p *probe) error {
		b, err := p.fresh(false)
		_, first := p.put(b, "a", "1")
		_, second := p.put(b, "a/b", "2")
		return cmp.Or(err, first, second, p.has(b, "a", "", "1"), p.has(b, "a/b", "", "2"))
	}},
	{"keys `a//b`, `a/./b`, `a/../b`", func(p *probe) error {
		b, err := p.fresh(false)
		for _, key := range []string{"a//b", "a/./b", "a/../b", "a/b"} {
			_, failed := p.put(b, key, key)
			err = cmp.Or(err, failed)
		}
		return cmp.Or(err, p.has(b, "a//b", "", "a//b"), p.has(b, "a/./b", "", "a/./b"), p.has(b, "a/../b", "", "a/../b"))
	}},
	{"a key of 1,024 bytes without `/`", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.put(b, strings.Repeat("k", 1024), "hello")
		return cmp.Or(err, failed)
	}},
	{"list with a delimiter other than `/`", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.put(b, "a-b", "1")
		l, listErr := p.ListObjectsV2(p.ctx, &s3.ListObjectsV2Input{Bucket: &b, Delimiter: aws.String("-")})
		if err := cmp.Or(err, failed, listErr); err != nil {
			return err
		}
		return equal(len(l.CommonPrefixes), 1)
	}},
	{"`x-amz-expected-bucket-owner`", func(p *probe) error {
		b, err := p.filled()
		_, other := p.HeadObject(p.ctx, &s3.HeadObjectInput{Bucket: &b, Key: aws.String("key"), ExpectedBucketOwner: aws.String("000000000000")})
		return cmp.Or(err, refused(other, "AccessDenied", "Forbidden"))
	}},
	{"encryption by the server (SSE-S3; MinIO with a key configured)", func(p *probe) error {
		b, err := p.fresh(false)
		out, failed := p.put(b, "key", "hello", func(in *s3.PutObjectInput) { in.ServerSideEncryption = types.ServerSideEncryptionAes256 })
		return cmp.Or(err, failed, equal(out.ServerSideEncryption, types.ServerSideEncryptionAes256))
	}},
	{"storage class `REDUCED_REDUNDANCY`", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.put(b, "key", "hello", func(in *s3.PutObjectInput) { in.StorageClass = types.StorageClassReducedRedundancy })
		head, headErr := p.HeadObject(p.ctx, &s3.HeadObjectInput{Bucket: &b, Key: aws.String("key")})
		if err := cmp.Or(err, failed, headErr); err != nil {
			return err
		}
		return equal(head.StorageClass, types.StorageClassReducedRedundancy)
	}},
	{"SelectObjectContent", func(p *probe) error {
		b, err := p.fresh(false)
		_, failed := p.put(b, "key", "a,b\n1,2\n")
		out, selectErr := p.SelectObjectContent(p.ctx, &s3.SelectObjectContentInput{
			Bucket: &b, Key: aws.String("key"), Expression: aws.String("SELECT s._1 FROM S3Object s"), ExpressionType: types.ExpressionTypeSql,
			InputSerialization: &types.InputSerialization{CSV: &types.CSVInput{}}, OutputSerialization: &types.OutputSerialization{CSV: &types.CSVOutput{}},
		})
		if err := cmp.Or(err, failed, selectErr); err != nil {
			return err
		}
		var text []byte
		for e := range out.GetStream().Events() {
			if r, ok := e.(*types.SelectObjectContentEventStreamMemberRecords); ok {
				text = append(text, r.Value.Payload...)
			}
		}
		return cmp.Or(out.GetStream().Err(), equal(string(text), "a\n1\n"))
	}},
	{"Signature Version 2 in a header", func(p *probe) error {
		b, err := p.filled()
		m, newErr := minio.New(strings.TrimPrefix(p.url, "http://"), &minio.Options{Creds: credentials.NewStaticV2(p.sign.AccessKeyID, p.sign.Secret, ""), MaxRetries: 1})
		if err := cmp.Or(err, newErr); err != nil {
			return err
		}
		_, err = m.StatObject(p.ctx, b, "key", minio.StatObjectOptions{})
		if err != nil {
			return statusError{0, minio.ToErrorResponse(err).Code}
		}
		return nil
	}},
}

// checksums stores an object with each algorithm, reads the checksum back, and sends a wrong checksum.
func (p *probe) checksums(all ...types.ChecksumAlgorithm) error {
	b, err := p.fresh(false)
	for _, a := range all {
		_, putErr := p.put(b, "key", "hello", func(in *s3.PutObjectInput) { in.ChecksumAlgorithm = a })
		head, headErr := p.HeadObject(p.ctx, &s3.HeadObjectInput{Bucket: &b, Key: aws.String("key"), ChecksumMode: types.ChecksumModeEnabled})
		if err := cmp.Or(err, putErr, headErr); err != nil {
			return err
		}
		if !slices.ContainsFunc([]*string{head.ChecksumCRC32, head.ChecksumCRC32C, head.ChecksumCRC64NVME, head.ChecksumSHA1, head.ChecksumSHA256}, func(s *string) bool { return s != nil }) {
			return errIgnored
		}
		wrong := p.raw(http.StatusOK, http.MethodPut, "/"+b+"/wrong", "hello", "x-amz-checksum-"+strings.ToLower(string(a))+": AAAAAA==")
		if wrong == nil {
			return errIgnored
		}
	}
	return nil
}

func (p *probe) upload(bucket, key string, a types.ChecksumAlgorithm, kind types.ChecksumType, option func(*s3.CompleteMultipartUploadInput)) (*s3.CompleteMultipartUploadOutput, error) {
	u, err := p.CreateMultipartUpload(p.ctx, &s3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key, ChecksumAlgorithm: a, ChecksumType: kind})
	if err != nil {
		return nil, err
	}
	var parts []types.CompletedPart
	for n, size := range []int{5 << 20, 5} {
		number := aws.Int32(int32(n + 1))
		part, err := p.UploadPart(p.ctx, &s3.UploadPartInput{Bucket: &bucket, Key: &key, UploadId: u.UploadId, PartNumber: number, Body: bytes.NewReader(make([]byte, size)), ChecksumAlgorithm: a})
		if err != nil {
			return nil, err
		}
		parts = append(parts, types.CompletedPart{PartNumber: number, ETag: part.ETag, ChecksumCRC32: part.ChecksumCRC32})
	}
	in := &s3.CompleteMultipartUploadInput{Bucket: &bucket, Key: &key, UploadId: u.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}}
	if option != nil {
		option(in)
	}
	return p.CompleteMultipartUpload(p.ctx, in)
}

func (p *probe) awaitEvent(bucket, key string, most time.Duration) error {
	select {
	case <-p.hook.of(event{bucket, "ObjectCreated:Put", key}):
		return nil
	case <-time.After(most):
		return errors.New("no event")
	}
}
