package httpapi

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/openapitest"
)

// TestDescriptionHasTheRoutes checks that the API description contains exactly the routes of the main and internal
// listeners. The admin listener's routes are generated from the operations.
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
	const id = "11111111-2222-4333-8444-555555555555"
	fill := strings.NewReplacer("{srsId}", "srs_01KB2Q4Y7N5M3K2H1G0F9E8D7B", "{propertyId}", id, "{tenantId}", id, "{id}", "bhd_01KB2Q4Y7N5M3K2H1G0F9E8D7B")
	described, others := map[string][]string{}, []string(nil)
	ids := regexp.MustCompile(`"operationId": "(\w+)"`).FindAllString(string(openAPI), -1)
	if slices.Sort(ids); len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("operations have the same ID: %s", ids)
	}
	for _, r := range description.Routes() {
		path := fill.Replace(r.Path)
		if strings.HasPrefix(path, "/guest/") {
			continue // admin listener
		}
		if !Owns(path) {
			if !OwnsReceiver(path) && !OwnsEvents(path) {
				t.Errorf("%s is described and not routed", r.Path)
			}
			others = append(others, r.Method+" "+r.Path)
			continue
		}
		template := parseRoute(path).template
		if prefix+strings.TrimPrefix(template, "/") != r.Path {
			t.Errorf("%s is described, and routed as %q", r.Path, template)
		}
		described[template] = append(described[template], r.Method)
	}
	for template, methods := range actions {
		routed := slices.Sorted(maps.Keys(methods))
		if is := slices.Sorted(slices.Values(described[template])); !slices.Equal(is, routed) {
			t.Errorf("%s: described are %v, routed %v", template, is, routed)
		}
	}
	routed := []string{"POST " + eventsPath}
	for _, operation := range receiverOperations {
		if _, _, ok := parseReceiver(receiverPrefix + "bhd_1/" + operation); !ok {
			t.Errorf("%s is not routed", operation)
		}
		routed = append(routed, http.MethodPost+" "+receiverPrefix+"{id}/"+operation)
	}
	if is, want := slices.Sorted(slices.Values(others)), slices.Sorted(slices.Values(routed)); !slices.Equal(is, want) {
		t.Errorf("described on the other listeners are\n%v, routed\n%v", is, want)
	}
}

func TestOwns(t *testing.T) {
	t.Parallel()
	for path, owned := range map[string]bool{
		"/bff/consumer/v1": true, "/bff/consumer/v1/": true, "/bff/consumer/v1/session": true, "/bff/consumer/v1x": false, "/bff/consumer": false, "/": false,
	} {
		if Owns(path) != owned {
			t.Errorf("%s: %t", path, !owned)
		}
		if label := Label(path); !strings.HasSuffix(path, "/session") && label != "unknown" {
			t.Errorf("%s: %s", path, label)
		}
	}
}
