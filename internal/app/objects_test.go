package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/cli"
	"holdfast/internal/testdb"
)

// TestObjectsAndRecordsByCommand runs the commands beside a running server, which serves the stored values, and shows its
// changes.
func TestObjectsAndRecordsByCommand(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); objectsAndRecordsByCommand(t) })
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		objectsAndRecordsByCommand(t, onDatabase(testdb.PostgresDatabase(t))...)
	})
}

func objectsAndRecordsByCommand(t *testing.T, settings ...string) {
	t.Helper()
	b, _, environ := serveConsole(t, append(settings, "HOLDFAST_BUCKETS__INLINE=100")...)
	run := func(stdin string, args ...string) (status int, out string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		status = cli.Run(t.Context(), cli.Env{Args: args, Environ: environ, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Services: onAllEngines()})
		return status, stdout.String() + stderr.String()
	}
	succeeds := func(want, stdin string, args ...string) {
		t.Helper()
		if status, out := run(stdin, args...); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%q: %d %s, want %s", args, status, out, want)
		}
	}
	fails := func(want string, args ...string) {
		t.Helper()
		if status, out := run("", args...); status == 0 || !strings.Contains(out, want) {
			t.Errorf("%q: %d %s, want %s", args, status, out, want)
		}
	}
	folder := t.TempDir()
	file, copied := filepath.Join(folder, "photo.jpg"), filepath.Join(folder, "copy.jpg")
	body := bytes.Repeat([]byte("0123456789"), 30_000)
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	succeeds("", "", "buckets", "buckets", "create", "main", "photos")
	succeeds("stored 2026/photo.jpg: 300000 bytes, ETag ", "", "buckets", "objects", "put", "main", "photos", "2026/photo.jpg", file, "--content-type", "image/jpeg")
	succeeds("stored note.txt: 5 bytes", "hello", "buckets", "objects", "put", "main", "photos", "note.txt", "--metadata", `{"author":"Ada"}`)
	succeeds(`{"prefix":"2026/","bytes":0}`, "", "buckets", "objects", "list", "main", "photos", "--delimiter", "/", "--json")
	fails("holdfast: nobody: the account does not exist", "buckets", "objects", "list", "nobody", "photos")
	fails("holdfast: nothing: the bucket does not exist", "buckets", "objects", "list", "main", "nothing")
	fails("the condition does not hold", "buckets", "objects", "put", "main", "photos", "note.txt", file, "--if-none-match", "*")
	succeeds("hello", "", "buckets", "objects", "get", "main", "photos", "note.txt")
	succeeds("", "", "buckets", "objects", "get", "main", "photos", "2026/photo.jpg", "-o", copied)
	if got, err := os.ReadFile(copied); err != nil || !bytes.Equal(got, body) {
		t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
	b.open("buckets/object?account=main&bucket=photos&object=note.txt")
	b.shows("hello", "text/plain")

	// The file of a download that ends in the middle does not get its name, and nothing is left of it.
	removeBodies(t, environ)
	lost := filepath.Join(folder, "lost.jpg")
	if status, out := run("", "buckets", "objects", "get", "main", "photos", "2026/photo.jpg", "-o", lost); status == 0 {
		t.Errorf("a lost body was read: %s", out)
	}
	left, err := os.ReadDir(folder)
	if names := slices.Collect(func(yield func(string) bool) {
		for _, e := range left {
			yield(e.Name())
		}
	}); err != nil || !slices.Equal(names, []string{"copy.jpg", "photo.jpg"}) {
		t.Errorf("the folder has %q, %v", names, err)
	}
	succeeds("deleted note.txt", "", "buckets", "objects", "rm", "main", "photos", "note.txt")
	fails("note.txt: the object does not exist", "buckets", "objects", "delete", "main", "photos", "note.txt")

	place := []string{"--tenant", someTenant, "--install", someInstall, "--namespace", "settings"}
	records := func(verb string, more ...string) []string {
		return slices.Concat([]string{"ext", "records", verb}, place, more)
	}
	succeeds("wrote theme: revision 1", `{"dark": true}`, records("put", "theme")...)
	succeeds("wrote theme: revision 2", `{"dark": false}`, records("put", "theme", "--if-revision", "1")...)
	if status, out := run("1", records("put", "theme", "--if-revision", "1")...); status == 0 || !strings.Contains(out, "theme: revision mismatch: the current revision is 2") {
		t.Errorf("a write of an old revision: %d %s", status, out)
	}
	fails("larger than 262144 bytes", records("put", "theme", file)...)
	succeeds(`{"dark":false}`+"\n", "", records("get", "theme")...)
	succeeds(`{"key":"theme","revision":2,`, "", records("list", "--json")...)
	b.open("extstorage/record?tenant=" + someTenant + "&install=" + someInstall + "&namespace=settings&key=theme")
	b.shows(`"dark": false`)
	succeeds("deleted theme", "", records("rm", "theme")...)
	fails("theme: record not found", records("delete", "theme")...)
}

// removeBodies removes the folder with the bodies, so that a download ends in the middle.
func removeBodies(t *testing.T, environ []string) {
	t.Helper()
	bodies, err := filepath.Glob(filepath.Join(strings.TrimPrefix(environ[0], "HOLDFAST_DATA="), "buckets*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	removed := false
	for _, path := range bodies {
		if strings.HasSuffix(path, "v2") {
			removed = os.RemoveAll(path) == nil
		}
	}
	if !removed {
		t.Fatalf("no bodies in %q", bodies)
	}
}
