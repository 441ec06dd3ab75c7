package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
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
	report(t, advised(ownServer(t), deletions))
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

// guideDeletes matches advice in a guide: as advisesDeletion, and also at the beginning of a sentence or of a cell of a
// table, after "may", and commands.
var guideDeletes = regexp.MustCompile("(?:^|[.:;,(|] (?:or |and |then |otherwise )?|\\bor |\\bthen |\\bmay |\\bmust |`)(?:sudo )?(?:[Dd]elete|[Rr]emove|[Ee]rase|[Ww]ipe|[Pp]urge|[Dd]rop|DROP|rm(?: -\\w+)?) [^ ]+(?: [^ ]+)?")

// guideDeletions lists the advice to delete something that a guide may give, as deletions does.
var guideDeletions = map[string]string{
	"docs/backup.md sudo rm -r /var/lib/holdfast/try /var/lib/holdfast.key": "a trial restore, and a copy of the key",
	"docs/backup.md sudo rm /var/lib/holdfast.key":                          "a copy of the key",
	"docs/backup.md rm -r ./try ```":                                        "a trial restore",
	"docs/backup.md delete or damage":                                       "rights of a cloud provider, which the server does not need",
	"docs/buckets-operate.md or delete them.":                               "no copy of these objects can be read, and restoring is named first",
	"docs/buckets-operate.md remove it there":                               "a line of the configuration",
	"docs/buckets-reference.md and delete them after":                       "it says what a rule does",
	"docs/buckets-reference.md delete a version":                            "it says what a lock prevents",
	"docs/buckets-reference.md delete markers and":                          "a delete marker has no data",
	"docs/buckets-reference.md delete markers, abort":                       "a delete marker has no data",
	"docs/buckets-reference.md delete markers, copies":                      "a delete marker has no data",
	"docs/buckets-reference.md delete the version":                          "it says what a lock prevents",
	"docs/buckets-reference.md delete versions by":                          "versions that a client chooses",
	"docs/buckets-reference.md or delete markers is":                        "a delete marker has no data",
	"docs/buckets-reference.md or remove the retention":                     "it says what a lock prevents",
	"docs/buckets-reference.md remove delete markers":                       "a delete marker has no data",
	"docs/buckets.md delete objects |":                                      "rights of a token",
	"docs/buckets.md or delete selected objects.":                           "it says what a page can do",
	"docs/configuration.md Delete data this":                                "it says what a setting does",
	"docs/console.md delete again to":                                       "the operator deletes the install already",
	"docs/console.md delete and restore":                                    "a list of operations",
	"docs/console.md erase a session;":                                      "a list of operations",
	"docs/extension-storage-operate.md Remove the former":                   "a secret in the configuration, when its last token is expired",
	"docs/extension-storage-operate.md Remove the old":                      "a secret in the configuration, when its last token is expired",
	"docs/extension-storage-operate.md delete and shrink":                   "it says what an install over its quota can do",
	"docs/extension-storage-reference.md delete something, or":              "clients that are over their quota",
	"docs/extension-storage-reference.md remove the lines":                  "a line of a copied file",
	"docs/failures.md Delete them and":                                      "objects that their owner deleted before",
	"docs/failures.md Drop events with":                                     "events that the outbox cannot deliver, after their receiver was repaired",
	"docs/failures.md Remove the cause,":                                    "a cause is no data",
	"docs/failures.md remove the cause,":                                    "a cause is no data",
	"docs/guest-events.md drop evt_…` deletes":                              "it says what the command does",
	"docs/guest-handoffs.md Remove the former":                              "a secret in the configuration, when its last token is expired",
	"docs/guest-operate.md erase through the":                               "a guest asks for the erasure",
	"docs/install.md then delete the file).":                                "a file of zeros, written to measure a disk",
	"docs/move.md or remove workers, the":                                   "workers of Citus, whose shards were moved before",
	"docs/operations.md Remove the old":                                     "a secret in the configuration, when its last token is expired",
	"docs/operations.md and remove the old":                                 "a secret in the configuration, when nobody uses its keys",
	"docs/operations.md remove the setting":                                 "a line of the configuration",
	"docs/postgresql.md or delete marker |":                                 "a delete marker has no data",
	"docs/several-machines.md remove the former":                            "a secret in the configuration, when its last token is expired",
	"docs/failures.md and erase again. |":                                   "data of a guest that was erased before the restore",
	"docs/failures.md delete those that":                                    "keys in Redis of a guest who asked for deletion; the old database's keys are not used any more",
	"docs/spanner.md delete the batch":                                      "it says what a statement does",
	"docs/users.md delete the account":                                      "the account has moved to another server, which has a backup",
}

// TestNoGuideAdvisesToDelete is TestNoAdviceToDelete for the guides.
func TestNoGuideAdvisesToDelete(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	guides := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "packaging/*.md", "packaging/*/*.md"} {
		names, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(name, "docs/decisions/") && name != "CHANGELOG.md" && name != "CONTRIBUTING.md" && name != "ARCHITECTURE.md" {
				guides[name] = string(text)
			}
		}
	}
	if len(guides) < 30 {
		t.Errorf("only %d guides are found", len(guides))
	}
	report(t, advisedInGuides(guides, guideDeletions))
}

var paragraphs = regexp.MustCompile(`\n\s*\n|\n[ \t]*(?:[-*|]|\d+\.) |\n\x60\x60\x60`)

// commands matches a command that deletes, on a line of its own.
var commands = regexp.MustCompile(`\n[ \t]*((?:sudo )?rm |DROP )`)

func advisedInGuides(guides, except map[string]string) (wrong []string) {
	used := map[string]bool{}
	for name, text := range guides {
		for _, paragraph := range paragraphs.Split(commands.ReplaceAllString(text, "\n\n$1"), -1) {
			for _, advice := range guideDeletes.FindAllString(strings.Join(strings.Fields(paragraph), " "), -1) {
				advice = strings.TrimLeft(advice, ".:;,(|` ")
				key := name + " " + advice
				if used[key] = true; except[key] == "" {
					wrong = append(wrong, fmt.Sprintf("%s advises %q: propose to move it away, or give the reason in this test", name, advice))
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(except)) {
		if !used[key] {
			wrong = append(wrong, key+" is no advice any more: remove it from this test")
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

func TestNoGuideAdvisesToDeleteBites(t *testing.T) {
	t.Parallel()
	got := advisedInGuides(map[string]string{"docs/a.md": "It is broken:\ndelete\nthe folder.\n\n* Then move it. Remove the data first.\n\n| error | delete the disk |\n\n   rm -r /data\n\nIt deletes rows. Run `rm x y`.\n"},
		map[string]string{"docs/a.md delete former": "a reason"})
	var want []string
	for _, advice := range []string{"Remove the data", "delete the disk", "delete the folder.", "rm -r /data", "rm x y`."} {
		want = append(want, fmt.Sprintf("docs/a.md advises %q: propose to move it away, or give the reason in this test", advice))
	}
	if want = append(want, "docs/a.md delete former is no advice any more: remove it from this test"); !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
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
