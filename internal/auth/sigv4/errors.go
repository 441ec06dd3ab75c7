package sigv4

import (
	"fmt"
	"time"

	"holdfast/internal/errcode"
)

// Kind is the problem with a request. Package s3api makes S3's errors from it.
type Kind uint8

// These are the kinds of errors. A comment in parentheses names the Error fields that a kind sets.
const (
	NoCredentials      Kind = iota + 1
	Unsupported             // signature version, algorithm or payload mode
	SeveralCredentials      // in header and query
	SessionToken
	MalformedHeader
	MalformedQuery
	MalformedURI
	MissingDate
	MissingPayloadHash
	InvalidPayloadHash // x-amz-content-sha256
	UnsignedHeader     // a header is sent but not signed (Headers)
	UnsignedParameter  // a query parameter that Signature Version 2 does not cover (Headers)
	TimeTooSkewed      // (RequestTime, ServerTime)
	NotYetValid        // presigned URL with a date in the future
	Expired            // presigned URL (Lifetime for version 4, Expires, ServerTime)
	ExpiresTooLate     // presigned URL, Signature Version 2 (Expires, ServerTime)
	UnknownKey         // (AccessKeyID)
	Mismatch           // (AccessKeyID, Signature, StringToSign, CanonicalRequest; Headers if a signed header is missing)
	MissingLength
	InvalidLength  // x-amz-decoded-content-length
	Contradiction  // between headers that describe the body (Expected: a header; Computed: its value)
	TooLarge       // (Expected: the limit; Computed: the size, if known)
	TooSmall       // below the policy's content-length-range (Expected, Computed)
	Incomplete     // the connection broke
	MalformedChunk // wrong framing
	SizeMismatch   // more or fewer bytes than declared (Expected; Computed if fewer)
	MalformedTrailer
	PayloadHashMismatch // (Expected, Computed)
	InvalidMD5
	InvalidChecksum
	DigestMismatch // (Expected, Computed)
	InvalidPolicy
	PolicyExpired
	PolicyConditionFailed  // (Field)
	PolicyConditionMissing // the policy has no condition for the form field (Field)
	numKinds               = iota + 1
)

// kindOf is a kind's name, its S3 code and its errcode.
type kindOf struct {
	name, code string
	kind       errcode.Code
}

var kinds = [numKinds]kindOf{
	0:                      {"unknown", "InternalError", errcode.Internal},
	NoCredentials:          {"no credentials", "AccessDenied", errcode.Denied},
	Unsupported:            {"unsupported", "InvalidRequest", errcode.Invalid},
	SeveralCredentials:     {"several credentials", "InvalidArgument", errcode.Invalid},
	SessionToken:           {"session token", "InvalidToken", errcode.Invalid},
	MalformedHeader:        {"malformed header", "AuthorizationHeaderMalformed", errcode.Invalid},
	MalformedQuery:         {"malformed query", "AuthorizationQueryParametersError", errcode.Invalid},
	MalformedURI:           {"malformed URI", "InvalidURI", errcode.Invalid},
	MissingDate:            {"missing date", "AccessDenied", errcode.Denied},
	MissingPayloadHash:     {"missing payload hash", "InvalidRequest", errcode.Invalid},
	InvalidPayloadHash:     {"invalid payload hash", "InvalidArgument", errcode.Invalid},
	UnsignedHeader:         {"unsigned header", "AccessDenied", errcode.Denied},
	UnsignedParameter:      {"unsigned parameter", "AccessDenied", errcode.Denied},
	TimeTooSkewed:          {"time too skewed", "RequestTimeTooSkewed", errcode.Denied},
	NotYetValid:            {"not yet valid", "AccessDenied", errcode.Denied},
	Expired:                {"expired", "AccessDenied", errcode.Denied},
	ExpiresTooLate:         {"expires too late", "AccessDenied", errcode.Denied},
	UnknownKey:             {"unknown key", "InvalidAccessKeyId", errcode.Denied},
	Mismatch:               {"signature mismatch", "SignatureDoesNotMatch", errcode.Denied},
	MissingLength:          {"missing length", "MissingContentLength", errcode.Invalid},
	InvalidLength:          {"invalid length", "MissingContentLength", errcode.Invalid},
	Contradiction:          {"contradiction", "InvalidArgument", errcode.Invalid},
	TooLarge:               {"too large", "EntityTooLarge", errcode.TooLarge},
	TooSmall:               {"too small", "EntityTooSmall", errcode.Invalid},
	Incomplete:             {"incomplete body", "IncompleteBody", errcode.Invalid},
	MalformedChunk:         {"malformed chunk", "IncompleteBody", errcode.Invalid},
	SizeMismatch:           {"size mismatch", "IncompleteBody", errcode.Invalid},
	MalformedTrailer:       {"malformed trailer", "MalformedTrailerError", errcode.Invalid},
	PayloadHashMismatch:    {"payload hash mismatch", "XAmzContentSHA256Mismatch", errcode.Invalid},
	InvalidMD5:             {"invalid Content-MD5", "InvalidDigest", errcode.Invalid},
	InvalidChecksum:        {"invalid checksum", "InvalidRequest", errcode.Invalid},
	DigestMismatch:         {"digest mismatch", "BadDigest", errcode.Invalid},
	InvalidPolicy:          {"invalid policy", "InvalidPolicyDocument", errcode.Invalid},
	PolicyExpired:          {"policy expired", "AccessDenied", errcode.Denied},
	PolicyConditionFailed:  {"policy condition failed", "AccessDenied", errcode.Denied},
	PolicyConditionMissing: {"policy condition missing", "AccessDenied", errcode.Denied},
}

func (k Kind) String() string { return kinds[k.index()].name }

// Code returns the code in S3's errors.
func (k Kind) Code() string { return kinds[k.index()].code }

func (k Kind) index() Kind {
	if int(k) < len(kinds) {
		return k
	}
	return 0
}

// Error describes an invalid request. The text never contains client input; the fields do, because S3's XML errors
// return them to the client.
type Error struct {
	Kind    Kind
	Message string // for the client
	Cause   error

	Region                           string // the required region, if that is the problem
	AccessKeyID                      string
	Signature                        string
	StringToSign                     string // of the request, chunk or trailer
	CanonicalRequest                 string // of the request only
	RequestTime, ServerTime, Expires time.Time
	Headers                          []string
	Lifetime                         time.Duration // presigned URL's lifetime
	Expected, Computed               string        // digests, sizes in bytes, or a contradicting header and its value
	Field                            string        // form field
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

func (e *Error) ErrorCode() errcode.Code { return kinds[e.Kind.index()].kind }

func errSessionToken() *Error {
	return refuse(SessionToken, "session tokens are not supported: use the access key of an account")
}

func refuse(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
