package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/cli"
	"holdfast/internal/durations"
	"holdfast/internal/openapitest"
	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	pages "holdfast/internal/operate/console"
	"holdfast/internal/operate/openapi"
)

// descriptions are API description files by service folder.
var descriptions = map[string]string{
	"guest": "httpapi/openapi.json", "tokenserver": "httpapi/openapi-admin.json", "syncstorage": "httpapi/openapi-admin.json",
	"buckets": "httpapi/openapi-admin.json", "extstorage": "httpapi/openapi-admin.json", "app": "openapi-admin.json",
}

type declared struct {
	folder, command string
	all             []operate.Operation
}

func allDeclared() []declared {
	found := []declared{{"app", "", overview.Operations(&overview.Operated{})}}
	for _, s := range app.Services() {
		if len(s.Operations) > 0 {
			found = append(found, declared{s.Name, s.CommandName(), s.Operations})
		}
	}
	return found
}

// TestOperations checks that each operation has a command with help, a page or a button, and a matching route in the
// API description.
func TestOperations(t *testing.T) {
	t.Parallel()
	seen, services := 0, app.Services()
	for _, s := range allDeclared() {
		wantDescribed(t, &s)
		buttons := buttonsOf(s.all)
		for _, o := range s.all {
			seen++
			wantBytes(t, s.folder+" "+o.Path, o.Output())
			if !o.ServerOnly {
				wantCommand(t, services, o, strings.Fields(s.command+" "+o.Noun()+" "+o.Verb())...)
			}
			if !slices.Contains(buttons, o.Path) {
				t.Errorf("%s: no page or button of %s", s.folder, o.Path)
			}
		}
		wantGroups(t, s.folder, s.all)
		wantSubjects(t, &s)
	}
	if seen == 0 {
		t.Error("no service has operations")
	}
}

// TestDurations checks that all inputs with durations, e.g. token lifetimes, reject invalid values with the same text.
func TestDurations(t *testing.T) {
	t.Parallel()
	lifetimes := 0
	for _, s := range app.Services() {
		for _, o := range s.Operations {
			for _, in := range o.Inputs {
				if d, err := durations.Parse(in.Default); err != nil || d == 0 {
					continue
				}
				if in.Name == "ttl" {
					lifetimes++
				}
				values := map[string]string{}
				for _, subject := range o.Subjects() {
					values[subject.Name] = "1"
				}
				for _, wrong := range []string{"soon", "60", "1 h", "30x"} {
					values[in.Name] = wrong
					want := in.Name + ": expected a duration with a unit, e.g. 30s, 2h, 90d or 2w"
					if err := o.Check(values); err == nil || err.Error() != want {
						t.Errorf("%s %s with %s %s: %v, want %s", s.Name, o.Path, in.Name, wrong, err, want)
					}
				}
			}
		}
	}
	if lifetimes < 5 {
		t.Errorf("found %d operations with the lifetime of a token", lifetimes)
	}
}

// wantSubjects checks that operations have inputs for the names in rows, which the links and buttons of rows need, and
// that rows name the subjects of changes.
func wantSubjects(t *testing.T, s *declared) {
	t.Helper()
	taken, shown, hasPage := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range s.all {
		for _, in := range o.Inputs {
			taken[in.Name] = true
			shown[in.Name] = shown[in.Name] || in.Subject && !o.Kind.Changes()
		}
		hasPage[o.Noun()] = hasPage[o.Noun()] || o.Kind == operate.List
		for _, name := range subjectsOf(&o) {
			shown[name] = true
		}
	}
	for _, o := range s.all {
		for _, name := range subjectsOf(&o) {
			if !taken[name] {
				t.Errorf("%s: the rows of %s have the subject %s, which no operation takes", s.folder, o.Path, name)
			}
		}
		if in := o.Subject(); o.Kind.Changes() && hasPage[o.Noun()] && in != nil && !o.NewRow && !shown[in.Name] {
			t.Errorf("%s: %s takes the subject %s, which no row has: spell it as in the list, or declare NewRow", s.folder, o.Path, in.Name)
		}
	}
}

