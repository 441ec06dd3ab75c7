package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRacedPackages checks that no test under the race detector needs gRPC, which takes longer to compile than all
// other raced packages together.
func TestRacedPackages(t *testing.T) {
	t.Parallel()
	root, packages := goList(t, "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./internal/...")
	raced := 0
	for _, line := range packages {
		name, deps, _ := strings.Cut(line, " ")
		name, isTest := strings.CutSuffix(name, ".test")
		folder, _ := ours(name)
		if !isTest {
			continue
		}
		why := whyUnraced(t, filepath.Join(root, folder))
		switch slow := strings.Contains(" "+deps+" ", " google.golang.org/grpc "); {
		case why == "":
			raced++
			if slow {
				t.Errorf("%s depends on gRPC: without that import, or with //test:unraced WHY in a file of its tests, make check is faster", folder)
			}
		case strings.Contains(why, "gRPC") && !slow:
			t.Errorf("%s does not depend on gRPC: test it with the race detector", folder)
		}
	}
	if raced < 20 {
		t.Errorf("found only %d packages that are tested with the race detector", raced)
	}
}

// whyUnraced returns why a folder's tests run without the race detector, or "". test/packages reads the same comment.
func whyUnraced(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if why, ok := strings.CutPrefix(line, "//test:unraced "); ok {
				return strings.TrimSpace(why)
			}
		}
	}
	return ""
}
