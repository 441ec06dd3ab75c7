package archtest

import (
	"fmt"
	"testing"
)

// unbuilt are modules that nothing here needs, though newer versions of a client link them. Decision 67 has the costs.
var unbuilt = []string{"github.com/apache/arrow-go", "github.com/goccy/go-json"}

func TestFirstBuild(t *testing.T) {
	t.Parallel()
	_, packages := goList(t, "-deps", "./cmd/holdfast")
	report(t, built(packages))
}

func built(packages []string) (wrong []string) {
	for _, module := range unbuilt {
		for _, name := range packages {
			if within(name, module) {
				wrong = append(wrong, fmt.Sprintf("holdfast links %s: see docs/decisions/0067-cold-build.md", name))
				break
			}
		}
	}
	return wrong
}

func TestFirstBuildBites(t *testing.T) {
	t.Parallel()
	if got := built([]string{"io", unbuilt[0] + "/v18/arrow", unbuilt[0] + "/v18/arrow/array"}); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}
