package sigv4

import (
	"fmt"
	"time"

	"holdfast/internal/fault"
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
	fault      fault.Code
}

var kinds = [numKinds]kindOf{
	0:                      {"unknown", "InternalError", fault.Internal},
	NoCredentials:          {"no credentials", "AccessDenied", fault.Denied},
	Unsupported:            {"unsupported", "InvalidRequest", fault.Invalid},
	SeveralCredentials:     {"several credentials", "InvalidArgument", fault.Invalid},
	SessionToken:           {"session token", "InvalidToken", fault.Invalid},
	MalformedHeader:        {"malformed header", "AuthorizationHeaderMalformed", fault.Invalid},
	MalformedQuery:         {"malformed query", "AuthorizationQueryParametersError", fault.Invalid},
	MalformedURI:           {"malformed URI", "InvalidURI", fault.Invalid},
	MissingDate:            {"missing date", "AccessDenied", fault.Denied},
	MissingPayloadHash:     {"missing payload hash", "InvalidRequest", fault.Invalid},
	InvalidPayloadHash:     {"invalid payload hash", "InvalidArgument", fault.Invalid},
	UnsignedHeader:         {"unsigned header", "AccessDenied", fault.Denied},
	TimeTooSkewed:          {"time too skewed", "RequestTimeTooSkewed", fault.Denied},
	NotYetValid:            {"not yet valid", "AccessDenied", fault.Denied},
	Expired:                {"expired", "AccessDenied", fault.Denied},
	UnknownKey:             {"unknown key", "InvalidAccessKeyId", fault.Denied},
	Mismatch:               {"signature mismatch", "SignatureDoesNotMatch", fault.Denied},
	MissingLength:          {"missing length", "MissingContentLength", fault.Invalid},
	InvalidLength:          {"invalid length", "InvalidArgument", fault.Invalid},
	TooLarge:               {"too large", "EntityTooLarge", fault.TooLarge},
	TooSmall:               {"too small", "EntityTooSmall", fault.Invalid},
	Incomplete:             {"incomplete body", "IncompleteBody", fault.Invalid},
	MalformedChunk:         {"malformed chunk", "IncompleteBody", fault.Invalid},
	SizeMismatch:           {"size mismatch", "IncompleteBody", fault.Invalid},
	MalformedTrailer:       {"malformed trailer", "MalformedTrailerError", fault.Invalid},
	PayloadHashMismatch:    {"payload hash mismatch", "XAmzContentSHA256Mismatch", fault.Invalid},
	InvalidMD5:             {"invalid Content-MD5", "InvalidDigest", fault.Invalid},
	InvalidChecksum:        {"invalid checksum", "InvalidRequest", fault.Invalid},
	DigestMismatch:         {"digest mismatch", "BadDigest", fault.Invalid},
	InvalidPolicy:          {"invalid policy", "InvalidPolicyDocument", fault.Invalid},
	PolicyExpired:          {"policy expired", "AccessDenied", fault.Denied},
	PolicyConditionFailed:  {"policy condition failed", "AccessDenied", fault.Denied},
	PolicyConditionMissing: {"policy condition missing", "AccessDenied", fault.Denied},
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

// FaultCode implements fault.Coder.
func (e *Error) FaultCode() fault.Code { return kinds[e.Kind.index()].fault }

func refuse(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
