package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// opens lists the functions and methods that find a file or folder. Receiver types are unknown, so these names count on
// every value.
var opens = []string{"Stat", "Lstat", "ReadDir", "ReadFile", "Open", "OpenFile", "OpenRoot"}

// droppers lists the server's functions that do not report such an error, with the reason why nobody takes it for a
// missing file.
var droppers = map[string]string{
	"internal/app/announce.go announcement":                    "it only prints where the file is",
	"internal/app/buckets/check.go missingData":                "another finding reports other errors of the data folder",
	"internal/app/memory.go cgroupLimit":                       "a system without this file sets no limit",
	"internal/app/metrics.go observeFiles":                     "a missing value shows in the metrics, and the database itself reports the error",
	"internal/app/service/folder.go checkNewFolder":            "it looks for the deepest folder, and creating a folder there reports the error",
	"internal/app/service/input.go IsTerminal":                 "it asks for the kind of an open file",
	"internal/app/service/servicetest/servicetest.go Open":     "it opens a service",
	"internal/backup/backup.go Make":                           "creating the folder reports other errors",
	"internal/backup/record.go ReadFailure":                    "the server itself writes the file, and reports an error then",
	"internal/backup/record.go exists":                         "an unknown backup counts as present, because it may still contain deleted data",
	"internal/buckets/blobs/clouddriver/body.go Get":           "it opens no file",
	"internal/buckets/blobs/filedriver/driver.go CheckInit":    "each case of the switch returns the error or goes on without one",
	"internal/buckets/blobs/filedriver/driver.go cannotCreate": "it wraps the first error",
	"internal/buckets/blobs/filedriver/driver.go verify":       "a folder that is not the same any more is refused, whatever the error",
	"internal/buckets/blobs/filedriver/folders.go isEmpty":     "an unknown folder is not removed",
	"internal/buckets/blobs/filedriver/read.go remove":         "each case returns the error",
	"internal/buckets/maintenance/state.go continues":          "an audit that cannot continue begins again, which reports the error",
	"internal/certificates/storage.go Delete":                  "it returns the first error",
	"internal/certificates/storage.go Exists":                  "the interface has no error; loading the certificate reports it",
	"internal/changes/file.go append":                          "writing to the same file reports the error",
	"internal/db/engine/database.go fileSize":                  "the log is missing after a checkpoint, and the size is for people",
	"internal/db/sqlitedb/lock.go holder":                      "the lock is reported without the name of its holder",
	"internal/db/sqlitedb/lock.go tryLock":                     "another file under the name is locked again, which reports the error",
	"internal/db/sqlitedb/verify.go VerifyFile":                "opening the file reports the error",
	"internal/fserror/fserror.go existing":                     "it explains an error that is there already",
	"internal/fserror/fserror.go refused":                      "it explains an error that is there already",
	"internal/guest/httpapi/demo.go demoFile":                  "the files are in the binary",
	"internal/outbox/sink.go current":                          "the file is opened again, which reports the error",
	"internal/replica/capture.go hasSpace":                     "the folder above is on the same disk",
	"internal/replica/capture.go size":                         "reading the file afterwards reports the error",
	"internal/replica/location/location.go Outside":            "the walk ends at the root, and writing into the folder reports the error",
	"internal/replica/location/signers.go SigningKey":          "reading the key reports other errors",
	"internal/secretbox/secretbox.go Open":                     "it opens no file",
	"internal/secrets/file.go Read":                            "the file was read, and its mode is only a warning",
}

// TestDroppedFileErrors checks that an error of Stat, Lstat, Open or ReadDir is reported, and not only compared: a folder
// that refuses a user is no missing folder, and no folder with another problem.
func TestDroppedFileErrors(t *testing.T) {
	t.Parallel()
	report(t, dropped(ownServer(t), droppers))
}

