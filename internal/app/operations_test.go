package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/app/cli"
	"holdfast/internal/openapitest"
	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	pages "holdfast/internal/operate/console"
)

// descriptions are the API descriptions of the services with operations.
var descriptions = map[string]string{"guest": "../guest/httpapi/openapi.json"}

// TestOperations walks the operations of all services: each has a command with a help, a page or a button,
// and a route that the API description has.
func TestOperations(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range app.Services() {
		if len(s.Operations) == 0 {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(descriptions[s.Name]))
		if err != nil {
			t.Errorf("%s: %v: add its API description to this test", s.Name, err)
			continue
		}
		described, err := openapitest.Load(text)
		if err != nil {
			t.Fatal(err)
		}
		var routes []string
		for _, r := range described.Routes() {
			routes = append(routes, r.Method+" "+strings.ToUpper(strings.NewReplacer("{", "", "}", "").Replace(r.Path)))
		}
		var buttons []string
		for _, p := range pages.Pages(s.Operations) {
			buttons = append(buttons, p.Path)
			for _, a := range p.Actions {
				buttons = append(buttons, p.Path+"/"+a.Name)
			}
		}
		api := adminapi.New(s.Name, s.Operations)
		for i, o := range s.Operations {
			seen++
			for _, noun := range append([]string{o.Noun()}, o.Former...) {
				var out bytes.Buffer
				status := cli.Run(t.Context(), cli.Env{Args: []string{s.Name, noun, o.Verb(), "--help"}, Stdout: &out, Stderr: &out})
				if status != 0 || !strings.HasPrefix(out.String(), o.Doc) || !strings.Contains(out.String(), "--json") {
					t.Errorf("holdfast %s %s %s --help: %d %s", s.Name, noun, o.Verb(), status, out.String())
				}
			}
			if !slices.Contains(buttons, o.Path) {
				t.Errorf("%s: no page or button of %s", s.Name, o.Path)
			}
			if r := api.Routes()[i]; !slices.Contains(routes, r.Method+" "+strings.ToUpper(r.Path)) {
				t.Errorf("%s: %s %s is not described", s.Name, r.Method, r.Path)
			}
		}
		wantGroups(t, s.Name, s.Operations)
	}
	if seen == 0 {
		t.Error("no service has operations")
	}
}

// wantGroups checks that each noun has a list, which says what its commands and its page are for.
func wantGroups(t *testing.T, service string, all []operate.Operation) {
	t.Helper()
	for _, o := range all {
		i := slices.IndexFunc(all, func(l operate.Operation) bool { return l.Kind == operate.List && l.Noun() == o.Noun() })
		if i < 0 || all[i].Title == "" || all[i].Group == "" || all[i].Empty == "" {
			t.Errorf("%s: %s needs a list of %s with a title, a group and a text for no rows", service, o.Path, o.Noun())
		}
	}
}
