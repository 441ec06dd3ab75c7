package pgdb

import (
	"slices"
	"testing"
)

func TestSplitStatements(t *testing.T) {
	t.Parallel()
	const script = `-- A comment; with a semicolon
CREATE TABLE a (
	id int -- not the end;
);
ALTER TABLE a ADD COLUMN b int; -- ID
CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	RETURN 1; -- of $1
END $$;
DO $do$ BEGIN
	EXECUTE 'SELECT 1';
END $do$;

SELECT f();
-- the end
`
	want := []string{
		"-- A comment; with a semicolon\nCREATE TABLE a (\n\tid int -- not the end;\n);\n",
		"ALTER TABLE a ADD COLUMN b int; -- ID\n",
		"CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\n\tRETURN 1; -- of $1\nEND $$;\n",
		"DO $do$ BEGIN\n\tEXECUTE 'SELECT 1';\nEND $do$;\n",
		"\nSELECT f();\n",
	}
	if got := splitStatements(script); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, empty := range []string{"", "\n", "-- nothing\n"} {
		if got := splitStatements(empty); len(got) != 0 {
			t.Errorf("%q: %q", empty, got)
		}
	}
	if got := splitStatements("SELECT 1; SELECT 2"); len(got) != 1 {
		t.Errorf("without a semicolon at the end of the line: %q", got)
	}
}
