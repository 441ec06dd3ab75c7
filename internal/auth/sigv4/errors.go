package sigv4

import (
	"fmt"
	"time"

	"holdfast/internal/errcode"
)

// Kind says what is wrong with a request.
type Kind uint8

// The kinds. The comment gives the S3 error code, which Code returns.
const (
	NoCredentials          Kind = iota + 1 // AccessDenied: the request is anonymous
	Unsupported                            // InvalidRequest: another signature version, algorithm or payload mode
	SeveralCredentials                     // InvalidArgument: credentials in the header and in the query
	SessionToken                           // InvalidToken: session tokens are not supported
	MalformedHeader                        // AuthorizationHeaderMalformed
	MalformedQuery                         // AuthorizationQueryParametersError
	MalformedURI                           // InvalidURI
	MissingDate                            // AccessDenied: no valid x-amz-date or Date header
	MissingPayloadHash                     // InvalidRequest: no x-amz-content-sha256 header
	InvalidPayloadHash                     // InvalidArgument: x-amz-content-sha256 is not valid
	UnsignedHeader                         // AccessDenied: Headers lists the headers that must be signed
	TimeTooSkewed                          // RequestTimeTooSkewed: RequestTime, ServerTime
	NotYetValid                            // AccessDenied: the presigned URL is of the future
	Expired                                // AccessDenied: the presigned URL has expired: Expires, ServerTime
	UnknownKey                             // InvalidAccessKeyId: AccessKeyID
	Mismatch                               // SignatureDoesNotMatch
	MissingLength                          // MissingContentLength
	InvalidLength                          // InvalidArgument: a length is not a number
	TooLarge                               // EntityTooLarge
	TooSmall                               // EntityTooSmall: below content-length-range
	Incomplete                             // IncompleteBody: the body ends early
	MalformedChunk                         // IncompleteBody: the framing is wrong
	SizeMismatch                           // IncompleteBody: more or fewer bytes than declared
	MalformedTrailer                       // MalformedTrailerError
	PayloadHashMismatch                    // XAmzContentSHA256Mismatch: Expected, Computed
	InvalidMD5                             // InvalidDigest: Content-MD5 is not valid
	InvalidChecksum                        // InvalidRequest: an x-amz-checksum header or trailer is not valid
	DigestMismatch                         // BadDigest: Expected, Computed
	InvalidPolicy                          // InvalidPolicyDocument
	PolicyExpired                          // AccessDenied
	PolicyConditionFailed                  // AccessDenied: Field names the field of the form
	PolicyConditionMissing                 // AccessDenied: Field names a field without a condition
	numKinds               = iota + 1
)

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
	TimeTooSkewed:          {"time too skewed", "RequestTimeTooSkewed", errcode.Denied},
	NotYetValid:            {"not yet valid", "AccessDenied", errcode.Denied},
	Expired:                {"expired", "AccessDenied", errcode.Denied},
	UnknownKey:             {"unknown key", "InvalidAccessKeyId", errcode.Denied},
	Mismatch:               {"signature mismatch", "SignatureDoesNotMatch", errcode.Denied},
	MissingLength:          {"missing length", "MissingContentLength", errcode.Invalid},
	InvalidLength:          {"invalid length", "InvalidArgument", errcode.Invalid},
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

// String is the name of the kind in logs and metric labels.
func (k Kind) String() string { return kinds[k.index()].name }

// Code is the S3 error code.
func (k Kind) Code() string { return kinds[k.index()].code }

func (k Kind) index() Kind {
	if int(k) < len(kinds) {
		return k
	}
	return 0
}

// Error is what Verify, VerifyForm, Body and Policy.Check return about a request
// that is wrong. Only the fields that the kind names are set. The text of Error
// quotes nothing that the client sent; the fields do, because S3's XML
// errors return them to the client.
type Error struct {
	Kind    Kind
	Message string
	Cause   error // of a broken connection, otherwise nil

	Region                           string    // the region to sign for, if that is what is wrong
	AccessKeyID                      string    // UnknownKey, Mismatch
	Signature                        string    // Mismatch: as the client sent it
	StringToSign                     string    // Mismatch: of the request, a chunk or a trailer
	CanonicalRequest                 string    // Mismatch: of the request, otherwise ""
	RequestTime, ServerTime, Expires time.Time // of the clock's errors
	Headers                          []string  // UnsignedHeader; Mismatch, if a signed header was not sent
	Expected, Computed               string    // of a digest, as it is written in its header
	Field                            string    // of a form
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// ErrorCode implements errcode.Coder.
func (e *Error) ErrorCode() errcode.Code { return kinds[e.Kind.index()].kind }

func refuse(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
