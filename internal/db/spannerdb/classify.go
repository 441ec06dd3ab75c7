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

	"holdfast/internal/fault"
)

// classify codes an error of the driver. Errors that carry a code already,
// which a service's step returned, pass.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[fault.Coder](err); coded {
		return err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fault.Wrap(fault.Unavailable, "the request ended before the database answered", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Unavailable, "the database took too long", err)
	}
	if tooLarge(err) {
		return fault.Wrap(fault.TooLarge, "the request is more than the database takes at once", err)
	}
	code, message := classifyStatus(spanner.ErrCode(err), spanner.ErrDesc(err))
	return fault.Wrap(code, message, err)
}

// tooLarge reports whether Spanner has refused a request for its size: of the
// mutations or the bytes of a transaction by InvalidArgument, of a message by
// ResourceExhausted. Its own refusals carry a link to the page of its limits.
// That is lost where they come as the result of a statement in a batch, and gRPC
// sends none, so the wording decides as well.
func tooLarge(err error) bool {
	text := spanner.ErrDesc(err)
	says := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(s string) bool { return strings.Contains(text, s) })
	}
	switch spanner.ErrCode(err) {
	case codes.InvalidArgument:
		return linksToLimits(err) ||
			says("too many mutations", "exceeds the maximum total bytes-size", "Transaction resource limits exceeded")
	case codes.ResourceExhausted:
		// A message that this process was to receive is of another size: gRPC for
		// Go has it in lower case.
		return says("send message larger than max", "Received message larger than max")
	}
	return false
}

// linksToLimits looks for the link among the details of an error and of those that
// it wraps: the driver's own status has none.
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

// classifyStatus is the code and sentence for a gRPC status.
func classifyStatus(status codes.Code, text string) (fault.Code, string) {
	switch status {
	case codes.Canceled:
		return fault.Unavailable, "the request ended before the database answered"
	case codes.DeadlineExceeded:
		return fault.Unavailable, "the database took too long"
	case codes.Unavailable:
		return fault.Unavailable, "the database cannot be reached"
	case codes.Aborted:
		return fault.Unavailable, "others hold what the request needs"
	case codes.ResourceExhausted:
		return fault.Unavailable, "the database has no capacity left"
	case codes.Unauthenticated, codes.PermissionDenied:
		return fault.Unavailable, "the database, or the right to use it, is missing"
	case codes.NotFound:
		if strings.Contains(text, lostSession) {
			return fault.Unavailable, "the database was replaced by another"
		}
		return fault.Unavailable, "the database, or a table that this release needs, is missing: run holdfast migrate"
	case codes.InvalidArgument:
		// A statement on a table or column that is not there; the others are
		// our mistakes.
		if strings.Contains(text, "not found") {
			return fault.Unavailable, "the database lacks what this release needs: run holdfast migrate"
		}
	}
	return fault.Internal, "internal error"
}
