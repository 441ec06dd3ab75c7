package spannerdb

import (
	"context"
	"errors"
	"strings"

	"cloud.google.com/go/spanner"
	"google.golang.org/grpc/codes"

	"holdfast/internal/fault"
)

// classify codes an error of the driver. Errors that carry a code already,
// which a room's step returned, pass.
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
	code, message := classifyStatus(spanner.ErrCode(err), spanner.ErrDesc(err))
	return fault.Wrap(code, message, err)
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
