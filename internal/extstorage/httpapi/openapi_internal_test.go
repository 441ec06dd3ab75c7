package httpapi

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/web"

	"holdfast/internal/openapitest"
)

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

type parameter struct {
	Name string `json:"name"`
	In   string `json:"in"`
	Ref  string `json:"$ref"`
}

func conditions(t *testing.T, operation []byte, shared map[string]parameter) (names []string) {
	t.Helper()
	var described struct{ Parameters []parameter }
	if err := json.Unmarshal(operation, &described); err != nil {
		t.Fatal(err)
	}
	for _, p := range described.Parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p = shared[name]
		}
		if p.In == "header" && slices.Contains(web.ConditionHeaders, p.Name) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestDescriptionHasTheGuards(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var description struct {
		Paths      map[string]map[string]json.RawMessage // some members are not operations
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
			if act == nil {
				continue
			}
			described := conditions(t, raw, description.Components.Parameters)
			if !slices.Equal(described, act.conditions.Applied) {
				t.Errorf("%s %s: described are %v, supported %v", method, path, described, act.conditions.Applied)
			}
			if method != "get" && method != "head" && act.conditions.Instead == "" {
				t.Errorf("%s %s does not say what to send instead of a header that it refuses", method, path)
			}
			checked++
		}
	}
	if checked != 21 {
		t.Errorf("%d operations were checked", checked)
	}
}
