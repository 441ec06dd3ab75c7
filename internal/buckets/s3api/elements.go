package s3api

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// elementsOf lists the elements in S3's error documents, by code, beyond Code, Message, Resource, RequestId and HostId,
// which all contain. An element is left out if its value is unknown. The codes are in "Error responses" in the Amazon
// S3 API Reference; the elements are known from S3's answers, e.g. in these versitygw issues: 1487, 1514,
// 1526, 1583, 1645, 1684, 1810, 2034 to 2036, 2040, 2041, 2044, 2069, 2080, 2081, 2086, 2108.
var elementsOf = map[string][]string{
	"AccessControlListNotSupported":                  nil,
	"AccessDenied":                                   {"HeadersNotSigned", "X-Amz-Expires", "Expires", "RequestTime", "ServerTime"},
	"AccessForbidden":                                {"Method", "ResourceType"},
	"AuthorizationHeaderMalformed":                   {"Region"},
	"AuthorizationQueryParametersError":              {"Region"},
	"BadDigest":                                      {"ExpectedDigest", "CalculatedDigest"},
	"BadRequest":                                     nil,
	"BucketAlreadyOwnedByYou":                        {"BucketName"},
	"BucketNotEmpty":                                 {"BucketName"},
	"EntityTooLarge":                                 {"ProposedSize", "MaxSizeAllowed"},
	"EntityTooSmall":                                 {"ProposedSize", "MinSizeAllowed", "PartNumber", "ETag"},
	"IllegalVersioningConfigurationException":        nil,
	"IncompleteBody":                                 {"NumberBytesExpected", "NumberBytesProvided"},
	"InsufficientStorage":                            nil,
	"InternalError":                                  nil,
	"InvalidAccessKeyId":                             {"AWSAccessKeyId"},
	"InvalidArgument":                                {"ArgumentName", "ArgumentValue"},
	"InvalidBucketAclWithObjectOwnership":            nil,
	"InvalidBucketName":                              {"BucketName"},
	"InvalidBucketState":                             nil,
	"InvalidDigest":                                  {"Content-MD5"},
	"InvalidLocationConstraint":                      {"LocationConstraint"},
	"InvalidPart":                                    {"UploadId", "PartNumber", "ETag"},
	"InvalidPartNumber":                              {"PartNumberRequested", "ActualPartCount"},
	"InvalidPartOrder":                               {"UploadId"},
	"InvalidPolicyDocument":                          nil,
	"InvalidRange":                                   {"RangeRequested", "ActualObjectSize"},
	"InvalidRequest":                                 nil,
	"InvalidRetentionPeriod":                         nil,
	"InvalidStorageClass":                            {"StorageClassRequested"},
	"InvalidTag":                                     {"TagKey", "TagValue"},
	"InvalidToken":                                   nil, // S3 repeats the token, which is a secret
	"InvalidURI":                                     {"URI"},
	"KeyTooLongError":                                {"Size", "MaxSizeAllowed"},
	"MalformedACLError":                              nil,
	"MalformedPOSTRequest":                           nil,
	"MalformedPolicy":                                nil,
	"MalformedTrailerError":                          nil,
	"MalformedXML":                                   nil,
	"MaxMessageLengthExceeded":                       {"MaxMessageLengthBytes"},
	"MaxPostPreDataLengthExceeded":                   nil,
	"MetadataTooLarge":                               {"Size", "MaxSizeAllowed"},
	"MethodNotAllowed":                               {"Method", "ResourceType"}, // and the header Allow
	"MissingContentLength":                           nil,
	"MissingSecurityHeader":                          {"MissingHeaderName"},
	"NoSuchBucket":                                   {"BucketName"},
	"NoSuchBucketPolicy":                             {"BucketName"},
	"NoSuchCORSConfiguration":                        {"BucketName"},
	"NoSuchConfiguration":                            nil,
	"NoSuchKey":                                      {"Key"},
	"NoSuchLifecycleConfiguration":                   {"BucketName"},
	"NoSuchObjectLockConfiguration":                  {"Key"},
	"NoSuchPublicAccessBlockConfiguration":           {"BucketName"},
	"NoSuchTagSet":                                   {"BucketName"},
	"NoSuchUpload":                                   {"UploadId"},
	"NoSuchVersion":                                  {"Key", "VersionId"},
	"NoSuchWebsiteConfiguration":                     {"BucketName"},
	"NotImplemented":                                 {"Header"},
	"ObjectLockConfigurationNotFoundError":           {"BucketName"},
	"OperationAborted":                               nil,
	"OwnershipControlsNotFoundError":                 {"BucketName"},
	"PreconditionFailed":                             {"Condition"},
	"QuotaExceeded":                                  nil,
	"ReplicationConfigurationNotFoundError":          {"BucketName"},
	"RequestHeaderSectionTooLarge":                   {"MaxSizeAllowed"},
	"RequestTimeTooSkewed":                           {"RequestTime", "ServerTime", "MaxAllowedSkewMilliseconds"},
	"RequestTimeout":                                 nil,
	"ServerSideEncryptionConfigurationNotFoundError": {"BucketName"},
	"ServiceUnavailable":                             nil,
	"SignatureDoesNotMatch": {
		"AWSAccessKeyId", "StringToSign", "SignatureProvided", "StringToSignBytes", "CanonicalRequest", "CanonicalRequestBytes", "HeadersNotSigned",
	},
	"SlowDown":                  nil,
	"UnexpectedContent":         nil,
	"UserKeyMustBeSpecified":    nil,
	"XAmzContentSHA256Mismatch": {"ClientComputedContentSHA256", "S3ComputedContentSHA256"},
}

