package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// attackedTarget is a bucket that somebody else changes: it can contain any names.
type attackedTarget map[string][]byte

func (a attackedTarget) Put(context.Context, string, io.Reader) error {
	return errcode.New(errcode.Denied, "a restore does not write")
}

func (a attackedTarget) Delete(context.Context, string) error {
	return errcode.New(errcode.Denied, "a restore does not delete")
}

func (a attackedTarget) Get(_ context.Context, name string) (io.ReadCloser, error) {
	content, ok := a[name]
	if !ok {
		return nil, errcode.New(errcode.NotFound, "the replica lacks the object")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (a attackedTarget) List(_ context.Context, prefix string) (names []string, err error) {
	for name := range a {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (a attackedTarget) Walk(ctx context.Context, prefix string, fn func(string) error) error {
	names, err := a.List(ctx, prefix)
	for _, name := range names {
		if err := fn(name); err != nil {
			return err
		}
	}
	return err
}

// attacked is a good repository, and the attacker's knowledge: everything in the target, another repository with the same
// key, and the recipients' public keys.
type attacked struct {
	t       *testing.T
	root    string
	good    attackedTarget
	other   attackedTarget
	public  keys // the attacker's: with the recipients, without the server's key
	ids     []age.Identity
	newest  Point
	bodies  map[string][]byte // by name
	content []string          // of the databases and other files
	tries   int
	swapped string // another object that try changes
}

func newAttacked(t *testing.T, recipients []age.Recipient, ids []age.Identity) *attacked {
	t.Helper()
	a := &attacked{t: t, root: testdb.MemoryFolder(t), ids: ids, swapped: "no other object"}
	for i, to := range []*attackedTarget{&a.good, &a.other} {
		w := newToyWorld(t, filepath.Join(a.root, fmt.Sprint(i)), func(o *Options) {
			o.Recipients, o.Also = recipients, map[string]string{"secrets.toml": secretsFile(t)}
		})
		w.r.keys.identities = ids
		for range 2 {
			w.toys.put(bytes.Repeat([]byte("holdfast "), 50))
			w.toys.put(randomBytes(300))
			for _, name := range names {
				w.must(w.exec(name, insert, 5, 300))
			}
			w.must(w.capture())
			w.must(w.upload())
			w.must(w.ship())
		}
		*to = attackedTarget{}
		for _, name := range w.objects() {
			text, err := os.ReadFile(filepath.Join(w.root, "target", filepath.FromSlash(name)))
			w.must(err)
			(*to)[name] = text
		}
		if i == 0 {
			a.newest, a.bodies = w.r.newest(), maps.Clone(w.toys.content)
			a.public = keys{recipients: recipients, repository: a.newest.Repository}
		}
		w.close()
		w.must(os.RemoveAll(w.root)) // each try reads the whole tree
	}
	var err error
	if a.content, err = a.restore(a.good); err != nil {
		t.Fatal(err)
	}
	return a
}

// restore restores the newest point with its bodies. It fails if the restore changes anything outside its folder.
func (a *attacked) restore(from attackedTarget) (content []string, err error) {
	a.tries++
	into := filepath.Join(a.root, "deep", "into")
	if err := os.MkdirAll(into, 0o700); err != nil {
		a.t.Fatal(err)
	}
	defer os.RemoveAll(into)
	before := testdb.Tree(a.t, a.root, into)
	r := Restoring{Target: from, Known: testNames, Trust: testTrust, Identities: a.ids, Into: into, AtLeast: Expected{Number: a.newest.Number}}
	done, err := Restore(a.t.Context(), r)
	testdb.WantTree(a.t, "restore", before, testdb.Tree(a.t, a.root, into))
	if err != nil {
		left, readErr := os.ReadDir(into)
		for _, f := range left {
			if !slices.Contains(append(names, "secrets.toml"), f.Name()) {
				a.t.Errorf("a failed restore leaves %q", f.Name())
			}
		}
		return nil, cmpError(err, readErr)
	}
	for _, path := range done.Files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		content = append(content, string(text))
	}
	for _, name := range slices.Sorted(maps.Keys(a.bodies)) {
		body, err := r.OpenBody(a.t.Context(), done.Point, toyService, name, int64(len(a.bodies[name])))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(body)
		if err = cmpError(err, body.Close()); err != nil {
			return nil, err
		}
		content = append(content, string(text))
	}
	return content, nil
}

func cmpError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// try changes the repository and restores it. The restore refuses it and names the object, or restores the good data
// because it does not need the object.
func (a *attacked) try(what, object string, needed bool, change func(attackedTarget)) {
	a.t.Helper()
	changed := maps.Clone(a.good)
	change(changed)
	content, err := a.restore(changed)
	plain := strings.TrimSuffix(object, encrypted)
	switch {
	case err == nil && needed:
		a.t.Errorf("%s of %s: not noticed", what, object)
	case err == nil && !slices.Equal(content, a.content):
		a.t.Errorf("%s of %s: restored something else", what, object)
	case err != nil && !strings.Contains(err.Error(), plain) && !strings.Contains(err.Error(), a.swapped) && !strings.Contains(err.Error(), "newest restore point is number") && !strings.Contains(err.Error(), MarkerName):
		a.t.Errorf("%s of %s: the error does not name it: %v", what, object, err)
	}
}

func (a *attacked) isNeeded(object string) bool {
	files := filesOf(slices.Collect(maps.Keys(a.good)))
	for database, position := range a.newest.Files {
		needed, err := files.leadingTo(database, position, a.newest.suffix())
		if err != nil {
			a.t.Fatal(err)
		}
		for _, f := range needed {
			if f.name == object {
				return true
			}
		}
	}
	return object == MarkerName || object == pointName(a.newest) || slices.Contains(slices.Collect(maps.Values(a.newest.Also)), object) || strings.HasPrefix(object, bodiesAll)
}

func (a *attacked) seal(k keys, name string, content []byte) []byte {
	sealed := k.seal(name, bytes.NewReader(content))
	defer sealed.Close()
	text, err := io.ReadAll(sealed)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// forgeries are all ways to write other content into an object without the server's key.
func (a *attacked) forgeries(object string) map[string][]byte {
	content := []byte("[server]\nadmin_token = \"attacker\"\n")
	k := a.public
	if !strings.HasSuffix(object, encrypted) {
		k = k.unencrypted()
	}
	signed := k
	signed.signing = NewSigningKey()
	all := map[string][]byte{
		"a forgery with a checksum":     a.seal(k, object, content),
		"a forgery with another key":    a.seal(signed, object, content),
		"an unencrypted forgery":        a.seal(k.unencrypted(), object, content),
		"a forgery without a signature": content,
	}
	maps.Copy(all, damages(a.good[object]))
	delete(all, "missing")
	return all
}

// TestAlteredObjects changes every object of a repository in every way that needs no private key. Each restore refuses
// it, names the object, and writes nothing outside its folder.
func TestAlteredObjects(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	testdb.CheckOnly(t, "it restores each object of a repository altered in every way: 8 s of processor time")
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*attacked{
		"plain":     newAttacked(t, nil, nil),
		"encrypted": newAttacked(t, []age.Recipient{identity.Recipient()}, []age.Identity{identity}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a.t = t
			objects := slices.Sorted(maps.Keys(a.good))
			for i, object := range objects {
				needed := a.isNeeded(object)
				for kind, content := range a.forgeries(object) {
					a.try(kind, object, needed, func(to attackedTarget) { to[object] = content })
				}
				a.try("missing", object, needed, func(to attackedTarget) { delete(to, object) })
				for step := 1; step < len(objects); step += 3 {
					other := objects[(i+step)%len(objects)]
					a.swapped = strings.TrimSuffix(other, encrypted) // the error may name either
					a.try("swapped with "+other, object, needed, func(to attackedTarget) { to[object], to[other] = to[other], to[object] })
				}
				a.swapped = "no other object"
				a.fromOther(object, needed)
				a.renamed(object, needed)
			}
			a.decoded()
			if a.tries < 1200 {
				t.Errorf("only %d changes", a.tries)
			}
		})
	}
}

// fromOther replaces an object by each object of another repository with the same key.
func (a *attacked) fromOther(object string, needed bool) {
	for other, content := range a.other {
		// Object names of both repositories are equal for bodies and the record.
		kind, _, _ := strings.Cut(other, "/")
		if bytes.Equal(content, a.good[object]) || !strings.HasPrefix(object, kind) {
			continue
		}
		if object == MarkerName { // then the points belong to another repository
			a.swapped = pointName(a.newest)
		}
		a.try("replaced by the other repository's "+other, object, needed, func(to attackedTarget) { to[object] = content })
		if strings.HasPrefix(other, pointsPrefix) && object == pointName(a.newest) {
			a.try("the other repository's point added", other, false, func(to attackedTarget) { to[other] = content })
		}
	}
}

// renamed moves an object to hostile names, and removes or adds the end .age.
func (a *attacked) renamed(object string, needed bool) {
	base := object[:strings.LastIndex(object, "/")+1]
	for i, name := range hostileNames {
		if !needed && i > 0 {
			break // the object is not read
		}
		to := []string{name, base + name}[i%2]
		if to == object {
			continue
		}
		a.try(fmt.Sprintf("renamed to %.40q", to), object, needed, func(target attackedTarget) {
			content := target[object]
			delete(target, object)
			target[to] = content
		})
	}
	a.try("copied to hostile names", object, false, func(target attackedTarget) {
		for _, name := range hostileNames {
			target[name], target[base+name] = target[object], target[object]
		}
	})
	other, isEncrypted := strings.CutSuffix(object, encrypted)
	if !isEncrypted {
		other = object + encrypted
	}
	if object != MarkerName && !strings.HasPrefix(object, pointsPrefix) {
		content := a.seal(a.public.unencrypted(), other, []byte("attacker"))
		a.try("replaced by "+other, object, needed, func(to attackedTarget) { delete(to, object); to[other] = content })
		a.try("beside "+other, object, false, func(to attackedTarget) { to[other] = content })
	}
}

// decoded changes every member in the marker and in the newest point. The attacker signs with another key or not at all.
func (a *attacked) decoded() {
	point := pointName(a.newest)
	for object, size := range map[string]int{MarkerName: 0, point: 64} {
		text := a.good[object][:len(a.good[object])-size]
		if !json.Valid(text) {
			a.t.Fatalf("%s is not JSON: %q", object, text)
		}
		signing := NewSigningKey()
		walkJSON(text, func(what string, changed []byte) {
			if bytes.Equal(changed, text) {
				return
			}
			a.try(what, object, true, func(to attackedTarget) { to[object] = append(changed, a.good[object][len(text):]...) })
			k := a.public.unencrypted()
			k.signing = signing
			a.try(what+", with another key", object, true, func(to attackedTarget) {
				to[object] = a.seal(k, object, bytes.ReplaceAll(changed, []byte(a.newest.Key.String()), []byte(signing.Public().String())))
			})
			a.try(what+", without signature", object, true, func(to attackedTarget) { to[object] = a.seal(keys{}, object, changed) })
		})
	}
	// A marker of the time before signatures makes nothing acceptable.
	old, err := json.Marshal(marker{Format: unsignedFormat, Server: "server-1", Holder: "x"})
	if err != nil {
		a.t.Fatal(err)
	}
	a.try("an unsigned marker", MarkerName, true, func(to attackedTarget) { to[MarkerName] = old })
}
