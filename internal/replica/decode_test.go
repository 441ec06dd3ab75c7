package replica

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
)

// hostileNames are an attacker's texts in place of a name.
var hostileNames = []string{
	"", ".", "..", "../../x", "/x", "//x", "a/../../x", `..\..\x`, `C:\x`, "C:x.db", `\\host\share\x`, "x\x00.db", "one.db\x00", "one.db/", "./one.db",
	" one.db", "one.db ", "one.db.", "One.db", "one.db:stream", "con.db", "nul", "NUL.db", "three.db", "one.db-wal", ".restoring", "secrets.toml/x",
	"\u202eone.db", "öne.db", strings.Repeat("a", 300) + ".db", strings.Repeat("../", 300) + "x", "also/../../x", "also/secrets.toml/../../x",
	"files/one.db/x", "points/x", MarkerName, "\x1b[2J", "\xff\xfe",
}

// goodPoint is a point that uses all members.
func goodPoint() Point {
	return Point{
		Number: 17, Time: time.Date(2026, 11, 21, 15, 4, 5, 678_901_234, time.UTC),
		Files: map[string]Position{
			"one.db": {Run: "01ARZ3NDEKTSV4RRFFQ69G5FAV", TXID: 7, Sum: 1<<63 | 5, Size: 4096},
			"two.db": {Run: "01ARZ3NDEKTSV4RRFFQ69G5FAW", TXID: 1, Sum: 1<<63 | 6, Size: 8192},
		},
		Also:   map[string]string{"secrets.toml": "also/secrets.toml/ABCDEFGHIJKLMNOPQRSTUVWXYZ.age"},
		Backup: &BackupSize{Databases: 1, Sent: 2, Took: 3}, Repository: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Key: testKey.Public(),
	}
}

// walkJSON calls fn with a path and all changed copies of a JSON document: every key and every string replaced by each
// hostile name, every number by numbers that are out of range, and every value by values with other types, every member
// removed, repeated and added. It finds the members itself, so new members are changed, too.
func walkJSON(document []byte, fn func(what string, text []byte)) {
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		panic(err)
	}
	emit := func(what string) {
		text, err := json.Marshal(root)
		if err != nil {
			panic(err)
		}
		fn(what, text)
	}
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		for _, other := range []any{nil, true, -1, 0, 1e300, "", []any{}, map[string]any{}, map[string]any{"x": 1}, []any{v, v}} {
			if !equalJSON(v, other) {
				set(other)
				emit(fmt.Sprintf("%s is %.40v", path, other))
			}
		}
		set(v)
		switch v := v.(type) {
		case string:
			for _, name := range hostileNames {
				set(name)
				emit(fmt.Sprintf("%s is %.40q", path, name))
			}
			set(v)
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				value := v[key]
				for _, name := range hostileNames {
					delete(v, key)
					v[name] = value
					emit(fmt.Sprintf("%s.%s is called %.40q", path, key, name))
					delete(v, name)
					v[key] = value
					v[name] = value
					emit(fmt.Sprintf("%s has %.40q, too", path, name))
					delete(v, name)
				}
				delete(v, key)
				emit(path + " lacks " + key)
				v[key] = value
				walk(path+"."+key, value, func(other any) { v[key] = other })
			}
		}
	}
	walk("", root, func(other any) { root = other })
	for what, text := range map[string][]byte{
		"trailing space": append(bytes.Clone(document), ' '), "trailing document": append(bytes.Clone(document), document...), "leading space": append([]byte(" "), document...),
		"empty": {}, "cut off": document[:len(document)-1], "a repeated member": bytes.Replace(document, []byte("{"), []byte(`{"number":1,`), 1),
		"an escaped name": bytes.Replace(document, []byte("one"), []byte(`\u006fne`), 1), "capitals": bytes.Replace(document, []byte(`"files"`), []byte(`"Files"`), 1),
	} {
		fn(what, text)
	}
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// TestDecodePoint checks that no change to any member makes a decoded point name anything outside its folder, or a
// file that the reader does not know.
func TestDecodePoint(t *testing.T) {
	t.Parallel()
	good := goodPoint()
	name := pointName(good)
	text, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := decodePoint(name, text); err != nil || testNames.check(name, p) != nil {
		t.Fatalf("the good point: %v, %v", err, testNames.check(name, p))
	}
	refused, possible := 0, map[string]bool{}
	walkJSON(text, func(what string, text []byte) {
		p, err := decodePoint(name, text)
		if err == nil {
			err = testNames.check(name, p)
		}
		switch {
		case err == nil:
			possible[what] = true
			checkNames(t, what, p)
		case !errcode.Is(err, errcode.Unavailable) || !strings.Contains(err.Error(), name) || strings.ContainsAny(err.Error(), "\x00\x1b\u202e"):
			t.Errorf("%s: %q", what, err)
		default:
			refused++
		}
	})
	// A point may name fewer files, and need no size.
	want := []string{
		" lacks also", " lacks backup", ".also lacks secrets.toml", ".also is map[]", ".backup is <nil>", ".backup.databases is 0", ".backup.sent is 0", ".backup.took is 0",
		".files is map[]", ".files lacks one.db", ".files lacks two.db",
	}
	for _, what := range want {
		delete(possible, what)
	}
	if refused < 500 || len(possible) > 0 {
		t.Errorf("%d changes are refused; accepted: %q", refused, slices.Sorted(maps.Keys(possible)))
	}
	for _, other := range []string{"points/0000000000000012-1795273445678.json", "points/0000000000000011-1795273445679.json", "points/11-1795273445678.json", "../../x"} {
		if _, err := decodePoint(other, text); err == nil {
			t.Errorf("accepted as %s", other)
		}
	}
}

