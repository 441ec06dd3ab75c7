package s3api

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/buckets"
)

// TestReasonsOfAccessDenied checks that no code refuses access without a reason for the log: S3's own words say nothing.
func TestReasonsOfAccessDenied(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons, bare := 0, regexp.MustCompile(`errAccessDenied(\.because\(|\.Message|\b)`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range slices.Collect(strings.Lines(string(text))) {
			for _, m := range bare.FindAllStringSubmatch(line, -1) {
				switch {
				case m[1] == ".because(":
					reasons++
				case m[1] == ".Message", strings.Contains(line, "errAccessDenied     = "):
				default:
					t.Errorf("%s:%d: errAccessDenied without a reason: use because or denied", file, i+1)
				}
			}
		}
	}
	if reasons < 8 {
		t.Errorf("found %d reasons", reasons)
	}
}

func TestWordsOfKeyLimits(t *testing.T) {
	t.Parallel()
	l := buckets.KeyLimits{Buckets: []string{"photos", "log*"}, Prefix: "private/", Rights: []buckets.Right{buckets.RightRead, buckets.RightList}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	if got, want := l.Words(), "the buckets photos, log*; an object prefix; the rights read, list; some networks"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
