package imports

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// SourceOptions says where the source is and how to sign. Zero fields use the AWS environment and profile.
type SourceOptions struct {
	Endpoint    string // URL; "" for AWS_ENDPOINT_URL, or else Amazon S3
	Region      string // "" for the region of the profile, or else us-east-1
	Profile     string // AWS profile; "" for AWS_PROFILE
	VirtualHost bool   // even with an endpoint
	Anonymous   bool   // do not sign

	AccessKey, SecretKey string // "" for the environment or the profile

	Parallel int // connections
}

const (
	attempts      = 8 // per request, and reads without progress
	longestWait   = 20 * time.Second
	answerWithin  = time.Minute // time to wait for a response header
	stallsAfter   = time.Minute // time to wait for a byte of the body
	defaultRegion = "us-east-1"
)

// Source is another S3 endpoint.
type Source struct {
	client *s3.Client
	behind atomic.Int64 // nanoseconds that the source's clock is behind
}

// NewSource returns a source and finds its credentials.
func NewSource(ctx context.Context, o SourceOptions) (*Source, error) {
	if err := CheckEndpoint(o.Endpoint); err != nil {
		return nil, err
	}
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*o.Parallel, 2*o.Parallel
		t.ResponseHeaderTimeout = answerWithin
		t.DisableCompression = true // bodies are stored as sent
	})
	found := &mistakes{}
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(transport), config.WithLogger(logging.Nop{}), config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff, o.RateLimiter = attempts, longestWait, ratelimit.None
				o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
					if found.isLasting(err) {
						return aws.FalseTernary
					}
					return aws.UnknownTernary
				})}, o.Retryables...)
			})
		}),
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	switch {
	case o.Anonymous:
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	case o.AccessKey != "":
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(o.AccessKey, o.SecretKey, "")))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "the AWS configuration cannot be read: check AWS_PROFILE, --profile and the files in ~/.aws", err)
	}
	if !o.Anonymous {
		if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
			return nil, errcode.Wrap(errcode.Invalid, "no credentials for the source: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or use --anonymous for a public bucket", err)
		}
	}
	return &Source{client: s3.NewFromConfig(cfg, func(c *s3.Options) {
		if o.Endpoint != "" {
			c.BaseEndpoint = aws.String(o.Endpoint)
		}
		c.Region = cmp.Or(o.Region, cfg.Region, defaultRegion)
		c.UsePathStyle = !o.VirtualHost && c.BaseEndpoint != nil
		found.HTTPClient = c.HTTPClient
		c.HTTPClient = found
		c.APIOptions = append(c.APIOptions, limitAnswers)
		c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired // body verifies checksums itself
	})}, nil
}

// CheckEndpoint rejects invalid endpoint URLs; "" is valid.
func CheckEndpoint(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return errcode.New(errcode.Invalid, "the endpoint is not valid: expected a URL, e.g. https://s3.example.org:9000")
	}
	return nil
}

// leastSkew is the smallest clock difference that counts, because response dates are whole seconds and responses take
// time.
const leastSkew = 5 * time.Second

// sawClock measures the clock difference from an answer's Date.
func (s *Source) sawClock(m middleware.Metadata) {
	there, ok1 := awsmiddleware.GetServerTime(m)
	here, ok2 := awsmiddleware.GetResponseAt(m)
	if behind := here.Sub(there); ok1 && ok2 && !there.IsZero() {
		if behind.Abs() < leastSkew {
			behind = 0
		}
		s.behind.Store(int64(behind))
	}
}

// buckets lists the buckets that the key may list.
func (s *Source) buckets(ctx context.Context) (all []string, err error) {
	pages := s3.NewListBucketsPaginator(s.client, &s3.ListBucketsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readable("list the buckets", err)
		}
		for _, b := range page.Buckets {
			all = append(all, aws.ToString(b.Name))
		}
	}
	return all, nil
}

// errList means that the source contradicts itself, so its list cannot be trusted.
var errList = errcode.New(errcode.Unavailable, "the source sent a list that is not valid: it says that there is more, but not where it continues")

// list calls fn with each page of current objects.
func (s *Source) list(ctx context.Context, bucket, prefix string, fn func([]Listed) error) error {
	in := &s3.ListObjectsV2Input{Bucket: &bucket, EncodingType: types.EncodingTypeUrl}
	if prefix != "" {
		in.Prefix = &prefix
	}
	for {
		out, err := s.client.ListObjectsV2(ctx, in)
		if err != nil {
			return readable("list the bucket "+bucket, err)
		}
		s.sawClock(out.ResultMetadata)
		page := make([]Listed, len(out.Contents))
		for i, o := range out.Contents {
			key, err := decoded(aws.ToString(o.Key), out.EncodingType)
			if err != nil {
				return err
			}
			page[i] = Listed{Key: key, ETag: bare(aws.ToString(o.ETag)), Size: aws.ToInt64(o.Size), Modified: buckets.At(aws.ToTime(o.LastModified))}
		}
		if err := fn(page); err != nil || !aws.ToBool(out.IsTruncated) {
			return err
		}
		if in.ContinuationToken = out.NextContinuationToken; aws.ToString(in.ContinuationToken) == "" {
			return errList
		}
	}
}

