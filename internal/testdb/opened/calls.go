package opened

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
)

const functionParameters = `
	SELECT concat_ws(' ', proname, array_to_string(proargnames[:pronargs], ' '))
	FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
	WHERE nspname IN ('public', 'bff_consumer') AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')`

var givenNames = regexp.MustCompile(`(\w+) => `)

// WantNamedCalls checks a package's statements that call functions in its migrations, in a migrated database: each
// call names every parameter, and the server finds the function for the types. The test must be in the package's
// folder, and no such statement may be missing.
func WantNamedCalls(t testing.TB, db *pgdb.DB, statements ...pgdb.Statement) {
	t.Helper()
	functions := map[string][]string{}
	var names []string
	for _, line := range Lines(t, db, functionParameters) {
		words := strings.Fields(line)
		functions[words[0]], names = slices.Sorted(slices.Values(words[1:])), append(names, words[0])
	}
	calls := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\(`)
	var seen []string
	for i, s := range statements {
		seen = append(seen, s.Name)
		all := calls.FindAllStringSubmatchIndex(s.SQL, -1)
		if len(all) == 0 {
			t.Errorf("%s calls no function: %s", s.Name, s.SQL)
		}
		for _, at := range all {
			name := s.SQL[at[2]:at[3]]
			var given []string
			for _, found := range givenNames.FindAllStringSubmatch(parenthesized(s.SQL[at[1]:]), -1) {
				given = append(given, found[1])
			}
			if slices.Sort(given); !slices.Equal(given, functions[name]) {
				t.Errorf("%s: the arguments of %s are\n%v, its parameters are\n%v", s.Name, name, given, functions[name])
			}
		}
		if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: fmt.Sprintf(`PREPARE named_%d AS %s`, i, s.SQL)}); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	for _, name := range statementsThat(t, calls) {
		if !slices.Contains(seen, name) {
			t.Errorf("%s calls a function and is not in the list", name)
		}
	}
}

func statementsThat(t testing.TB, matches *regexp.Regexp) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range strings.Split(string(text), `pgdb.Statement{Name: "`)[1:] {
			name, rest, _ := strings.Cut(statement, `"`)
			if !strings.HasSuffix(file, "_test.go") && matches.MatchString(rest) {
				names = append(names, name)
			}
		}
	}
	return names
}

func parenthesized(text string) string {
	depth := 1
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return text[:i]
		}
	}
	return text
}