// explained is an error with its S3 error, which contains the elements that are known from the request.
type explained struct {
	error
	is *Error
}

// Unwrap returns the error, so that its code and type are still found.
func (e *explained) Unwrap() error { return e.error }

// explain adds the elements that are known from the request, unless the error is explained already.
func (x *request) explain(err error) error {
	if _, ok := errors.AsType[*explained](err); ok || err == nil {
		return err
	}
	if _, ok := errors.AsType[*web.Answered](err); ok {
		return err
	}
	e := asError(err)
	var more []Field
	for _, name := range elementsOf[e.Code] {
		if !slices.ContainsFunc(e.Fields, func(f Field) bool { return f.Name == name }) {
			more = append(more, Field{name, x.element(err, e, name)})
		}
	}
	if errors.Is(err, buckets.ErrMarker) {
		x.out.Header().Set("Allow", http.MethodDelete)
	}
	return &explained{err, e.with(more...)}
}

// element returns an element's value from the request, or "".
func (x *request) element(err error, e *Error, name string) string {
	switch name {
	case "ArgumentValue":
		return x.argument(e)
	case "BucketName":
		return cmp.Or(x.bucket.Name, x.route.bucket)
	case "Condition":
		return x.failedCondition()
	case "Content-MD5":
		return x.in.Header.Get("Content-Md5")
	case "Key":
		return x.key
	case "Method":
		return cmp.Or(x.in.Header.Get("Access-Control-Request-Method"), x.in.Method)
	case "ProposedSize":
		return positive(x.in.ContentLength)
	case "ResourceType":
		return x.resourceType(err)
	case "Size":
		return positive(int64(len(x.key)))
	case "StorageClassRequested":
		return x.in.Header.Get("X-Amz-Storage-Class")
	case "URI":
		return resource(x.in)
	case "UploadId":
		return x.query.Get("uploadId")
	case "VersionId":
		return x.query.Get("versionId")
	}
	return ""
}

// argument returns the argument's value for an InvalidArgument, if it is a header or a parameter.
func (x *request) argument(e *Error) string {
	for _, f := range e.Fields {
		switch {
		case f.Name != "ArgumentName" || isSecret(f.Value):
		case len(x.in.Header[f.Value]) > 0:
			return x.in.Header[f.Value][0]
		default:
			return cmp.Or(x.in.Header.Get(f.Value), x.query.Get(f.Value))
		}
	}
	return ""
}

// isSecret reports whether a header or parameter contains a secret, which errors must not repeat, because clients log
// them.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"authorization", "credential", "customer-key", "policy", "signature", "security-token"}, func(s string) bool {
		return strings.Contains(name, s)
	})
}

// failedCondition names the header whose condition does not hold. It names the condition that is evaluated
// first. If-None-Match: * is first on writes, because it fails for every object.
func (x *request) failedCondition() string {
	c := x.parsed.condition
	switch {
	case c.NoneMatch.Any && !x.isRead():
		return "If-None-Match"
	case c.Match.IsSet():
		return "If-Match"
	case c.UnmodifiedSince != 0:
		return "If-Unmodified-Since"
	case c.NoneMatch.IsSet():
		return "If-None-Match"
	case c.ModifiedSince != 0:
		return "If-Modified-Since"
	}
	return ""
}

// failedSourceCondition is the error for a copy's source. S3 writes header names in this way, see localstack
// issue 7555. The status is 412 for all conditions.
func failedSourceCondition(c buckets.Condition, o *buckets.Object) *Error {
	name := "If-Match"
	first := buckets.Condition{Match: c.Match, UnmodifiedSince: c.UnmodifiedSince}
	switch holds := first.CheckRead(o) == nil; {
	case holds && c.NoneMatch.IsSet():
		name = "If-None-Match"
	case holds:
		name = "If-Modified-Since"
	case !c.Match.IsSet():
		name = "If-Unmodified-Since"
	}
	return errPrecondition.with(Field{"Condition", "x-amz-copy-source-" + name})
}

// resourceType returns the resource's kind, for MethodNotAllowed and AccessForbidden.
func (x *request) resourceType(err error) string {
	switch {
	case errors.Is(err, buckets.ErrMarker):
		return "DeleteMarker"
	case x.route.bucket == "":
		return "SERVICE"
	case x.key == "":
		return "BUCKET"
	}
	return "OBJECT"
}

// positive formats a number. It returns "" for 0 and for an unknown length, -1.
func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// with copies an error and adds elements. Elements without a value are left out.
func (e *Error) with(fields ...Field) *Error {
	more := *e
	more.Fields = slices.Clone(e.Fields)
	for _, f := range fields {
		if f.Value != "" {
			more.Fields = append(more.Fields, f)
		}
	}
	return &more
}

// hostID identifies the server in errors and in the header x-amz-id-2, so that several servers at one address can be
// told apart. It is a hash, because clients must not learn the host name.
var hostID = func() string {
	name, _ := os.Hostname() // all servers without a name share an ID
	sum := sha256.Sum256([]byte(name))
	return base64.StdEncoding.EncodeToString(sum[:])
}()
