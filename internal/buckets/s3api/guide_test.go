package s3api_test

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/buckets/s3api"
)

// TestConditionKeysInGuide compares the table of condition keys in the guide with the operations. If it fails, copy the
// printed table into the guide.
func TestConditionKeysInGuide(t *testing.T) {
	t.Parallel()
	const guide, begin, end = "../../../docs/buckets-reference.md", "<!-- condition keys of operations -->\n", "<!-- end of condition keys of operations -->"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), begin)
	got, _, ok2 := strings.Cut(rest, end)
	if want := conditionKeys(); !ok || !ok2 || got != want {
		t.Errorf("%s: the table of condition keys is\n%s\nwant\n%s", guide, got, want)
	}
}

func conditionKeys() string {
	rows := map[string][]string{} // operations by keys
	for _, r := range s3api.Routes() {
		var keys []string
		for _, k := range r.Keys {
			name := string(k)
			switch name {
			case "s3:ExistingObjectTag", "s3:RequestObjectTag":
				name += "/KEY"
			}
			keys = append(keys, "`"+name+"`")
		}
		slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
		name := r.Method + map[bool]string{true: " object", false: " bucket"}[r.OfObject]
		if r.Parameter != "" {
			name += " `?" + r.Parameter + "`"
		}
		of := strings.Join(keys, ", ")
		rows[of] = append(rows[of], name)
	}
	delete(rows, "")
	var lines []string
	for keys, operations := range rows {
		lines = append(lines, "| "+strings.Join(operations, ", ")+" | "+keys+" |\n")
	}
	slices.Sort(lines)
	return "| operation | condition keys |\n|---|---|\n" + strings.Join(lines, "")
}
