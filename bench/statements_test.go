package main

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// TestStatements checks that the limits' statements equal the services' statements, which are not exported.
func TestStatements(t *testing.T) {
	t.Parallel()
	for backend, copies := range map[string][]string{
		"syncstorage/sqlite": {liteCounters, liteHeader, liteUpdate, liteSetUser, liteSetCollection, liteAddCollection, liteInfo},
		"extstorage/sqlite": {
			extBegin, extFind, extActive, extChange, extUpdate, extSetUsage, extExpiring, extGetOne, extGetPage,
		},
		"buckets/sqlite":       {bucketsPut, bucketsGet, bucketsList, bucketsNext, bucketsDelete},
		"syncstorage/postgres": {pgInfo},
		"extstorage/postgres":  {extPgGet, extPgFrom},
	} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			theirs := stringsOf(t, filepath.Join("../internal", backend))
			for _, sql := range copies {
				if !theirs[oneSpace(sql)] {
					t.Errorf("the service has no such statement any more:\n%s", sql)
				}
			}
		})
	}
}

func oneSpace(sql string) string { return strings.Join(strings.Fields(sql), " ") }

// stringsOf returns all constant strings in a package, including concatenated strings.
func stringsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	fset := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// The type checker does not load imports, so it reports many errors, but it evaluates constants.
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Error: func(error) {}, FakeImportC: true}
	_, _ = conf.Check(dir, fset, files, &info)
	all := map[string]bool{}
	for _, tv := range info.Types {
		if tv.Value != nil && tv.Value.Kind() == constant.String {
			all[oneSpace(constant.StringVal(tv.Value))] = true
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no strings", dir)
	}
	return all
}
