package spannerdb

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"holdfast/internal/fault"
)

func TestClassifyStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status codes.Code
		text   string
		want   fault.Code
	}{
		{codes.Unavailable, "connection refused", fault.Unavailable},
		{codes.DeadlineExceeded, "", fault.Unavailable},
		{codes.Canceled, "", fault.Unavailable},
		{codes.Aborted, "", fault.Unavailable},
		{codes.ResourceExhausted, "", fault.Unavailable},
		{codes.PermissionDenied, "", fault.Unavailable},
		{codes.Unauthenticated, "", fault.Unavailable},
		{codes.NotFound, "Database not found", fault.Unavailable},
		{codes.NotFound, "Session not found: projects/p", fault.Unavailable},
		{codes.InvalidArgument, "Table not found: bsos", fault.Unavailable},
		{codes.InvalidArgument, "Syntax error", fault.Internal},
		{codes.FailedPrecondition, "too many mutations", fault.Internal},
		{codes.AlreadyExists, "", fault.Internal},
		{codes.Internal, "", fault.Internal},
		{codes.Unknown, "", fault.Internal},
	} {
		if got, message := classifyStatus(tc.status, tc.text); got != tc.want || message == "" {
			t.Errorf("%v %q: %v %q, want %v", tc.status, tc.text, got, message, tc.want)
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

// trimmed is the statements without the indentation of their lines.
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
