package spannerdb

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"cloud.google.com/go/spanner"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/internal/errcode"
)

func TestClassifyStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status codes.Code
		text   string
		want   errcode.Code
	}{
		{codes.Unavailable, "connection refused", errcode.Unavailable},
		{codes.DeadlineExceeded, "", errcode.Unavailable},
		{codes.Canceled, "", errcode.Unavailable},
		{codes.Aborted, "", errcode.Unavailable},
		{codes.ResourceExhausted, "", errcode.Unavailable},
		{codes.PermissionDenied, "", errcode.Unavailable},
		{codes.Unauthenticated, "", errcode.Unavailable},
		{codes.NotFound, "Database not found", errcode.Unavailable},
		{codes.NotFound, "Session not found: projects/p", errcode.Unavailable},
		{codes.InvalidArgument, "Table not found: bsos", errcode.Unavailable},
		{codes.InvalidArgument, "Syntax error", errcode.Internal},
		{codes.FailedPrecondition, "too many mutations", errcode.Internal},
		{codes.AlreadyExists, "", errcode.Internal},
		{codes.Internal, "", errcode.Internal},
		{codes.Unknown, "", errcode.Internal},
	} {
		if got, message := classifyStatus(tc.status, tc.text); got != tc.want || message == "" {
			t.Errorf("%v %q: %v %q, want %v", tc.status, tc.text, got, message, tc.want)
		}
	}
}

func TestStatusError(t *testing.T) {
	t.Parallel()
	late := spanner.ToSpannerError(status.Error(codes.DeadlineExceeded, "timeout"))
	for _, tc := range []struct {
		err  error
		want string
	}{
		{late, "the database took too long: Spanner: timeout (DeadlineExceeded)"},
		{fmt.Errorf("commit: %w", late), "the database took too long: Spanner: timeout (DeadlineExceeded)"},
		{
			spanner.ToSpannerError(status.Error(codes.NotFound, "Instance not found: projects/demo")),
			"the database, or a table that this release needs, is missing: run holdfast migrate: Spanner: Instance not found: projects/demo (NotFound); the resource does not exist: create it, or correct its name",
		},
		{errors.New("a bug"), "internal error: a bug"},
	} {
		if got := classify(tc.err); got.Error() != tc.want || !errors.Is(got, tc.err) {
			t.Errorf("%v: got %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestLostByEmulator(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("Transaction not found: 7"), false},
		{spanner.ToSpannerError(status.Error(codes.NotFound, "Transaction not found: 7")), true},
		{spanner.ToSpannerError(status.Error(codes.NotFound, "Database not found")), false},
		{spanner.ToSpannerError(status.Error(codes.FailedPrecondition, "Invalid transaction ID. Transaction ID must be >= 7")), true},
		{spanner.ToSpannerError(status.Error(codes.FailedPrecondition, "too many mutations")), false},
	} {
		for _, emulator := range []chan struct{}{nil, make(chan struct{}, 1)} {
			calls := 0
			err := (&DB{alone: emulator}).repeatLost(func() error {
				if calls++; calls == 1 {
					return tc.err
				}
				return nil
			})
			if repeated := tc.want && emulator != nil; repeated != (calls == 2) || !repeated && !errors.Is(err, tc.err) {
				t.Errorf("%v: %d calls, %v", tc.err, calls, err)
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	const (
		mutations = "The transaction contains too many mutations. Insert and update operations count with the multiplicity of the number of columns they affect. (Maximum number: 80000)"
		bytes     = "The transaction exceeds the maximum total bytes-size that can be handled by Spanner. (Maximum size: 104857600)"
		limits    = "https://cloud.google.com/spanner/docs/limits"
	)
	for _, tc := range []struct {
		name string
		code codes.Code
		text string
		link string
		want errcode.Code
	}{
		{"mutations", codes.InvalidArgument, mutations, limits, errcode.TooLarge},
		{"mutations, as the result of a statement", codes.InvalidArgument, mutations, "", errcode.TooLarge},
		{"bytes", codes.InvalidArgument, bytes, "", errcode.TooLarge},
		{"resources", codes.InvalidArgument, "Transaction resource limits exceeded", "", errcode.TooLarge},
		{"another text", codes.InvalidArgument, "This is rather much.", limits, errcode.TooLarge},
		{"another text, newer page", codes.InvalidArgument, "This is rather much.", "https://docs.cloud.google.com/spanner/quotas#limits-for", errcode.TooLarge},
		{"a message, by the server", codes.ResourceExhausted, "SERVER: Received message larger than max (1000422248 vs. 104857600)", "", errcode.TooLarge},
		{"a message, by the client", codes.ResourceExhausted, "trying to send message larger than max (5 vs. 4)", "", errcode.TooLarge},

		{"an answer", codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)", "", errcode.Unavailable},
		{"capacity", codes.ResourceExhausted, "Quota exceeded", limits, errcode.Unavailable},
		{"another link", codes.InvalidArgument, "Syntax error", "https://cloud.google.com/spanner/docs/lexical", errcode.Internal},
		{"another code", codes.FailedPrecondition, mutations, limits, errcode.Internal},
	} {
		st := status.New(tc.code, tc.text)
		if tc.link != "" {
			var err error
			if st, err = st.WithDetails(&errdetails.Help{Links: []*errdetails.Help_Link{{Url: tc.link}}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{st.Err(), spanner.ToSpannerError(st.Err()), fmt.Errorf("wrapped: %w", spanner.ToSpannerError(st.Err()))} {
			if got := classify(err); !errcode.Is(got, tc.want) || !errors.Is(got, err) {
				t.Errorf("%s: %v of %T, want %v", tc.name, errcode.Of(got), err, tc.want)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	ddl, dml := split(`-- A comment; with a semicolon
CREATE TABLE a (
	-- inside;
	id INT64 NOT NULL,
) PRIMARY KEY (id);

INSERT INTO a (id) VALUES
	(1), (2);
ALTER TABLE a ADD COLUMN b INT64;
DROP INDEX i;
UPDATE a SET b = 1 WHERE TRUE;
`)
	if want := []string{"CREATE TABLE a (\nid INT64 NOT NULL,\n) PRIMARY KEY (id)", "ALTER TABLE a ADD COLUMN b INT64", "DROP INDEX i"}; !slices.Equal(trimmed(ddl), want) {
		t.Errorf("changes of the schema: %q", ddl)
	}
	if want := []string{"INSERT INTO a (id) VALUES\n(1), (2)", "UPDATE a SET b = 1 WHERE TRUE"}; !slices.Equal(trimmed(dml), want) {
		t.Errorf("changes of data: %q", dml)
	}
	if ddl, dml := split("-- nothing\n\n"); ddl != nil || dml != nil {
		t.Errorf("nothing: %q %q", ddl, dml)
	}
}

func trimmed(statements []string) (all []string) {
	for _, s := range statements {
		all = append(all, stripped(s))
	}
	return all
}

func stripped(s string) string {
	var b []byte
	for i := range len(s) {
		if s[i] != '\t' {
			b = append(b, s[i])
		}
	}
	return string(b)
}
