package s3api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
	"holdfast/internal/ident"
	"holdfast/internal/web"
)

// Error is an S3 error response.
type Error struct {
	Status  int     // HTTP status
	Code    string  // S3's, e.g. NoSuchKey
	Message string  // for people; may quote the same input as S3
	Fields  []Field // more elements in the document
	Cause   error   // for the log; may be nil
}

// Field is an element in an error document.
type Field struct{ Name, Value string }

// Error is for logs; clients get the document.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Code + ": " + e.Cause.Error()
	}
	return e.Code + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// ErrorCode maps the status, so that metrics and logs classify it.
func (e *Error) ErrorCode() errcode.Code {
	switch e.Status {
	case http.StatusNotFound:
		return errcode.NotFound
	case http.StatusForbidden:
		return errcode.Denied
	case http.StatusConflict:
		return errcode.Conflict
	case http.StatusPreconditionFailed, http.StatusNotModified:
		return errcode.Precondition
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return errcode.Unavailable
	case http.StatusInternalServerError:
		return errcode.Internal
	}
	return errcode.Invalid
}

// refuse returns an error without further elements.
func refuse(status int, code, message string) *Error {
	return &Error{Status: status, Code: code, Message: message}
}

var (
	errAccessDenied     = refuse(http.StatusForbidden, "AccessDenied", "Access Denied")
	errMethod           = refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	errMalformedXML     = refuse(http.StatusBadRequest, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema.")
	errNoSuchBucket     = refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist.")
	errNoSuchKey        = refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	errNotModified      = refuse(http.StatusNotModified, "NotModified", "Not Modified")
	errRange            = refuse(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable.")
	errPart             = refuse(http.StatusRequestedRangeNotSatisfiable, "InvalidPartNumber", "The requested partnumber is not satisfiable.")
	errURI              = refuse(http.StatusBadRequest, "InvalidURI", "Couldn't parse the specified URI.")
	errTimeout          = refuse(http.StatusBadRequest, "RequestTimeout", "Your socket connection to the server was not read from or written to within the timeout period.")
	errIncomplete       = refuse(http.StatusBadRequest, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header.")
	errTooLarge         = refuse(http.StatusBadRequest, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.").with(Field{"MaxSizeAllowed", itoa(maxObject)})
	errNoLength         = refuse(http.StatusLengthRequired, "MissingContentLength", "You must provide the Content-Length HTTP header.")
	errInProgress       = refuse(http.StatusConflict, "OperationAborted", "A conflicting conditional operation is currently in progress against this resource. Try again.")
	errNoACL            = refuse(http.StatusBadRequest, "AccessControlListNotSupported", "The bucket does not allow ACLs: objects have the ACL of their bucket")
	errXMLTooLarge      = refuse(http.StatusBadRequest, "MaxMessageLengthExceeded", "Your request was too large.")
	errMetadataTooLarge = refuse(http.StatusBadRequest, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size of 2,048 bytes.")
	errHeadersTooLarge  = refuse(http.StatusBadRequest, "RequestHeaderSectionTooLarge", "Your request header exceeds the maximum allowed size of 8,192 bytes.").with(Field{"MaxSizeAllowed", itoa(buckets.MaxHeaders)})
	errPrecondition     = refuse(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	errVersion          = invalidArgument("versionId", "Invalid version id specified")
	errAlgorithm        = invalidRequest("Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]")
	errNotOwner         = refuse(http.StatusConflict, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded and you already own it.")
)

// because returns a copy with the reason, for the log alone.
func (e *Error) because(reason string) *Error {
	c := *e
	c.Cause = errcode.New(errcode.Denied, reason)
	return &c
}

// invalidArgument is S3's error for a bad header or parameter. name is its name as the client sent it.
func invalidArgument(name, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "InvalidArgument", Message: message, Fields: []Field{{"ArgumentName", name}}}
}

// errHeader refuses a header for a missing feature. detail describes its value, and may be empty.
func errHeader(name, detail string) *Error {
	return errNotImplemented(name + detail).with(Field{"Header", name})
}

// errNotImplemented refuses a feature. Ignoring it could store data in another way than the client asked for.
func errNotImplemented(what string) *Error {
	return refuse(http.StatusNotImplemented, "NotImplemented", "A header or query you provided implies functionality that is not implemented: "+what)
}

func invalidRequest(message string) *Error {
	return refuse(http.StatusBadRequest, "InvalidRequest", message)
}

// byStore maps the store's errors to S3's. The first match wins.
var byStore = []struct {
	err error
	is  *Error
}{
	{buckets.ErrNoBucket, errNoSuchBucket},
	{buckets.ErrNoAccount, refuse(http.StatusForbidden, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")},
	{buckets.ErrBucketNotEmpty, refuse(http.StatusConflict, "BucketNotEmpty", "The bucket you tried to delete is not empty.")},
	{buckets.ErrBucketName, refuse(http.StatusBadRequest, "InvalidBucketName", "The specified bucket is not valid: "+buckets.ErrBucketName.Error())},
	{buckets.ErrBucketExists, errNotOwner},
	{buckets.ErrNoObject, errNoSuchKey},
	{buckets.ErrNoVersion, errNoSuchVersion},
	{buckets.ErrVersionID, errVersion},
	{buckets.ErrMarker, errMethod},
	{buckets.ErrVersioning, errVersioning},
	{buckets.ErrPublicACL, errPublicACL},
	{buckets.ErrNoACL, errNoACL},
	{buckets.ErrPublicRead, errOwnerEnforced},
	{buckets.ErrPublicPolicy, errPublicPolicy},
	{buckets.ErrNoLock, errNoLock},
	{buckets.ErrLockVersioning, errLockState},
	{buckets.ErrRetention, errMalformedXML},
	{buckets.ErrRetentionPeriod, errPeriod},
	{buckets.ErrObjectNameTooLong, refuse(http.StatusBadRequest, "KeyTooLongError", "Your key is too long.").with(Field{"MaxSizeAllowed", itoa(buckets.MaxObjectName)})},
	{buckets.ErrObjectNameEmpty, refuse(http.StatusBadRequest, "UserKeyMustBeSpecified", "The key is missing.")},
	{buckets.ErrObjectName, invalidArgument("key", "The key is not UTF-8, or contains the character U+0000.")},
	{buckets.ErrPrecondition, errPrecondition},
	{buckets.ErrNotModified, errNotModified},
	{buckets.ErrNoUpload, refuse(http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.")},
	{buckets.ErrPartNumber, invalidArgument("partNumber", "Part number must be an integer between 1 and 10000, inclusive")},
	{buckets.ErrNoParts, refuse(http.StatusBadRequest, "MalformedXML", "You must specify at least one part")},
	{buckets.ErrPartOrder, refuse(http.StatusBadRequest, "InvalidPartOrder", "The list of parts was not in ascending order. Parts must be ordered by part number.")},
	{buckets.ErrPart, refuse(http.StatusBadRequest, "InvalidPart", "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.")},
	{buckets.ErrPartTooSmall, refuse(http.StatusBadRequest, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")},
	{buckets.ErrObjectSize, invalidRequest("The provided 'x-amz-mp-object-size' header does not match what was computed.")},
	{web.ErrHeaderTooLarge, errHeadersTooLarge},
	{web.ErrTransferEncoding, errHeader("Transfer-Encoding", "")},
	{buckets.ErrNotEnoughSpace, refuse(http.StatusInsufficientStorage, "InsufficientStorage", "The storage nodes do not have enough free space.")},
}

// asError finds the S3 error for any error. The order matters: specific types come before codes. Unknown errors become
// InternalError and hide their text.
func asError(err error) *Error {
	if e, ok := errors.AsType[*explained](err); ok {
		return e.is
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if invalid, ok := errors.AsType[*policy.Error](err); ok {
		return refuse(http.StatusBadRequest, "MalformedPolicy", invalid.Error())
	}
	if signature, ok := errors.AsType[*sigv4.Error](err); ok {
		return ofSignature(signature)
	}
	if condition, ok := errors.AsType[*web.ConditionError](err); ok {
		return invalidArgument(condition.Header, condition.Error())
	}
	for _, e := range byStore {
		if errors.Is(err, e.err) {
			return e.is.with(fieldsOf(err)...)
		}
	}
	if sum, ok := errors.AsType[*buckets.ChecksumError](err); ok {
		return refuse(http.StatusBadRequest, "BadDigest", "The "+sum.Algorithm+" you specified did not match the calculated checksum.")
	}
	if locked, ok := errors.AsType[*buckets.LockedError](err); ok {
		return refuse(http.StatusForbidden, "AccessDenied", "Access Denied because object protected by object lock: "+locked.Error())
	}
	if _, ok := errors.AsType[*buckets.QuotaError](err); ok {
		return &Error{Status: http.StatusForbidden, Code: "QuotaExceeded", Message: "The quota of the account or of the bucket is used up.", Cause: err}
	}
	switch {
	case errors.Is(err, fairshare.ErrFull):
		return &Error{Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate.", Cause: err}
	case errcode.Is(err, errcode.Unavailable):
		return &Error{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "Service is unable to handle request.", Cause: err}
	}
	for _, e := range byFault {
		if errcode.Is(err, e.code) {
			return &Error{Status: e.status, Code: e.name, Message: e.message, Cause: err}
		}
	}
	return &Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: "We encountered an internal error. Please try again.", Cause: err}
}

// byFault maps client errors without an S3 equivalent, e.g. from package web.
var byFault = []struct {
	code          errcode.Code
	status        int
	name, message string
}{
	{errcode.Invalid, http.StatusBadRequest, "InvalidRequest", "The request is not valid."},
	{errcode.TooLarge, http.StatusBadRequest, "EntityTooLarge", errTooLarge.Message},
	{errcode.Denied, http.StatusForbidden, "AccessDenied", errAccessDenied.Message},
	{errcode.NotFound, http.StatusNotFound, "NoSuchKey", errNoSuchKey.Message},
	{errcode.Conflict, http.StatusConflict, "OperationAborted", errInProgress.Message},
	{errcode.Precondition, errPrecondition.Status, errPrecondition.Code, errPrecondition.Message},
}

// ofSignature adds S3's fields, which show a developer why the signature differs.
func ofSignature(e *sigv4.Error) *Error {
	code := e.Kind.Code()
	out := &Error{Status: http.StatusBadRequest, Code: code, Message: e.Message, Cause: e}
	switch code {
	case "AccessDenied", "RequestTimeTooSkewed", "SignatureDoesNotMatch", "InvalidAccessKeyId":
		out.Status = http.StatusForbidden
	case "MissingContentLength":
		out.Status = http.StatusLengthRequired
	}
	add := func(name, value string) {
		if value != "" {
			out.Fields = append(out.Fields, Field{name, value})
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02T15:04:05Z")
	}
	names := [2]string{"ExpectedDigest", "CalculatedDigest"}
	switch e.Kind {
	case sigv4.PayloadHashMismatch:
		names = [2]string{"ClientComputedContentSHA256", "S3ComputedContentSHA256"}
	case sigv4.Contradiction:
		names = [2]string{"ArgumentName", "ArgumentValue"}
	case sigv4.SizeMismatch, sigv4.Incomplete:
		names = [2]string{"NumberBytesExpected", "NumberBytesProvided"}
	case sigv4.TooLarge:
		names = [2]string{"MaxSizeAllowed", "ProposedSize"}
	case sigv4.TooSmall:
		names = [2]string{"MinSizeAllowed", "ProposedSize"}
	case sigv4.TimeTooSkewed:
		add("MaxAllowedSkewMilliseconds", strconv.FormatInt(sigv4.MaxSkew.Milliseconds(), 10))
	}
	add("Region", e.Region)
	add("AWSAccessKeyId", e.AccessKeyID)
	add("StringToSign", e.StringToSign)
	add("StringToSignBytes", hexBytes(e.StringToSign))
	add("SignatureProvided", e.Signature)
	add("CanonicalRequest", e.CanonicalRequest)
	add("CanonicalRequestBytes", hexBytes(e.CanonicalRequest))
	add("HeadersNotSigned", strings.Join(e.Headers, ", "))
	add("RequestTime", at(e.RequestTime))
	add("Expires", at(e.Expires))
	add("ServerTime", at(e.ServerTime))
	if e.Lifetime > 0 {
		add("X-Amz-Expires", strconv.FormatInt(int64(e.Lifetime/time.Second), 10))
	}
	add(names[0], e.Expected)
	add(names[1], e.Computed)
	return out
}

// hexBytes shows bytes that a text hides, e.g. a carriage return.
func hexBytes(s string) string { return fmt.Sprintf("% x", cut(s, maxRepeated/3)) }

// fieldsOf returns the elements from a store error.
func fieldsOf(err error) []Field {
	part, ok := errors.AsType[*buckets.PartError](err)
	if !ok {
		return nil
	}
	fields := []Field{{"PartNumber", itoa(part.Number)}, {"ETag", part.ETag}}
	if part.Least > 0 {
		fields = append(fields, Field{"ProposedSize", strconv.FormatInt(part.Length, 10)}, Field{"MinSizeAllowed", strconv.FormatInt(part.Least, 10)})
	}
	return fields
}

// WriteError implements web.ErrorWriter. It accepts any error: one without an S3 code gets the code that fits its errcode.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e := asError(err)
	h := w.Header()
	if h.Get("X-Amz-Request-Id") == "" { // the request failed before Serve
		setRequestID(h)
	}
	if e.Status == http.StatusNotModified {
		h.Del("Content-Length")
		w.WriteHeader(e.Status)
		return
	}
	for name := range h {
		if isOfObject(name) && !mayDescribe(e.Status, name) {
			h.Del(name)
		}
	}
	for _, f := range e.Fields {
		if f.Name == "Region" {
			h.Set("X-Amz-Bucket-Region", repeated(f.Value)) // for HEAD, because the response has no body
		}
	}
	d := errorDocument(h, r, e)
	body := d.bytes()
	h.Set("Content-Type", "application/xml")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if e.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// mayDescribe reports whether S3 sends this object header with an error: the size with 416, and a delete marker's
// time with 405.
func mayDescribe(status int, name string) bool {
	return name == "Content-Range" && status == http.StatusRequestedRangeNotSatisfiable || name == "Last-Modified" && status == http.StatusMethodNotAllowed
}

// maxRepeated limits, in bytes, how much client input an error repeats.
const maxRepeated = 2 << 10

// repeated replaces characters that XML 1.0 does not allow, and shortens a text so that it also fits after escaping.
func repeated(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == '\ufffe' || r == '\uffff' {
			return utf8.RuneError
		}
		return r
	}, s)
	if s = cut(s, maxRepeated); len(appendText(nil, s)) > maxRepeated {
		s = cut(s, maxRepeated/maxEscaped)
	}
	return s
}

// errorDocument builds S3's error document.
func errorDocument(h http.Header, r *http.Request, e *Error) *document {
	d := &document{b: []byte(xmlHeader)}
	d.begin("Error")
	d.text("Code", e.Code)
	d.text("Message", repeated(e.Message))
	for _, f := range e.Fields {
		d.text(f.Name, repeated(f.Value))
	}
	d.text("Resource", repeated(resource(r)))
	d.text("RequestId", h.Get("X-Amz-Request-Id"))
	d.text("HostId", hostID)
	return d
}

// resource returns the path for an error. It omits the query, which may contain a signature.
func resource(r *http.Request) string {
	path, _, _ := strings.Cut(sigv4.FromHTTP(r).Target, "?")
	return path
}

// isOfObject reports whether a header describes the object. Errors must not contain such headers.
func isOfObject(name string) bool {
	switch name {
	case "Etag", "Last-Modified", "Accept-Ranges", "Content-Range", "X-Amz-Tagging-Count", "X-Amz-Mp-Parts-Count", "X-Amz-Expiration":
		return true
	}
	return slices.Contains(systemHeaders, name) || strings.HasPrefix(name, userHeader) || strings.HasPrefix(name, lockHeader) || strings.HasPrefix(name, "X-Amz-Checksum-")
}

// setRequestID sets the headers that people quote when they report a problem: the server's request ID under S3's header
// name, and the server.
func setRequestID(h http.Header) {
	id := h.Get("X-Request-Id")
	if id == "" {
		id = ident.Hex(8)
	}
	h.Set("X-Amz-Request-Id", id)
	h.Set("X-Amz-Id-2", hostID)
}