// checkNames fails if a point names anything outside a folder or unknown.
func checkNames(t testing.TB, what string, p Point) {
	t.Helper()
	var all []string
	for name, position := range p.Files {
		all = append(all, name, filesPrefix(name, position.Run)+"x")
	}
	for name, object := range p.Also {
		all = append(all, name, object)
	}
	for _, name := range all {
		if !filepath.IsLocal(name) || strings.ContainsAny(name, "\\:\x00") || filepath.Clean(name) != name || len(name) > 150 {
			t.Errorf("%s: the point names %q", what, name)
		}
	}
}

// FuzzPoint checks that a decoded point names only known files in its folder, and that it has a single encoding.
func FuzzPoint(f *testing.F) {
	good := goodPoint()
	text, err := json.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pointName(good), text)
	for _, name := range hostileNames {
		f.Add(pointName(good), bytes.ReplaceAll(text, []byte("one.db"), []byte(name)))
	}
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		p, err := decodePoint(name, text)
		if err != nil {
			return
		}
		checkNames(t, "fuzz", p)
		if again, err := json.Marshal(p); err != nil || !bytes.Equal(again, text) || pointName(p) != name || p.Number == 0 {
			t.Errorf("%q decodes to %+v", text, p)
		}
		if _, ok := parsePointName(name); !ok {
			t.Errorf("a list does not contain %q", name)
		}
	})
}

// TestHostilePoint checks that a restore refuses each point with a hostile name, names its object, and writes nothing.
func TestHostilePoint(t *testing.T) {
	t.Parallel()
	w := twoPoints(t, func(o *Options) { o.Also = map[string]string{"secrets.toml": secretsFile(t)} })
	listed, err := listPoints(t.Context(), w.target)
	w.must(err)
	newest := listed[len(listed)-1].name
	good, err := pointOf(w.target, newest)
	w.must(err)
	for _, hostile := range hostileNames {
		for what, change := range map[string]func(*Point){
			"database": func(p *Point) { p.Files = map[string]Position{hostile: p.Files["one.db"]} },
			"run":      func(p *Point) { p.Files = map[string]Position{"one.db": {Run: hostile, TXID: 1, Sum: 1, Size: 1}} },
			"file":     func(p *Point) { p.Also = map[string]string{hostile: p.Also["secrets.toml"]} },
			"object":   func(p *Point) { p.Also = map[string]string{"secrets.toml": hostile} },
		} {
			p := good
			change(&p)
			text, err := json.Marshal(p)
			w.must(err)
			w.must(w.target.Put(t.Context(), newest, w.r.keys.unencrypted().seal(newest, bytes.NewReader(text))))
			before := tree(t, w.root)
			if _, err := w.restoreAll(); err == nil || !strings.Contains(err.Error(), newest) {
				t.Errorf("%s %.40q: %v", what, hostile, err)
			}
			if after := tree(t, w.root); before != after {
				t.Errorf("%s %.40q: the files changed:\n%s\n%s", what, hostile, before, after)
			}
		}
	}
}

func secretsFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "secrets.toml")
	if err := os.WriteFile(path, []byte("a = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tree lists all files below a folder with their sizes.
func tree(t *testing.T, root string) (text string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, err := d.Info()
			text += fmt.Sprintln(path, info.Size())
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
