//test:unraced its goroutines share nothing

package migrate

import (
	"strings"
	"testing"
)

// TestNormalize checks that comments and white space do not change a checksum, and that every other change does.
func TestNormalize(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"CREATE TABLE a (b TEXT, c INT);", "-- a table\nCREATE  TABLE a(b TEXT,\n\tc INT) ; -- end", "/* a\n * table */CREATE TABLE a ( b TEXT , c INT );\n"},
		{"SELECT a+1", "SELECT a + 1", "SELECT/**/a\n+1"},
		{"x = 'a  -- b'", "x='a  -- b'\n"},
		{"DO $$ a  -- b\n $$", "DO\n$$ a  -- b\n $$ -- c"},
		{"SELECT 'it''s'", "SELECT  'it''s' -- it's"},
	} {
		for _, text := range same {
			if checksum(text) != checksum(same[0]) {
				t.Errorf("%q and %q differ", same[0], text)
			}
		}
	}
	all := []string{
		"SELECT ab", "SELECT a b", "SELECT 'a b'", "SELECT 'a  b'", "SELECT 'a -- b'", "SELECT 'a /* */ b'", `SELECT "a b"`, `SELECT "a  b"`, "SELECT `a  b`", "SELECT `a b`",
		"DO $$ a $$", "DO $$ a  $$", "DO $$ a -- b\n $$", "DO $x$ a $$ b  $x$", "DO $x$ a $$ b $x$", "SELECT a - -1", "SELECT a -1", "SELECT 'a' 'b'", "SELECT 'a''b'", "SELECT a < -1", "SELECT a <- 1",
		"SELECT E'\\' -- a'", "SELECT E'\\'  -- a'", "SELECT E'\\' -- b'", "/* /* a */ b */ SELECT 1", "/* /* a */ c */ SELECT 1", "SELECT 1 # 2", "SELECT 1 # 3", "SELECT 'open  ", "SELECT 'open ",
		"SELECT $1", "SELECT $1, $2", "a$$b$$  c", "a$$b$$ c d",
	}
	seen := map[string]string{}
	for _, text := range all {
		if other := seen[checksum(text)]; other != "" {
			t.Errorf("%q has the checksum of %q", text, other)
		}
		seen[checksum(text)] = text
	}
}

// FuzzNormalize checks that normalization is stable: a normalized text stays as it is, with any comment around it.
func FuzzNormalize(f *testing.F) {
	f.Add("CREATE TABLE a (b TEXT DEFAULT 'x -- y'); -- end")
	f.Add("DO $a$ 'it' $a$; /* c */ SELECT 1.5")
	f.Fuzz(func(t *testing.T, sql string) {
		short, ok := normalize(sql)
		if !ok {
			return
		}
		if again, ok := normalize(short); !ok || again != short {
			t.Errorf("%q: %q, then %q, %v", sql, short, again, ok)
		}
		if more, ok := normalize("-- it's\n" + sql + "\n/* a 'comment' */\n"); ok && more != short {
			t.Errorf("%q with comments: %q, not %q", sql, more, short)
		}
		if strings.Trim(short, " \n\t") != short {
			t.Errorf("%q has white space around it", short)
		}
	})
}
