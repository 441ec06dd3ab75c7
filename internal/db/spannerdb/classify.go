package spannerdb

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cloud.google.com/go/spanner"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
)

// classify gives Spanner's errors their errcode. All exported methods return its result.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[errcode.Coder](err); coded {
		return err
	}
	cause := &statusError{err}
	switch {
	case errors.Is(err, context.Canceled):
		return errcode.Wrap(errcode.Unavailable, "the request ended before the database answered", cause)
	case errors.Is(err, context.DeadlineExceeded):
		return errcode.Wrap(errcode.Unavailable, "the database took too long", cause)
	}
	if tooLarge(err) {
		return errcode.Wrap(errcode.TooLarge, "the request exceeds the limits of a database transaction", cause)
	}
	if known := errcode.Explain(cause, fserror.Short(err), fserror.Advice(err)); errcode.Is(known, errcode.Unavailable) {
		return known
	}
	status := spanner.ErrCode(err)
	code, message := classifyStatus(status, spanner.ErrDesc(err))
	if status == codes.Unknown { // no status of Spanner: an error of the client, before it reached the server
		if fix := errcode.NetworkFix(err); fix != "" {
			return &errcode.Error{Code: errcode.Unavailable, Message: "the database cannot be reached", Cause: cause, Fix: fix}
		}
		if strings.Contains(err.Error(), "credentials") {
			return &errcode.Error{Code: errcode.Unavailable, Message: "there are no credentials for the database", Cause: cause, Fix: errcode.CloudFix(codes.Unauthenticated.String())}
		}
	}
	fix := errcode.CloudFix(status.String())
	if code == errcode.Internal {
		fix = ""
	}
	return &errcode.Error{Code: code, Message: message, Cause: cause, Fix: fix}
}

// statusError prints a gRPC status in one line.
type statusError struct{ err error }

func (e *statusError) Unwrap() error { return e.err }

func (e *statusError) Error() string {
	if code := spanner.ErrCode(e.err); code != codes.Unknown {
		return "Spanner: " + spanner.ErrDesc(e.err) + " (" + code.String() + ")"
	}
	return e.err.Error()
}

// tooLarge reports whether Spanner rejected a request's size. The code is InvalidArgument for a transaction's
// mutations or bytes, and ResourceExhausted for a message. These errors link to the page about limits, except in
// batch results and gRPC errors; therefore the text is checked, too.
func tooLarge(err error) bool {
	text := spanner.ErrDesc(err)
	contains := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(s string) bool { return strings.Contains(text, s) })
	}
	switch spanner.ErrCode(err) {
	case codes.InvalidArgument:
		return linksToLimits(err) ||
			contains("too many mutations", "exceeds the maximum total bytes-size", "Transaction resource limits exceeded")
	case codes.ResourceExhausted:
		// In lower case, "received message larger than max" comes from gRPC for Go and means that a response was too
		// large.
		return contains("send message larger than max", "Received message larger than max")
	}
	return false
}

// linksToLimits searches the details of the error and its causes, because the driver's status lacks them.
func linksToLimits(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if slices.ContainsFunc(status.Convert(err).Details(), isLinkToLimits) {
			return true
		}
	}
	return false
}

func isLinkToLimits(detail any) bool {
	help, ok := detail.(*errdetails.Help)
	return ok && slices.ContainsFunc(help.GetLinks(), func(l *errdetails.Help_Link) bool {
		return strings.HasSuffix(l.GetUrl(), "/spanner/docs/limits") || strings.Contains(l.GetUrl(), "/spanner/quotas")
	})
}

// classifyStatus returns the errcode and the message for a gRPC status.
func classifyStatus(status codes.Code, text string) (errcode.Code, string) {
	switch status {
	case codes.Canceled:
		return errcode.Unavailable, "the request ended before the database answered"
	case codes.DeadlineExceeded:
		return errcode.Unavailable, "the database took too long"
	case codes.Unavailable:
		return errcode.Unavailable, "the database cannot be reached"
	case codes.Aborted:
		return errcode.Unavailable, "lock conflict, retry"
	case codes.ResourceExhausted:
		return errcode.Unavailable, "the database has no capacity left"
	case codes.Unauthenticated, codes.PermissionDenied:
		return errcode.Unavailable, "the database does not exist, or access is denied"
	case codes.NotFound:
		if strings.Contains(text, lostSession) {
			return errcode.Unavailable, "the database was replaced by another"
		}
		return errcode.Unavailable, "the database, or a table that this release needs, is missing: run holdfast migrate"
	case codes.InvalidArgument:
		// A table or column does not exist. Other causes are bugs.
		if strings.Contains(text, "not found") {
			return errcode.Unavailable, "the schema of the database is outdated: run holdfast migrate"
		}
	}
	return errcode.Internal, "internal error"
}
