package imports

import (
	"context"
	"errors"
	"mime"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
)

const (
	maxETag    = 256
	maxTagText = 1 << 10 // bytes in a key with its value

	defaultType = "binary/octet-stream"
)

var (
	errMetadata = errcode.New(errcode.Invalid, "the object has more than 8 KiB of metadata")
	errTags     = errcode.New(errcode.Invalid, "the object has more than 10 tags, two tags with the same key, or a tag over 1 KiB")
	errLock     = errcode.New(errcode.Invalid, "the object has a retention or legal hold that this server cannot keep")
	errETag     = errcode.New(errcode.Invalid, "the source sent no entity tag, or a tag over 256 bytes")
)

// objectOf converts metadata to the form in which this server stores it.
func objectOf(from *Listed, out *s3.GetObjectOutput) (buckets.Object, error) {
	o := buckets.Object{Name: from.Key, ContentType: text(aws.ToString(out.ContentType)), Headers: map[string]string{}}
	if o.ContentType == "" {
		o.ContentType = defaultType
	}
	if class, ok := buckets.ParseStorageClass(string(out.StorageClass)); ok { // an object from an archive becomes STANDARD
		o.Class = class
	}
	for name, value := range map[string]*string{
		"cache-control": out.CacheControl, "content-disposition": out.ContentDisposition, "content-language": out.ContentLanguage,
		"expires": out.ExpiresString, "x-amz-website-redirect-location": out.WebsiteRedirectLocation,
	} {
		if v := text(aws.ToString(value)); v != "" {
			o.Headers[name] = v
		}
	}
	// Some servers store aws-chunked with the object.
	if v := buckets.WithoutFraming(text(aws.ToString(out.ContentEncoding))); v != "" {
		o.Headers["content-encoding"] = v
	}
	for name, value := range out.Metadata {
		o.Headers[buckets.UserPrefix+strings.ToLower(name)] = userText(value)
	}
	switch err := buckets.CheckMetadata(o.ContentType, o.Headers); {
	case errors.Is(err, buckets.ErrHeadersSize):
		return o, errMetadata
	case errors.Is(err, buckets.ErrMetadataSize):
		// See unlikeClients: such an object is imported all the same.
		return o, nil
	default:
		return o, err
	}
}

// unlikeClients returns why a client could not write the object like this, or "". Other servers allow more user
// metadata than S3, and more characters in tags. Refusing such an object would leave data behind, and only a new upload
// meets the rule, so the import takes the object and names it.
func unlikeClients(o *buckets.Object) string {
	err := buckets.CheckMetadata(o.ContentType, o.Headers)
	if invalid := buckets.CheckTags(o.Tags, buckets.MaxObjectTags); err == nil && invalid != nil {
		err = invalid
	}
	if err == nil {
		return ""
	}
	return "imported, but a client could not write it like this: " + reason(err)
}

// lockOf converts the lock of a version.
func lockOf(out *s3.GetObjectOutput) (l buckets.Lock, err error) {
	l = buckets.Lock{Mode: buckets.LockMode(out.ObjectLockMode), Hold: buckets.HoldStatus(out.ObjectLockLegalHoldStatus)}
	if out.ObjectLockRetainUntilDate != nil {
		l.Until = buckets.At(*out.ObjectLockRetainUntilDate)
	}
	switch l.Hold {
	case "", buckets.HoldOn, buckets.HoldOff:
	default:
		err = errLock
	}
	if l.Retention().Check() != nil {
		err = errLock
	}
	return l, err
}

// withTags reads tags only if the answer says that there are any.
func (s *Source) withTags(ctx context.Context, bucket string, from *Listed, o *buckets.Object, out *s3.GetObjectOutput) (err error) {
	if aws.ToInt32(out.TagCount) == 0 {
		return nil
	}
	o.Tags, err = s.tags(ctx, bucket, from)
	o.ImportedTags = buckets.TagsSum(o.Tags)
	return err
}

// text makes a header valid: UTF-8 without control characters.
func text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, s))
}

// userText decodes RFC 2047 words, in which S3 sends metadata that is not ASCII.
func userText(s string) string {
	if s = text(s); strings.Contains(s, "=?") {
		if decoded, err := new(mime.WordDecoder).DecodeHeader(s); err == nil {
			return text(decoded)
		}
	}
	return s
}

// isEncrypted reports whether encryption makes the entity tag differ from the MD5.
func isEncrypted(out *s3.GetObjectOutput) bool {
	return out.SSECustomerAlgorithm != nil || out.ServerSideEncryption == types.ServerSideEncryptionAwsKms || out.ServerSideEncryption == types.ServerSideEncryptionAwsKmsDsse
}

// checksumOf returns the checksum that the source sent, zero if none.
func checksumOf(out *s3.GetObjectOutput) buckets.Checksum {
	for algorithm, value := range map[checksum.Algorithm]*string{
		checksum.CRC32: out.ChecksumCRC32, checksum.CRC32C: out.ChecksumCRC32C, checksum.CRC64NVME: out.ChecksumCRC64NVME,
		checksum.SHA1: out.ChecksumSHA1, checksum.SHA256: out.ChecksumSHA256,
	} {
		if v := aws.ToString(value); v != "" {
			return buckets.Checksum{Algorithm: algorithm.String(), Value: v, Composite: out.ChecksumType == types.ChecksumTypeComposite || strings.Contains(v, "-")}
		}
	}
	return buckets.Checksum{}
}
