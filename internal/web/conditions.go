package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// A condition header says under which condition a request may be carried out, e.g. If-Match. A client that sends one
// with a write relies on it: a server that drops it overwrites a change that the client has not seen. Therefore the mux
// refuses a write with a condition header that the route does not declare (Service.Conditions). A service that declares
// nothing gets this refusal for all its writes.
//
// A path that does not exist, or that does not support the method, gets the service's own 404 or 405, whatever conditions
// the request has. The mux knows the paths and methods from Service.Routes, so services need no code for this.
//
// The handler reads the declared headers, and answers 400 if their value is empty or malformed. Reads follow RFC 9110:
// they ignore the conditions that they do not apply, because nothing is lost by that.

// ConditionHeaders are the condition headers of HTTP and of all services, in canonical form. The mux also refuses
// others, which it recognizes by their names: see isCondition.
var ConditionHeaders = []string{
	"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", // RFC 9110, section 13.1
	"If",                                           // RFC 4918, section 10.4
	"If-Revision-Match",                            // extension storage
	"X-If-Modified-Since", "X-If-Unmodified-Since", // Firefox Sync
	"X-Amz-Copy-Source-If-Match", "X-Amz-Copy-Source-If-None-Match", // S3, CopyObject
	"X-Amz-Copy-Source-If-Modified-Since", "X-Amz-Copy-Source-If-Unmodified-Since",
	"X-Amz-If-Match-Initiated-Time", "X-Amz-If-Match-Last-Modified-Time", "X-Amz-If-Match-Size", // S3, DeleteObject and AbortMultipartUpload
}

// conditionPrefixes are the prefixes of names of condition headers in HTTP, Firefox Sync, S3 and Google Cloud Storage.
var conditionPrefixes = []string{"If-", "X-If-", "X-Amz-If-", "X-Amz-Copy-Source-If-", "X-Goog-If-"}

// isCondition reports whether a header with this canonical name makes a request conditional.
func isCondition(name string) bool {
	return name == "If" || slices.ContainsFunc(conditionPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Conditions are the condition headers that a route applies.
type Conditions struct {
	// Applied are the names in canonical form.
	Applied []string

	// Instead is the advice for a client with another condition, e.g. "use ifRevision in the items". If it is empty, the
	// error lists the applied headers.
	Instead string

	// Checked means that the mux passes all requests on, and the handler calls Check: the path and the method do not
	// select the operation, or the protocol has its own error.
	Checked bool
}

// CheckedByHandler is a Service.Conditions for handlers whose operation does not follow from path and method: they check the
// conditions of all their operations themselves.
func CheckedByHandler(*http.Request, Address) Conditions {
	return Conditions{Checked: true}
}

// ConditionError is the cause of a refused condition header; see RefuseCondition.
type ConditionError struct {
	Header string // canonical name; "" if it is none of ConditionHeaders, because it is then text of the client
	Reason string // the problem and the expected value; it continues a sentence that begins with the name
}

// Error names the header and the problem.
func (e *ConditionError) Error() string {
	return cmp.Or(e.Header, "an unknown condition header") + " " + e.Reason
}

// Unwrap returns the message for protocols that have no code or field for headers.
func (e *ConditionError) Unwrap() error { return errcode.New(errcode.Invalid, e.Error()) }

// RefuseCondition returns a Refusal with status 400, whose cause is a ConditionError.
func RefuseCondition(header, reason string) *Refusal {
	cause := &ConditionError{header, reason}
	return RefuseFor(cause, http.StatusBadRequest, "invalid", cause.Error())
}

// Check refuses condition headers that are not applied.
func (c *Conditions) Check(h http.Header) error {
	for name := range h {
		if !isCondition(name) || slices.Contains(c.Applied, name) {
			continue
		}
		if !slices.Contains(ConditionHeaders, name) {
			name = ""
		}
		return RefuseCondition(name, "is not supported by this request: "+c.instead())
	}
	return nil
}

// instead is the advice at the end of the message.
func (c *Conditions) instead() string {
	switch {
	case c.Instead != "":
		return c.Instead
	case len(c.Applied) == 0:
		return "send the request without a condition"
	}
	return "use " + strings.Join(c.Applied, " or ")
}

// isRead reports whether a method is safe (RFC 9110, section 9.2.1). Handlers whose GET changes something call
// Conditions.Check themselves.
func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}

// checkConditions refuses writes with condition headers that the route does not apply. It first checks without asking
// the service, because nearly all requests have no condition.
func (service *Service) checkConditions(r *http.Request, at Address) error {
	if isRead(r.Method) {
		return nil
	}
	var declared Conditions
	err := declared.Check(r.Header)
	if err == nil { // few requests have conditions
		return nil
	}
	if service.lacks(at.Path, r.Method) {
		return nil // the handler answers 404 or 405
	}
	if service.Conditions != nil {
		declared = service.Conditions(r, at)
		err = declared.Check(r.Header)
	}
	if declared.Checked {
		return nil
	}
	return err
}

// lacks reports whether the service's Routes do not contain the method for the path. It is false if Routes is nil, because
// nothing is known then.
func (service *Service) lacks(path, method string) bool {
	return service.Routes != nil && !slices.Contains(service.Routes, Route{service.Route(path), method})
}
