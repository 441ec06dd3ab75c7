package buckets

import (
	"strings"
	"testing"
)

// TestIndented checks that JSON is indented unless it becomes too wide, and that other text is not.
func TestIndented(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat("[", mostNested+1) + strings.Repeat("]", mostNested+1)
	for text, want := range map[string]string{
		`{"a":[1,{"b":1.50}],"c":"]"}`: "{\n  \"a\": [\n    1,\n    {\n      \"b\": 1.50\n    }\n  ],\n  \"c\": \"]\"\n}",
		`{"a":1`:                       `{"a":1`,
		`{"a":1} x`:                    `{"a":1} x`,
		"some, text":                   "some, text",
		nested:                         nested,
		strings.Repeat("[", 100_000):   strings.Repeat("[", 100_000),
	} {
		if got := indented([]byte(text)); got != want {
			t.Errorf("%.60s: %.200s", text, got)
		}
	}
	most := strings.Repeat("[", mostNested) + strings.Repeat("1,", previewText/2) + "1" + strings.Repeat("]", mostNested)
	if got := indented([]byte(most)); len(got) < len(most) || len(got) > 30*previewText {
		t.Errorf("%d bytes of %d", len(got), len(most))
	}
}
