package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// advisesDeletion matches advice in a message: a verb in lower case at the beginning, or after a colon, semicolon or comma.
var advisesDeletion = regexp.MustCompile(`(?:^|[:;,(] (?:or |and |then |otherwise )?|\bor |\bthen |\brun )(?:delete|remove|erase|wipe|rm(?: -\w+)?) [^ ]+(?: [^ ]+)?`)

// deletions lists the advice to delete something that the server's messages may give, with the reason why it cannot be
// the only copy of data.
var deletions = map[string]string{
	"internal/app/buckets/check_damages.go or delete them":        "no copy of these objects can be read, on any node, and restoring is named first",
	"internal/app/buckets/damages.go or delete it.":               "the same",
	"internal/replication/replication.go or delete their objects": "the same",
	"internal/app/buckets/console.go or delete the marker.":       "a delete marker has no data, and deleting it shows the object again",
	"internal/app/buckets/console_versions.go delete marker":      "it is the name of a kind of version",
	"internal/app/buckets/drain.go remove it from":                "a line of the configuration",
	"internal/app/buckets/drain.go remove it there":               "a line of the configuration",
	"internal/app/buckets/nodes.go remove it from":                "a line of the configuration",
	"internal/app/buckets/operations.go remove it there,":         "a line of the configuration",
	"internal/app/serve.go or remove the line":                    "a line of a systemd unit",
	"internal/buckets/account.go remove it there,":                "a line of the configuration",
	"internal/conf/file.go remove it; holdfast":                   "a line of the configuration",
	"internal/conf/load.go remove one of":                         "a line of the configuration",
	"internal/readonly/readonly.go remove server.read_only from":  "a line of the configuration",
	"internal/app/buckets/rules.go or delete it first":            "a lifecycle rule",
	"internal/app/ext/deletions.go delete it again":               "the operator deletes the install already",
	"internal/app/ext/deletions.go or delete it anyway":           "the install is unknown and empty",
	"internal/app/ext/tenants.go delete and restore":              "a list of operations",
	"internal/buckets/account.go delete them first":               "the operator deletes the account, and its buckets must be empty",
	"internal/buckets/blobs/clouddriver/body.go delete object":    "it names the operation that failed",
	"internal/buckets/blobs/filedriver/read.go remove file":       "it names the operation that failed",
	"internal/replica/reconcile.go delete body":                   "it names the operation that failed",
	"internal/tokenserver/cleanup.go delete user %d's":            "it names the operation that failed",
	"internal/buckets/imports/merge.go delete the objects":        "only if the objects are really not at the source any more, which the message asks",
	"internal/buckets/keylimits.go remove the rights":             "rights of an access key",
	"internal/extstorage/import.go delete one of":                 "the record is at both places, and the operator chooses",
	"internal/extstorage/quota.go delete records, or":             "clients that are over their quota",
	"internal/extstorage/registry.go or delete all":               "schemas, which the client registered",
	"internal/guest/httpapi/wishlist.go remove the entry":         "a guest's own entry",
	"internal/syncstorage/import.go then delete them":             "an export comes first",
}

// TestNoAdviceToDelete checks that no message tells a person to delete something that may be the only copy of data, such as
// a folder that could not be read: it proposes to move the folder away.
func TestNoAdviceToDelete(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	readModule(t)
	report(t, advised(readServer(t, os.DirFS(root)), deletions))
}

func advised(files serverFiles, except map[string]string) (wrong []string) {
	used := map[string]bool{}
	for name, syntax := range files {
		ast.Inspect(syntax, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				return false // documentation of a setting or input
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				return true
			}
			for _, advice := range advisesDeletion.FindAllString(text, -1) {
				advice = strings.TrimLeft(advice, ":;,( ")
				key := name + " " + advice
				used[key] = true
				if except[key] == "" {
					wrong = append(wrong, fmt.Sprintf("%s advises %q: propose to move it away, or give the reason in this test", name, advice))
				}
			}
			return true
		})
	}
	for _, key := range slices.Sorted(maps.Keys(except)) {
		if !used[key] {
			wrong = append(wrong, key+" is no advice any more: remove it from this test")
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

func TestNoAdviceToDeleteBites(t *testing.T) {
	t.Parallel()
	source := "package toy\n\nvar a, b, c, d = \"it is broken: delete the folder and try again\", \"delete it\", \"deletes it\", \"is empty; or remove the file\"\n"
	got := advised(readServer(t, fstest.MapFS{"cmd/toy.go": &fstest.MapFile{Data: []byte("package main\n")}, "internal/toy/toy.go": &fstest.MapFile{Data: []byte(source)}}),
		map[string]string{"internal/toy/toy.go delete it": "a reason", "internal/toy/toy.go delete former": "a reason"})
	want := []string{
		"internal/toy/toy.go advises \"delete the folder\": propose to move it away, or give the reason in this test",
		"internal/toy/toy.go advises \"or remove the file\": propose to move it away, or give the reason in this test",
		"internal/toy/toy.go delete former is no advice any more: remove it from this test",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
