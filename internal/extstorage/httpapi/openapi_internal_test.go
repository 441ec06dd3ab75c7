package httpapi

import (
	"encoding/json"
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

// TestDescriptionHasTheGuards: the conditional headers of a write in the description are those that it supports.
func TestDescriptionHasTheGuards(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	type parameter struct {
		Name string `json:"name"`
		In   string `json:"in"`
		Ref  string `json:"$ref"`
	}
	var description struct {
		Paths      map[string]map[string]json.RawMessage // some members of a path are not operations
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal(text, &description); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{install}", "3f1d5a52-6a0c-4c39-9d6f-0f3c2b1f6f10", "{namespace}", "settings", "{key}", "theme", "{version}", "1")
	checked := 0
	for path, operations := range description.Paths {
		for method, raw := range operations {
			act := actions[parseRoute(fill.Replace(path)).resource][strings.ToUpper(method)]
			if act == nil || method == "get" || method == "head" {
				continue
			}
			var op struct{ Parameters []parameter }
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			var described []string
			for _, p := range op.Parameters {
				if name := strings.TrimPrefix(p.Ref, "#/components/parameters/"); name != p.Ref {
					p = description.Components.Parameters[name]
				}
				if p.In == "header" && slices.Contains(conditionalHeaders[:], p.Name) {
					described = append(described, p.Name)
				}
			}
			slices.Sort(described)
			if !slices.Equal(described, act.guards.headers) {
				t.Errorf("%s %s: described are %v, supported %v", method, path, described, act.guards.headers)
			}
			if act.guards.instead == "" {
				t.Errorf("%s %s does not say what to send instead of a header that it refuses", method, path)
			}
			checked++
		}
	}
	if checked != 10 {
		t.Errorf("only %d writes were checked", checked)
	}
}
