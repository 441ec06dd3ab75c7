package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/cli"
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
		routes, described := adminapi.New(s.Name, s.Operations).Routes(), describedRoutes(t, s.Name)
		buttons := buttonsOf(s.Operations)
		for i, o := range s.Operations {
			seen++
			for _, noun := range append([]string{o.Noun()}, o.Former...) {
				wantCommand(t, o, s.Name, noun, o.Verb())
			}
			if !slices.Contains(buttons, o.Path) {
				t.Errorf("%s: no page or button of %s", s.Name, o.Path)
			}
			if r := routes[i]; !slices.Contains(described, r.Method+" "+strings.ToUpper(r.Path)) {
				t.Errorf("%s: %s %s is not described", s.Name, r.Method, r.Path)
			}
		}
		wantGroups(t, s.Name, s.Operations)
	}
	if seen == 0 {
		t.Error("no service has operations")
	}
}

// describedRoutes returns the routes in the API description of a service, in capitals.
func describedRoutes(t *testing.T, service string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(descriptions[service]))
	if err != nil {
		t.Fatalf("%s: %v: add its API description to this test", service, err)
	}
	described, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range described.Routes() {
		all = append(all, r.Method+" "+strings.ToUpper(strings.NewReplacer("{", "", "}", "").Replace(r.Path)))
	}
	return all
}

// buttonsOf returns the paths of the operations that have a page or a button.
func buttonsOf(all []operate.Operation) (paths []string) {
	for _, p := range pages.Pages(all) {
		paths = append(paths, p.Path)
		for _, a := range p.Actions {
			paths = append(paths, p.Path+"/"+a.Name)
		}
	}
	return paths
}

func wantCommand(t *testing.T, o operate.Operation, words ...string) {
	t.Helper()
	var out bytes.Buffer
	status := cli.Run(t.Context(), cli.Env{Args: append(words, "--help"), Stdout: &out, Stderr: &out})
	if status != 0 || !strings.HasPrefix(out.String(), o.Doc) || !strings.Contains(out.String(), "--json") {
		t.Errorf("holdfast %s --help: %d %s", strings.Join(words, " "), status, out.String())
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
