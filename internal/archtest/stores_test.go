package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestStoresArePrivate checks that a service's wiring passes each store to the business rules and does not keep
// it.
func TestStoresArePrivate(t *testing.T) {
	t.Parallel()
	files := ownServer(t)
	for _, s := range services {
		stores, wrong := keptStores(files, s)
		report(t, wrong)
		if stores == 0 {
			t.Errorf("no store of %s found", s.name)
		}
	}
}

// keptStores counts the service interfaces that its backends implement, and returns wiring fields with such a type.
func keptStores(files serverFiles, s service) (stores int, wrong []string) {
	methods := map[string]bool{} // all methods in the backends; a store has a subset
	for file, syntax := range files {
		if path.Dir(file) != path.Join("internal", s.name, s.backends[0]) {
			continue
		}
		for _, d := range syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[f.Name.Name] = true
			}
		}
	}
	all, wiring := declaredIn(files), "internal/app/"+s.wiring
	for name, d := range all {
		if _, ok := d.syntax.(*ast.InterfaceType); ok && strings.HasPrefix(d.folder, "internal/"+s.name) && all.isStore(name, methods) {
			stores++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		of, ok := d.syntax.(*ast.StructType)
		if !ok || d.folder != wiring {
			continue
		}
		for _, f := range of.Fields.List {
			if at := all.nameOf(d, f.Type); all.isStore(at, methods) {
				wrong = append(wrong, fmt.Sprintf("%s keeps the store %s: a service of internal/%s owns it and contains its rules", name, at, s.name))
			}
		}
	}
	return stores, wrong
}

func (all declared) nameOf(d declaration, of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return d.folder + "." + of.Name
	case *ast.SelectorExpr:
		if p, ok := of.X.(*ast.Ident); ok {
			return d.imports[p.Name] + "." + of.Sel.Name
		}
	case *ast.StarExpr:
		return all.nameOf(d, of.X)
	}
	return ""
}

// isStore reports whether a type is an interface whose methods, including embedded ones, are all in this set.
func (all declared) isStore(name string, methods map[string]bool) bool {
	of, ok := all[name].syntax.(*ast.InterfaceType)
	if !ok {
		return false
	}
	for _, m := range of.Methods.List {
		switch {
		case len(m.Names) > 0 && !methods[m.Names[0].Name]:
			return false
		case len(m.Names) == 0 && !all.isStore(all.nameOf(all[name], m.Type), methods):
			return false
		}
	}
	return len(of.Methods.List) > 0
}

// TestStoresArePrivateBites checks that a field with a store, or with an interface that embeds a store, is reported.
// An interface that no backend implements is not a store.
func TestStoresArePrivateBites(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{"cmd/toy.go": &fstest.MapFile{Data: []byte("package main\n")}}
	for name, text := range map[string]string{
		"internal/toys/store.go":        "package toys\n\ntype Store interface { Put(); Get() }\n\ntype Purger interface { Purge() }\n\ntype Leases interface { Lease() }\n",
		"internal/toys/sqlite/store.go": "package sqlite\n\ntype Store struct{}\n\nfunc (*Store) Put() {}\n\nfunc (*Store) Get() {}\n\nfunc (*Store) Lease() {}\n",
		"internal/app/toy/open.go": `package toy

import "holdfast/internal/toys"

type both interface { toys.Store; toys.Leases }

type Toy struct {
	store both
	purge toys.Purger
	cfg   *config
}

type metrics struct { of toys.Leases }

type config struct { Store string }
`,
	} {
		source[name] = &fstest.MapFile{Data: []byte(text)}
	}
	stores, got := keptStores(readServer(t, source), service{name: "toys", wiring: "toy", backends: []string{"sqlite"}})
	want := []string{
		"internal/app/toy.Toy keeps the store internal/app/toy.both: a service of internal/toys owns it and contains its rules",
		"internal/app/toy.metrics keeps the store internal/toys.Leases: a service of internal/toys owns it and contains its rules",
	}
	if stores != 2 || !slices.Equal(got, want) {
		t.Errorf("%d stores, found\n\t%s\nwant\n\t%s", stores, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
