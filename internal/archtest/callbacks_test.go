package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// callbacks lists the interface methods that may take a function, with reasons.
var callbacks = map[string]string{
	"internal/buckets.References.References":      "it streams millions of rows from one snapshot, and no transaction writes meanwhile",
	"internal/extstorage/inspection.Store.Filled": "it streams rows, and begin reports that they start again after a retry",
	"internal/extstorage.Slot.Without":            "it is not a store: the function waits while the slot is free",
	"internal/extstorage.Store.Apply":             "a merge patch of the locked record, which is then validated by its schema, is a pure function (Op.Revise)",
	"internal/outbox.Box.Refuse":                  "the decision depends on the number of refusals, which only the transaction reads; it is a pure function",
}

// TestNoCallbacks checks that store methods take values, not functions. A function would run while the transaction
// holds locks, or while a SQLite file's only writer waits.
func TestNoCallbacks(t *testing.T) {
	t.Parallel()
	folders := []string{"internal/inbox", "internal/outbox"}
	for _, s := range services {
		folders = append(folders, "internal/"+s.name)
		for _, part := range s.parts {
			folders = append(folders, path.Join("internal", s.name, part))
		}
	}
	steps, wrong := withCallbacks(ownServer(t), folders, callbacks)
	report(t, wrong)
	if steps < 200 {
		t.Errorf("only %d steps found", steps)
	}
}

// declared contains the server's type declarations by folder and name.
type declared map[string]declaration

type declaration struct {
	folder  string
	imports map[string]string
	syntax  ast.Expr
}

func declaredIn(files serverFiles) declared {
	all := declared{}
	for file, syntax := range files {
		d := declaration{folder: path.Dir(file), imports: map[string]string{}}
		for _, spec := range syntax.Imports {
			if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
				if folder, ok := ours(imported); ok {
					d.imports[path.Base(folder)] = folder
				}
			}
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				d.syntax = spec.Type
				all[d.folder+"."+spec.Name.Name] = d
			}
			return true
		})
	}
	return all
}

// withCallbacks counts the interface methods in the folders. It reports methods that take a function, also inside a
// struct, and unneeded exceptions.
func withCallbacks(files serverFiles, folders []string, except map[string]string) (steps int, wrong []string) {
	all, used := declaredIn(files), map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		of, ok := d.syntax.(*ast.InterfaceType)
		if !ok || !slices.Contains(folders, d.folder) {
			continue
		}
		for _, m := range of.Methods.List {
			method, ok := m.Type.(*ast.FuncType)
			if !ok {
				continue
			}
			steps++
			key := name + "." + m.Names[0].Name
			for _, p := range method.Params.List {
				at := all.callback(d, p.Type, map[string]bool{})
				switch {
				case at == "":
				case except[key] != "":
					used[key] = true
				default:
					wrong = append(wrong, fmt.Sprintf("%s takes a function (%s): a store method takes values and returns the data that it read", key, at))
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(except)) {
		if !used[key] {
			wrong = append(wrong, key+" takes no function: remove it from the exceptions")
		}
	}
	return steps, wrong
}

// callback returns where a type, or a struct inside it, contains a function, or "".
func (all declared) callback(d declaration, of ast.Expr, seen map[string]bool) string {
	switch of := of.(type) {
	case *ast.FuncType:
		return "func"
	case *ast.StarExpr:
		return all.callback(d, of.X, seen)
	case *ast.ArrayType:
		return all.callback(d, of.Elt, seen)
	case *ast.Ellipsis:
		return all.callback(d, of.Elt, seen)
	case *ast.MapType:
		return all.callback(d, of.Value, seen)
	case *ast.Ident:
		return all.named(d.folder+"."+of.Name, seen)
	case *ast.SelectorExpr:
		if p, ok := of.X.(*ast.Ident); ok {
			return all.named(d.imports[p.Name]+"."+of.Sel.Name, seen)
		}
	case *ast.IndexExpr:
		if at := all.callback(d, of.X, seen); at != "" {
			return at
		}
		return all.callback(d, of.Index, seen)
	case *ast.StructType:
		for _, f := range of.Fields.List {
			if at := all.callback(d, f.Type, seen); at != "" {
				if len(f.Names) > 0 {
					at = f.Names[0].Name + " " + at
				}
				return at
			}
		}
	}
	return ""
}

func (all declared) named(name string, seen map[string]bool) string {
	d, ok := all[name]
	if !ok || seen[name] {
		return ""
	}
	seen[name] = true
	if at := all.callback(d, d.syntax, seen); at != "" {
		return path.Base(name) + " " + at
	}
	return ""
}

// TestNoCallbacksBites checks that functions are found in parameters and in request structs, also from other packages.
func TestNoCallbacksBites(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{"cmd/toy.go": &fstest.MapFile{Data: []byte("package main\n")}}
	for name, text := range map[string]string{
		"internal/toy/toy.go": `package toy

import "holdfast/internal/clock"

type Store interface {
	Get(id string) (func(), error)
	Put(Write, []*Item)
	Tell(fn func())
	Each(fn func())
	At(now clock.Clock)
	All(items ...Page[Item])
	Old()
}

type Write struct { Item Item; Check func(int) error; Next *Write }

type Item struct { Parts []Item; Of map[string]int }

type Page[T any] struct { Items []T }
`,
		"internal/clock/clock.go": "package clock\n\ntype Clock func() int\n",
		"internal/web/web.go":     "package web\n\ntype Handler interface { Serve(fn func()) }\n",
	} {
		source[name] = &fstest.MapFile{Data: []byte(text)}
	}
	steps, got := withCallbacks(readServer(t, source), []string{"internal/toy"}, map[string]string{"internal/toy.Store.Each": "it streams", "internal/toy.Store.Old": "it did"})
	want := []string{
		"internal/toy.Store.Put takes a function (toy.Write Check func): a store method takes values and returns the data that it read",
		"internal/toy.Store.Tell takes a function (func): a store method takes values and returns the data that it read",
		"internal/toy.Store.At takes a function (clock.Clock func): a store method takes values and returns the data that it read",
		"internal/toy.Store.Old takes no function: remove it from the exceptions",
	}
	if steps != 7 || !slices.Equal(got, want) {
		t.Errorf("%d steps, found\n\t%s\nwant\n\t%s", steps, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
