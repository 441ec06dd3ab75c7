package httpapi

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/openapitest"
)

// What the server routes is what the description tells, and nothing else.
func TestDescriptionHasTheRoutes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	description, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{install}", "3f1d5a52-6a0c-4c39-9d6f-0f3c2b1f6f10", "{namespace}", "settings", "{key}", "theme", "{version}", "1")
	described := map[resource][]string{}
	for _, r := range description.Routes() {
		to := parseRoute(fill.Replace(r.Path)).resource
		if to == nothing || !Owns(r.Path) {
			t.Errorf("%s is described and not routed", r.Path)
		}
		described[to] = append(described[to], r.Method)
	}
	for i, methods := range actions {
		routed := slices.Sorted(maps.Keys(methods))
		if is := slices.Sorted(slices.Values(described[resource(i)])); !slices.Equal(is, routed) {
			t.Errorf("%s: described are %v, routed %v", resource(i), is, routed)
		}
	}
}
