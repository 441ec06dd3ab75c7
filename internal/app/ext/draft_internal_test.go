package ext

import (
	"strings"
	"testing"
)

// TestLineOf checks that a pointer's line is where its value begins in the typed text.
func TestLineOf(t *testing.T) {
	t.Parallel()
	const text = "{\n  \"a\": [1,\n    {\"__proto__\": 2,\n\n     \"b/c\": \"x\"}],\n  \"d\":\n    null\n}\n"
	for pointer, want := range map[string]int{
		"": 1, "/a": 2, "/a/0": 2, "/a/1": 3, "/a/1/__proto__": 3, "/a/1/b~1c": 5, "/d": 7, "/d/x": 7, "/a/1/missing": 3, "/missing": 1, "/a/9": 2,
	} {
		if got := lineOf(text, pointer); got != want {
			t.Errorf("%s: line %d, want %d", pointer, got, want)
		}
	}
	for text, want := range map[string]int{"": 1, "{": 1, "{\n\"a\": 1,\n}": 3, "{\n\"a\": \"b\n}": 2, "1\n2": 2, "\n\n\n": 3, strings.Repeat("[\n", 20_000): 10_001} {
		if got := lineOf(text, ""); got != want {
			t.Errorf("%.20q: line %d, want %d", text, got, want)
		}
	}
}

func TestFindIsLinear(t *testing.T) {
	t.Parallel()
	wide := "[" + strings.Repeat("1,\n", 100_000) + "2]"
	if got := lineOf(wide, "/100000"); got != 100_001 {
		t.Errorf("line %d", got)
	}
	deep := strings.Repeat(`{"a":`+"\n", 5000) + "1" + strings.Repeat("}", 5000)
	if got := lineOf(deep, strings.Repeat("/a", 5000)); got != 5001 {
		t.Errorf("line %d", got)
	}
}

func TestChosenColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a,b": "a|b", ` a, "b, c" ,d`: "error", `a, "b, c",d`: "a|b, c|d", "__proto__": "__proto__", "<script>": "<script>", "a\nb": "error", strings.Repeat("a,", 40): "error"} {
		names, err := chosenColumns(text)
		got := strings.Join(names, "|")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
}

func TestSchemaColumns(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		"true": "", "{}": "", `{"properties":3}`: "", `{"properties":{"a":true,"b":{"type":7}},"required":"a"}`: "",
		`{"properties":{"long":{"type":"string","format":"date-time"},"n":{"type":["integer","null"]},"s":{"type":["string","number"]}},"required":["long"]}`: "long@ n# s",
	} {
		var got []string
		for _, c := range schemaColumns([]byte(document)) {
			name := c.name
			if c.isNumber {
				name += "#"
			}
			if c.isTime {
				name += "@"
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
}
