package replica

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// TestPublicKeyText checks that each wrong, missing, added or swapped character is found.
func TestPublicKeyText(t *testing.T) {
	t.Parallel()
	good := testKey.Public()
	text := good.String()
	for _, same := range []string{text, strings.ToUpper(text), " " + text + "\n"} {
		if k, err := ParsePublicKey(same); err != nil || k != good {
			t.Errorf("%q: %v", same, err)
		}
	}
	wrong := []string{"", publicPrefix, text + "a", text + text, "age1" + text, strings.Replace(text, "hfsig1", "hfsig2", 1)}
	for i := range text {
		wrong = append(wrong, text[:i]+text[i+1:], text[:i]+"a"+text[i:])
		for _, c := range "ab7z0-" {
			if changed := text[:i] + string(c) + text[i+1:]; changed != text {
				wrong = append(wrong, changed)
			}
		}
		if i > 0 && text[i] != text[i-1] {
			wrong = append(wrong, text[:i-1]+text[i:i+1]+text[i-1:i]+text[i+1:])
		}
	}
	for _, changed := range wrong {
		if k, err := ParsePublicKey(changed); err == nil && !strings.Contains(strings.Repeat(text, 2), changed) {
			t.Errorf("%q is %v", changed, k)
		}
	}
	if k, err := ParseSigningKey(testKey.Text()); err != nil || k.Public() != good {
		t.Errorf("the private key: %v", err)
	}
	for _, changed := range []string{"", testKey.Text()[1:], testKey.Text() + "A", strings.ToLower(testKey.Text()), text} {
		if _, err := ParseSigningKey(changed); err == nil {
			t.Errorf("%q is a private key", changed)
		}
	}
}

// reopen starts the server again after its replica was closed, and writes.
func (w *world) reopen() {
	w.t.Helper()
	w.close()
	w.open()
	w.must(w.exec("one.db", insert, 2, 100))
	w.must(w.capture())
}

// TestRollback deletes the newest point, brings back an older state, or adds a forged point. The next start and the
// running server notice it and go on, and a restore that expects the point refuses.
func TestRollback(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	for what, c := range map[string]struct {
		change func(w *world, points []listedPoint)
		says   string
	}{
		"nothing":       {func(*world, []listedPoint) {}, ""},
		"a deleted one": {func(w *world, p []listedPoint) { w.must(w.target.Delete(t.Context(), p[len(p)-1].name)) }, "lacks the restore point number"},
		"all deleted": {func(w *world, p []listedPoint) {
			for _, l := range p {
				w.must(w.target.Delete(t.Context(), l.name))
			}
		}, "it has none"},
		"a forged point": {func(w *world, _ []listedPoint) {
			p := goodPoint()
			p.Number = 1<<63 - 1
			w.must(w.target.Put(t.Context(), pointName(p), keys{signing: NewSigningKey()}.seal(pointName(p), bytes.NewReader([]byte("{}")))))
		}, "somebody else wrote it"},
	} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := twoPoints(t, nil)
			w.must(w.r.Close(t.Context()))
			newest := w.r.newest()
			points, err := listPoints(t.Context(), w.target)
			w.must(err)
			c.change(w, points)
			_, err = Look(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust, AtLeast: Expected{Number: newest.Number, Time: newest.Time}})
			if (err == nil) != (c.says == "") {
				t.Errorf("a restore: %v", err)
			}
			w.checked = map[string]bool{}
			for _, l := range points {
				w.checked[l.name] = true
			}
			w.checked["points/7fffffffffffffff-1795273445678.json"] = true
			w.reopen()
			w.must(w.r.ship(t.Context()))
			noticed := w.r.Status().Noticed
			if c.says == "" && noticed != nil || c.says != "" && (noticed == nil || !strings.Contains(noticed.Error(), c.says) || !errcode.Is(noticed, errcode.Denied)) {
				t.Errorf("noticed %v", noticed)
			}
			if p := w.r.newest(); p.Number <= newest.Number || p.Number > newest.Number+10 {
				t.Errorf("the next point is %d after %d", p.Number, newest.Number)
			}
		})
	}
}

// TestNewLocation checks that a server whose replica.url was changed does not miss the points of the former location, and
// that it notices an empty target at the same location.
func TestNewLocation(t *testing.T) {
	t.Parallel()
	location := "s3://former"
	w := twoPoints(t, func(o *Options) { o.Location = location })
	for _, c := range []struct{ location, says string }{{"s3://new", ""}, {"s3://new", "another repository than before"}} {
		w.must(w.r.Close(t.Context()))
		location = c.location
		w.target.Target = Folder(t.TempDir())
		w.must(os.RemoveAll(filepath.Join(w.folder, "spool"))) // it would say that the marker is lost
		w.reopen()
		w.must(w.r.ship(t.Context()))
		noticed := w.r.Status().Noticed
		if c.says == "" && noticed != nil || c.says != "" && (noticed == nil || !strings.Contains(noticed.Error(), c.says)) {
			t.Errorf("%+v: noticed %v", c, noticed)
		}
	}
}