func subjectsOf(o *operate.Operation) (names []string) {
	names = slices.Clone(o.Names)
	for _, c := range o.Columns {
		if c.Subject != "" {
			names = append(names, c.Subject)
		}
	}
	return names
}

// wantBytes checks that people see rounded sizes and scripts get exact sizes.
func wantBytes(t *testing.T, name string, out reflect.Type) {
	t.Helper()
	for _, f := range reflect.VisibleFields(out) {
		is := f.Type
		if f.Tag.Get("table") != "" {
			wantBytes(t, name, is.Elem())
		}
		if is.Kind() == reflect.Pointer {
			is = is.Elem()
		}
		if f.Tag.Get("title") != "" && is.Kind() != reflect.String && sizes.MatchString(f.Tag.Get("title")) && !is.Implements(reflect.TypeFor[service.Rounded]()) {
			t.Errorf("%s: field %s of %s: a number of bytes is a service.Bytes", name, f.Name, out)
		}
	}
}

var sizes = regexp.MustCompile(`(?i)^(bytes|byte quota|size|free|stored)$`)

func wantDescribed(t *testing.T, s *declared) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", s.folder, filepath.FromSlash(descriptions[s.folder])))
	if err != nil {
		t.Fatalf("%s: %v: add its API description to this test", s.folder, err)
	}
	updated, err := openapi.Document(s.command, s.all)
	if !strings.Contains(descriptions[s.folder], "admin") { // it also describes other listeners
		updated, err = openapi.Update(text, s.command, s.all)
	}
	if err != nil || !bytes.Equal(text, updated) {
		t.Errorf("%s: the API description does not have the operations as they are declared (%v): run make generate", s.folder, err)
	}
	described, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	have := described.Routes()
	for _, r := range adminapi.New(s.command, s.all).Routes() {
		if !slices.ContainsFunc(have, func(d openapitest.Route) bool {
			return d.Method == r.Method && strings.EqualFold(strings.NewReplacer("{", "", "}", "").Replace(d.Path), r.Path)
		}) {
			t.Errorf("%s: %s %s is not described", s.folder, r.Method, r.Path)
		}
	}
}

func buttonsOf(all []operate.Operation) (paths []string) {
	for _, p := range pages.Pages(nil, all) {
		paths = append(paths, p.Path)
		for _, a := range p.Actions {
			paths = append(paths, p.Path+"/"+a.Name)
		}
	}
	return paths
}

func wantCommand(t *testing.T, services []service.Service, o operate.Operation, words ...string) {
	t.Helper()
	var out bytes.Buffer
	status := cli.Run(t.Context(), cli.Env{Args: append(words, "--help"), Stdout: &out, Stderr: &out, Services: services})
	if status != 0 || !strings.HasPrefix(out.String(), o.Doc) || strings.Contains(out.String(), "--json") == (o.Kind == operate.Download) {
		t.Errorf("holdfast %s --help: %d %s", strings.Join(words, " "), status, out.String())
	}
}

func wantGroups(t *testing.T, service string, all []operate.Operation) {
	t.Helper()
	for _, o := range all {
		first := all[slices.IndexFunc(all, func(f operate.Operation) bool { return f.Noun() == o.Noun() })]
		if first.Group == "" || first.Title == "" || first.Kind == operate.List && first.Empty == "" {
			t.Errorf("%s: the first operation of %s needs a title and a group, and a list a text for no rows", service, o.Noun())
		}
	}
}

// TestChangesAreRecordedWhole checks that the change log contains every input, except secrets and people's texts about
// others.
func TestChangesAreRecordedWhole(t *testing.T) {
	t.Parallel()
	private := []string{"label", "note", operate.DryRun} // the log contains dry-run only if it is set
	for _, s := range app.Services() {
		for i := range s.Operations {
			o := &s.Operations[i]
			for _, in := range o.Inputs {
				if o.Kind.Changes() && !in.Local && !in.Secret && !slices.Contains(private, in.Name) && !slices.Contains(o.Logged(), in.Name) {
					t.Errorf("%s %s: the log of changes leaves out %s: expected it without the tag private", s.Name, o.Path, in.Name)
				}
			}
		}
	}
}