func dropped(files serverFiles, except map[string]string) (wrong []string) {
	used := map[string]bool{}
	for name, syntax := range files {
		for _, d := range syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			key := name + " " + fn.Name.Name
			for _, call := range droppedErrors(fn.Body) {
				used[key] = true
				if except[key] == "" {
					wrong = append(wrong, fmt.Sprintf("%s only compares the error of %s: report it, or use fserror.Exists, or give the reason in this test", key, call))
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(except)) {
		if !used[key] {
			wrong = append(wrong, key+" drops no error: remove it from this test")
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// droppedErrors returns the calls whose error a function ignores or only compares. An error is reported if a statement
// returns it, wraps it or passes it on, before its variable gets another value.
func droppedErrors(body *ast.BlockStmt) (calls []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 || len(assign.Lhs) != 2 {
			return true
		}
		call, ok := assign.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		selected, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(opens, selected.Sel.Name) {
			return true
		}
		id, ok := assign.Lhs[1].(*ast.Ident)
		if ok && !isReported(body, id, assign.End()) {
			calls = append(calls, selected.Sel.Name)
		}
		return true
	})
	return calls
}

// isReported reports whether the error in the variable is used after a position, other than in comparisons.
func isReported(body *ast.BlockStmt, id *ast.Ident, after token.Pos) (reported bool) {
	if id.Name == "_" {
		return false
	}
	var compared, assigned []*ast.Ident // these uses say nothing about the error
	var kept []*ast.Ident               // assigned only if there is no error yet
	end := body.End()
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if comparesWith(n.Cond, id.Name, token.EQL) {
				kept = append(kept, assignedIn(n.Body)...)
			}
		case *ast.BinaryExpr:
			compared = append(compared, identsOf(n.X, n.Y)...)
		case *ast.CallExpr:
			if name := calledName(n); strings.HasPrefix(name, "errors.Is") || strings.HasPrefix(name, "os.Is") {
				compared = append(compared, identsOf(n.Args...)...)
			}
		case *ast.AssignStmt:
			assigned = append(assigned, identsOf(n.Lhs...)...)
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for _, a := range identsOf(assign.Lhs...) {
			if a.Name == id.Name && a.Pos() > after && assign.End() < end && !slices.Contains(kept, a) {
				end = assign.End() // its right side may wrap the error
			}
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		use, ok := n.(*ast.Ident)
		if ok && use.Name == id.Name && use.Pos() > after && use.Pos() < end && !slices.Contains(compared, use) && !slices.Contains(assigned, use) {
			reported = true
		}
		return !reported
	})
	return reported
}

// comparesWith reports whether a condition compares a variable with nil.
func comparesWith(cond ast.Expr, name string, operator token.Token) (found bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if !ok || b.Op != operator {
			return true
		}
		id, ok := b.X.(*ast.Ident)
		found = found || ok && id.Name == name
		return true
	})
	return found
}

func assignedIn(body *ast.BlockStmt) (all []*ast.Ident) {
	ast.Inspect(body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok {
			all = append(all, identsOf(assign.Lhs...)...)
		}
		return true
	})
	return all
}

func identsOf(all ...ast.Expr) (found []*ast.Ident) {
	for _, e := range all {
		if id, ok := e.(*ast.Ident); ok {
			found = append(found, id)
		}
	}
	return found
}

func TestDroppedFileErrorsBites(t *testing.T) {
	t.Parallel()
	source := `package toy

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func size(path string) (n int64) {
	if info, err := os.Stat(path); err == nil {
		n = info.Size()
	}
	return n
}

func ignored(path string) []byte {
	text, _ := os.ReadFile(path)
	return text
}

func other(root *os.Root) error {
	if _, err := root.Open("a"); err != nil {
		return errOther
	}
	_, err := known()
	return err
}

func right(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func logged(path string) {
	if _, err := os.ReadDir(path); err != nil {
		log.Warn("could not read", "error", err)
	}
}
`
	got := dropped(readServer(t, fstest.MapFS{"cmd/toy.go": &fstest.MapFile{Data: []byte("package main\n")}, "internal/toy/toy.go": &fstest.MapFile{Data: []byte(source)}}),
		map[string]string{"internal/toy/toy.go size": "a reason", "internal/toy/toy.go former": "a reason"})
	want := []string{
		"internal/toy/toy.go exists only compares the error of Lstat: report it, or use fserror.Exists, or give the reason in this test",
		"internal/toy/toy.go former drops no error: remove it from this test",
		"internal/toy/toy.go ignored only compares the error of ReadFile: report it, or use fserror.Exists, or give the reason in this test",
		"internal/toy/toy.go other only compares the error of Open: report it, or use fserror.Exists, or give the reason in this test",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