// TestRunningRollback deletes the newest point of a running server, which deletes nothing then, and reports it.
func TestRunningRollback(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	w := twoPoints(t, nil)
	w.must(w.target.Delete(t.Context(), pointName(w.r.newest())))
	before := len(w.objects())
	err := w.r.tidy(t.Context(), w.clock.Now().Add(1000*time.Hour))
	if !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "lacks the restore point") || w.r.Status().Noticed == nil {
		t.Errorf("%v, noticed %v", err, w.r.Status().Noticed)
	}
	if after := len(w.objects()); after != before {
		t.Errorf("%d objects were deleted", before-after)
	}
}

// TestEncryptionBegins checks that a server that begins or ends encryption starts new series: each point is either
// encrypted or not, and can be restored.
func TestEncryptionBegins(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var recipients []age.Recipient
	w := newToyWorld(t, testdb.MemoryFolder(t), func(o *Options) { o.Recipients = recipients })
	var points []Point
	for _, next := range [][]age.Recipient{{identity.Recipient()}, nil, nil} {
		w.toys.put([]byte("toy"))
		w.must(errors.Join(w.exec("two.db", insert, 3, 100), w.capture()))
		w.must(errors.Join(w.r.ship(t.Context()), w.capture(), w.upload(), w.r.ship(t.Context()))) // the first one finds the other series
		points = append(points, w.r.newest())
		w.must(w.r.Close(t.Context()))
		w.close()
		w.clock.Advance(time.Minute)
		recipients = next
		w.open()
	}
	defer w.close()
	for i, p := range points {
		ids := [][]age.Identity{nil, {identity}}
		if p.Encrypted != (i == 1) {
			t.Errorf("point %d: encrypted %v", i, p.Encrypted)
		}
		for _, ids := range ids {
			_, err := Restore(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust, Identities: ids, At: p.Time, Into: t.TempDir()})
			if fits := p.Encrypted == (len(ids) > 0); fits != (err == nil) {
				t.Errorf("point %d with %d identities: %v", i, len(ids), err)
			}
		}
	}
}

// TestBomb checks that a body and a point state how much is decompressed.
func TestBomb(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	packed, err := pack(bytes.NewReader(make([]byte, 64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	object := bodyName("toys", "bomb")
	k := keys{signing: testKey, signer: testKey.Public(), repository: goodPoint().Repository}
	bomb := attackedTarget{}
	if bomb[object], err = io.ReadAll(k.seal(object, packed)); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]errcode.Code{10: errcode.Internal, 64<<20 - 1: errcode.Internal, 64<<20 + 1: errcode.Internal} {
		body, err := Restoring{Target: bomb}.OpenBody(t.Context(), goodPoint(), "toys", "bomb", size)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, body)
		if !errcode.Is(err, want) || n > size || !strings.Contains(err.Error(), object) {
			t.Errorf("size %d: read %d bytes, %v", size, n, err)
		}
		_ = body.Close()
	}
	w := twoPoints(t, nil)
	p := w.r.newest()
	position := p.Files["one.db"]
	for what, wrong := range map[string]Position{
		"size": {Run: position.Run, TXID: position.TXID, Sum: position.Sum, Size: position.Size - 4096}, "checksum": {Run: position.Run, TXID: position.TXID, Sum: position.Sum ^ 1, Size: position.Size},
	} {
		q := p
		q.Files = map[string]Position{"one.db": wrong}
		into := t.TempDir()
		_, err := Restoring{Target: w.target, Into: into}.fill(t.Context(), q, []string{"one.db"})
		if !errcode.Is(err, errcode.Unavailable) || !strings.Contains(err.Error(), filesPrefix("one.db", position.Run)) {
			t.Errorf("another %s: %v", what, err)
		}
		if left, err := os.ReadDir(into); err != nil || len(left) > 0 {
			t.Errorf("another %s leaves %v, %v", what, left, err)
		}
	}
}

// TestOtherKey checks that a server does not continue a repository that another key signed, or nobody.
func TestOtherKey(t *testing.T) {
	t.Parallel()
	w := twoPoints(t, nil)
	other := newWorld(t, t.TempDir(), func(o *Options) { o.Key, o.Target = NewSigningKey(), w.target })
	t.Cleanup(other.close)
	other.must(other.capture())
	if err := other.r.ship(t.Context()); !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "signed with another key, "+testKey.Public().String()) {
		t.Errorf("another key: %v", err)
	}
	old := []byte(`{"format":1,"server":"server-1","holder":"x"}`)
	w.must(os.WriteFile(filepath.Join(w.root, "target", MarkerName), old, 0o600))
	if err := other.r.ship(t.Context()); !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "did not sign") {
		t.Errorf("no key: %v", err)
	}
	_, err := Look(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust})
	if !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "is not signed") || !strings.Contains(err.Error(), "--unsigned") {
		t.Errorf("restored with a key: %v", err)
	}
	if _, err = Look(t.Context(), Restoring{Target: w.target, Known: testNames}); !errcode.Is(err, errcode.Denied) {
		t.Errorf("restored without a choice: %v", err)
	}
}