// bare removes the quotes of an entity tag.
func bare(etag string) string { return strings.Trim(etag, `"`) }

// get requests an object, which must be unchanged if etag is set.
func (s *Source) get(ctx context.Context, bucket string, from *Listed, etag, bytes string) (*s3.GetObjectOutput, error) {
	in := &s3.GetObjectInput{Bucket: &bucket, Key: &from.Key, VersionId: versionOrNil(from)}
	if etag != "" {
		in.IfMatch = aws.String(`"` + etag + `"`)
	}
	if bytes != "" {
		in.Range = &bytes
	}
	// Do not set ChecksumMode: the SDK would then compute the checksum as well.
	return s.client.GetObject(ctx, in, s3.WithAPIOptions(smithyhttp.AddHeaderValue("X-Amz-Checksum-Mode", "ENABLED")))
}

// versionOrNil returns the version for a request.
func versionOrNil(from *Listed) *string {
	if from.Version == "" {
		return nil
	}
	return &from.Version
}

// has reports whether an object exists. It does not use HEAD, which cannot distinguish a missing bucket from a missing
// object.
func (s *Source) has(ctx context.Context, bucket, key string) (bool, error) {
	out, err := s.get(ctx, bucket, &Listed{Key: key}, "", "bytes=0-0")
	switch {
	case err == nil:
		return true, out.Body.Close()
	case isGone(err):
		return false, nil
	case codeOf(err) == "InvalidRange": // the object is empty
		return true, nil
	}
	return false, readable("look for a deleted object", err)
}

// tags reads the tags of an object or version.
func (s *Source) tags(ctx context.Context, bucket string, from *Listed) (map[string]string, error) {
	in := &s3.GetObjectTaggingInput{Bucket: &bucket, Key: &from.Key, VersionId: versionOrNil(from)}
	if from.Latest && from.Version == string(buckets.NullVersion) {
		in.VersionId = nil // versitygw does not find it
	}
	out, err := s.client.GetObjectTagging(ctx, in)
	if err != nil {
		return nil, readable("read the tags", err)
	}
	list := tagsOf(out.TagSet)
	tags := make(map[string]string, len(list))
	for _, t := range list {
		if len(t.Key)+len(t.Value) > maxTagText {
			return nil, errTags
		}
		tags[t.Key] = t.Value
	}
	if len(tags) < len(list) || len(tags) > buckets.MaxObjectTags {
		return nil, errTags
	}
	return tags, nil
}

// tagsOf converts a list of tags.
func tagsOf(set []types.Tag) []buckets.Tag {
	all := make([]buckets.Tag, len(set))
	for i, t := range set {
		all[i] = buckets.Tag{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value)}
	}
	return all
}

// codeOf returns S3's error code, or "".
func codeOf(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}

// isGone reports whether the object or version was deleted.
func isGone(err error) bool {
	code := codeOf(err)
	return code == "NoSuchKey" || code == "NoSuchVersion"
}

// hints gives advice about S3's error codes.
var hints = map[string]string{
	"AccessDenied":                 "the access key needs s3:ListBucket, s3:GetObject and s3:GetObjectTagging, and for versions s3:ListBucketVersions, s3:GetObjectVersion and s3:GetObjectVersionTagging",
	"InvalidAccessKeyId":           "check the access key",
	"SignatureDoesNotMatch":        "check the secret key, and whether the endpoint needs --virtual-host",
	"RequestTimeTooSkewed":         "the clocks differ by more than 15 minutes",
	"NoSuchBucket":                 "check the bucket name",
	"PermanentRedirect":            "the bucket is in another region: set --region",
	"AuthorizationHeaderMalformed": "the source is in another region: set --region",
	"InvalidObjectState":           "the object is archived: restore it first",
}

// readable describes an error without library texts. It returns errcode.Invalid for a 4xx status except 429, and
// otherwise errcode.Unavailable.
func readable(what string, err error) error {
	if errors.Is(err, context.Canceled) || errcode.Message(err) != "" {
		return err
	}
	code, status := codeOf(err), 0
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status = r.HTTPStatusCode()
	}
	kind, text := errcode.Unavailable, "could not "+what+": "
	mistake := mistakeOf(err)
	switch {
	case mistake != "":
		return errcode.New(errcode.Invalid, text+mistake)
	case status == 0:
		text += "no answer from the source (" + errcode.NetworkReason(err) + ")"
		if fix := errcode.NetworkFix(err); fix != "" {
			text += ": " + fix
		}
		return errcode.Wrap(kind, text, err)
	case status < http.StatusBadRequest:
		text += "the answer of the source is not valid"
	case code == "" || code == "UnknownError":
		text += "the source answered " + http.StatusText(status)
	default:
		text += "the source answered " + code
	}
	if status >= 400 && status < 500 && status != http.StatusTooManyRequests {
		kind = errcode.Invalid
	}
	if hint := hints[code]; hint != "" {
		text += " (" + hint + ")"
	}
	return errcode.Wrap(kind, text, err)
}
