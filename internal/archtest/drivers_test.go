package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// drivers lists libraries that take minutes to compile with the race detector and seconds to link, and the only
// packages of the server that may depend on them, directly or not. All other packages get values from
// cmd/holdfast.
var drivers = map[string][]string{
	"cloud.google.com/go/spanner": {"internal/db/spannerdb", "internal/syncstorage/spanner", "internal/engines/spanner", "internal/engines/all"},
	"google.golang.org/grpc": {
		"internal/db/spannerdb", "internal/syncstorage/spanner", "internal/engines/spanner", "internal/testdb/spannertest",
		"internal/broker/pubsub", "internal/engines/pubsub",
		"internal/cloudbucket", "internal/replica/cloudtarget", "internal/buckets/blobs/clouddriver", "internal/engines/cloud",
		"internal/obs/tracing", "internal/engines/otlp",
		"internal/engines/all",
	},
	"github.com/nats-io/nats.go": {"internal/broker/nats", "internal/engines/nats", "internal/engines/all"},
}

// TestDrivers checks which packages depend on which drivers.
func TestDrivers(t *testing.T) {
	t.Parallel()
	_, packages := goList(t, "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./internal/...")
	report(t, linked(packages, drivers))
}

// linked takes lines with a package and its dependencies.
func linked(packages []string, drivers map[string][]string) (wrong []string) {
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		allowed, may := drivers[driver], []string{}
		for _, line := range packages {
			name, deps, _ := strings.Cut(line, " ")
			folder, _ := ours(name)
			if !strings.Contains(" "+deps+" ", " "+driver+" ") {
				continue
			}
			may = append(may, folder)
			if !slices.Contains(allowed, folder) {
				wrong = append(wrong, fmt.Sprintf("%s depends on %s: take a value of internal/engines instead, which cmd/holdfast hands over", folder, driver))
			}
		}
		for _, folder := range allowed {
			if !slices.Contains(may, folder) {
				wrong = append(wrong, fmt.Sprintf("%s does not depend on %s: remove it from this list", folder, driver))
			}
		}
	}
	return wrong
}

func TestDriversBite(t *testing.T) {
	t.Parallel()
	got := linked([]string{"holdfast/internal/toydb toys.example/driver", "holdfast/internal/app holdfast/internal/toydb toys.example/driver io", "holdfast/internal/obs io toys.example/driver2"},
		map[string][]string{"toys.example/driver": {"internal/toydb", "internal/obs"}})
	want := []string{
		"internal/app depends on toys.example/driver: take a value of internal/engines instead, which cmd/holdfast hands over",
		"internal/obs does not depend on toys.example/driver: remove it from this list",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
