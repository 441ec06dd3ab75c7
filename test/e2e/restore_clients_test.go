package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	ext "holdfast/client/ext"
	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// TestClientsOfARestoredServer restores a backup, and continues with clients that saw later writes: none may take
// another object for a known one, miss a change, or make an object from a half upload.
func TestClientsOfARestoredServer(t *testing.T) {
	t.Parallel()
	vars := guestVars("HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t), "HOLDFAST_BUCKETS__INLINE=0", "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false", "HOLDFAST_GUEST__RATE_LIMITS=false")
	hook := newRestoredHook(t)
	vars = append(vars, hook.vars()...)
	s := binary.Start(t, filepath.Join(t.TempDir(), "data"), vars...)
	hook.begin(s)
	hook.write(s, 1)
	backup := filepath.Join(t.TempDir(), "backup")
	feed, uploads, handoffs, batch := newRestoredFeed(t, s), newRestoredUploads(t, s), newRestoredHandoffs(t, s), newRestoredBatch(t, s)
	s.Verb("backup", backup)
	feed.lose()
	uploads.lose()
	handoffs.lose(s)
	batch.lose()
	hook.write(s, 2)
	s.Kill()

	data := filepath.Join(t.TempDir(), "restored")
	if r := binary.Run(t, binary.Environ(append([]string{"HOLDFAST_DATA=" + data}, vars...)...), "restore", backup); r.Status != 0 {
		t.Fatalf("restore: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	for _, body := range bodyFiles(t, data) { // as if it had been collected since the backup
		if err := os.Remove(body); err != nil {
			t.Fatal(err)
		}
	}
	again := binary.Start(t, data, vars...)
	feed.check(again)
	feed.checkSchemas(again)
	uploads.check()
	handoffs.check(again)
	batch.check(again)
	hook.check(again)
}

// restoredFeed is an install that the backup contains, and one that it lacks.
type restoredFeed struct {
	t       *testing.T
	of      map[string]extension
	known   map[string]ext.RecordMeta // of the lost server
	cursors map[string]int64
	schemas map[string]int32 // the lost server's newest versions, registered after the backup
}

func newRestoredFeed(t *testing.T, s *binary.Server) *restoredFeed {
	f := &restoredFeed{t: t, of: map[string]extension{
		"kept": newExtension(t, s, "3a000000-0000-4000-8000-000000000001", "s=rw"),
		"lost": newExtension(t, s, "3a000000-0000-4000-8000-000000000002", "s=rw"),
	}, known: map[string]ext.RecordMeta{}, cursors: map[string]int64{}, schemas: map[string]int32{}}
	f.put(f.client("kept", s), "first")
	f.register(f.client("kept", s), "first")
	return f
}

func (f *restoredFeed) client(name string, s *binary.Server) ext.Install {
	f.t.Helper()
	c, err := ext.New(s.URL, ext.StaticToken(f.of[name].token))
	if err != nil {
		f.t.Fatal(err)
	}
	return c.Install(f.of[name].install)
}

func (f *restoredFeed) put(i ext.Install, value string, pre ...ext.Precondition) ext.RecordMeta {
	f.t.Helper()
	meta, err := i.Records("s").Put(f.t.Context(), "a", ext.Put{Value: value}, pre...)
	if err != nil {
		f.t.Fatal(err)
	}
	return meta
}

// register returns a new schema's version.
func (f *restoredFeed) register(i ext.Install, title string) int32 {
	f.t.Helper()
	schema, err := i.Records("s").RegisterSchema(f.t.Context(), map[string]string{"title": title})
	if err != nil {
		f.t.Fatal(err)
	}
	return schema.Version
}

func (f *restoredFeed) lose() {
	f.t.Helper()
	for name, e := range f.of {
		i := f.client(name, e.server)
		f.known[name] = f.put(i, "lost")
		last, err := i.Latest(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		f.cursors[name] = last
		f.schemas[name] = f.register(i, "lost")
	}
}

// checkSchemas checks that a client that keeps schemas by their version never keeps another schema.
func (f *restoredFeed) checkSchemas(s *binary.Server) {
	f.t.Helper()
	for name := range f.of {
		i := f.client(name, s)
		if version := f.register(i, "another"); version < f.schemas[name]+10_000 {
			f.t.Errorf("%s: the next schema is version %d: the lost server may have registered it after %d", name, version, f.schemas[name])
		}
		if lost := f.schemas[name]; lost > 0 {
			if schema, err := i.Records("s").Schema(f.t.Context(), lost); !errors.Is(err, ext.CodeNotFound) {
				f.t.Errorf("%s: version %d of the lost server is %s %v", name, lost, schema.Schema, err)
			}
		}
	}
	if schema, err := f.client("kept", s).Records("s").Schema(f.t.Context(), 1); err != nil || !strings.Contains(string(schema.Schema), "first") {
		f.t.Errorf("the schema of the backup: %s %v", schema.Schema, err)
	}
}

func (f *restoredFeed) check(s *binary.Server) {
	f.t.Helper()
	ctx := f.t.Context()
	for name, known := range f.known {
		i := f.client(name, s)
		for range 2 { // before and after the next write
			for _, err := range i.Watch(ctx, f.cursors[name]) {
				if !errors.Is(err, ext.CodeChangesExpired) {
					f.t.Errorf("%s: a follower of the lost server: %v, want %s", name, err, ext.CodeChangesExpired)
				}
				break
			}
			if meta, err := i.Records("s").Put(ctx, "a", ext.Put{Value: "mine"}, ext.IfMatch(known.Etag)); !errors.Is(err, ext.CodeRevisionMismatch) {
				f.t.Errorf("%s: IfMatch with an ETag of the lost server: %v %v", name, meta, err)
			}
			if meta, err := i.Records("s").Put(ctx, "a", ext.Put{Value: "mine"}, ext.IfRevision(known.Revision)); !errors.Is(err, ext.CodeRevisionMismatch) {
				f.t.Errorf("%s: IfRevision with a revision of the lost server: %v %v", name, meta, err)
			}
			if rec, err := i.Records("s").Get(ctx, "a", ext.IfNoneMatch(known.Etag)); errors.Is(err, ext.ErrNotModified) {
				f.t.Errorf("%s: the copy of the lost server counts as current: %s", name, rec.Value)
			}
			f.put(i, "another")
		}
		// The client reads everything again, and follows.
		last, err := i.Latest(ctx)
		if err != nil {
			f.t.Fatal(err)
		}
		meta := f.put(i, "next")
		for change, err := range i.Watch(ctx, last) {
			if err != nil || change.Revision != meta.Revision {
				f.t.Errorf("%s: %+v %v, want revision %d", name, change, err, meta.Revision)
			}
			break
		}
	}
}

type restoredUploads struct {
	s3
	before, after string // upload IDs
	parts         string // of the upload before, for CompleteMultipartUpload
}

const restoredPart = "part of an upload in progress"

func newRestoredUploads(t *testing.T, s *binary.Server) *restoredUploads {
	u := &restoredUploads{s3: s3{t, s.S3(t)}}
	u.want(http.StatusOK, http.MethodPut, "/box", nil)
	u.before = u.begin()
	u.parts = u.put(u.before, 1)
	return u
}

func (u *restoredUploads) begin() string {
	u.t.Helper()
	text := u.want(http.StatusOK, http.MethodPost, "/box/large?uploads=", nil)
	id := regexp.MustCompile(`<UploadId>(.*)</UploadId>`).FindSubmatch(text)
	if id == nil {
		u.t.Fatalf("%s", text)
	}
	return string(id[1])
}

func (u *restoredUploads) put(id string, number int) string {
	u.t.Helper()
	a, err := u.Send(u.t.Context(), http.MethodPut, "/box/large?partNumber="+string(rune('0'+number))+"&uploadId="+id, restoredPart)
	if err != nil || a.Status != http.StatusOK {
		u.t.Fatalf("part: %d %s %v", a.Status, a.Body, err)
	}
	return "<Part><PartNumber>" + string(rune('0'+number)) + "</PartNumber><ETag>" + a.Header.Get("Etag") + "</ETag></Part>"
}

func (u *restoredUploads) complete(status int, id, parts, code string) {
	u.t.Helper()
	body := "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>"
	if text := u.want(status, http.MethodPost, "/box/large?uploadId="+id, []byte(body)); !strings.Contains(string(text), code) {
		u.t.Errorf("complete: %s, want %s", text, code)
	}
}

func (u *restoredUploads) lose() { u.after = u.begin() }

func (u *restoredUploads) check() {
	u.t.Helper()
	u.complete(http.StatusNotFound, u.after, u.parts, "NoSuchUpload")
	u.complete(http.StatusBadRequest, u.before, u.parts, "InvalidPart")
	u.want(http.StatusNotFound, http.MethodGet, "/box/large", nil)
	u.complete(http.StatusOK, u.before, u.put(u.before, 1), "ETag")
	if got := u.want(http.StatusOK, http.MethodGet, "/box/large", nil); string(got) != restoredPart {
		u.t.Errorf("the object is %q", got)
	}
}

type restoredHandoffs struct {
	visitor *visitor
	open    guest.Handoff
	minted  guest.Handoff
}

func newRestoredHandoffs(t *testing.T, s *binary.Server) *restoredHandoffs {
	v := newVisitor(t, s)
	return &restoredHandoffs{visitor: v, open: v.mint(s, "first")}
}

func (h *restoredHandoffs) lose(s *binary.Server) {
	h.visitor.t.Helper()
	newSite(h.visitor.t, s, "site").want(http.StatusOK, "consume", h.open, "booking-1", "")
	h.minted = h.visitor.mint(s, "second")
}

func (h *restoredHandoffs) check(s *binary.Server) {
	h.visitor.t.Helper()
	site := newSite(h.visitor.t, s, "site")
	for name, of := range map[string]guest.Handoff{"consumed since": h.open, "minted since": h.minted} {
		for _, key := range []string{"booking-1", "booking-2"} {
			if status, text := site.send("consume", of, key); status != http.StatusForbidden {
				h.visitor.t.Errorf("a handoff %s the backup can be consumed: %d %s", name, status, text)
			}
		}
	}
	site.want(http.StatusOK, "consume", h.visitor.mint(s, "third"), "booking-3", "")
}

type restoredBatch struct {
	t    *testing.T
	c    binary.Credentials
	url  string
	path string
}

func newRestoredBatch(t *testing.T, s *binary.Server) *restoredBatch {
	b := &restoredBatch{t: t, c: s.Token(1), url: s.URL}
	var opened struct{ Batch string }
	a := b.c.Want(t, http.StatusAccepted, http.MethodPost, "/storage/bookmarks?batch=true", `[{"id":"a","payload":"1"}]`)
	if err := json.Unmarshal([]byte(a.Body), &opened); err != nil || opened.Batch == "" {
		t.Fatalf("%v: %s", err, a.Body)
	}
	b.path = "/storage/bookmarks?batch=" + opened.Batch
	return b
}

func (b *restoredBatch) lose() {
	b.t.Helper()
	b.c.Want(b.t, http.StatusAccepted, http.MethodPost, b.path, `[{"id":"b","payload":"2"}]`)
}

func (b *restoredBatch) check(s *binary.Server) {
	b.t.Helper()
	b.c.Endpoint = strings.Replace(b.c.Endpoint, b.url, s.URL, 1)
	b.c.Want(b.t, http.StatusBadRequest, http.MethodPost, b.path+"&commit=true", `[{"id":"c","payload":"3"}]`)
	if a := b.c.Want(b.t, http.StatusOK, http.MethodGet, "/storage/bookmarks", ""); strings.TrimSpace(a.Body) != "[]" {
		b.t.Errorf("a batch without its middle was committed: %s", a.Body)
	}
}

// TestFinishRestore prepares databases that another program restored, as holdfast restore prepares its own. It may be
// repeated, e.g. after it was killed.
func TestFinishRestore(t *testing.T) {
	t.Parallel()
	for name, databases := range map[string]func() []string{
		"SQLite": func() []string { return nil },
		"PostgreSQL": func() (vars []string) {
			url := testdb.PostgresDatabase(t)
			for _, service := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "GUEST", "BUCKETS"} {
				vars = append(vars, "HOLDFAST_"+service+"__DATABASE_URL="+url)
			}
			return vars
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fxa := newAccounts(t)
			vars := guestVars(append(databases(), "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t), "HOLDFAST_BUCKETS__INLINE=0",
				"HOLDFAST_GUEST__RATE_LIMITS=false", "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL)...)
			data := filepath.Join(t.TempDir(), "data")
			binary.Migrate(t, data, vars...)
			s := binary.Start(t, data, vars...)
			before, _ := fxa.signIn(t, s, "before", 1)
			feed, uploads, handoffs, batch := newRestoredFeed(t, s), newRestoredUploads(t, s), newRestoredHandoffs(t, s), newRestoredBatch(t, s)
			first := feed.put(feed.client("kept", s), "second")
			moment := time.Now().UTC().Format(time.RFC3339)
			env := binary.Environ(append([]string{"HOLDFAST_DATA=" + data}, vars...)...)
			finish := func(status int, says string, args ...string) {
				t.Helper()
				if r := binary.Run(t, env, append([]string{"finish-restore"}, args...)...); r.Status != status || !strings.Contains(r.Stdout+r.Stderr, says) {
					t.Errorf("finish-restore %v: status %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
				}
			}
			s.Kill()
			finish(2, "--time is required")
			finish(2, "in the future", "--time", "2999-01-01T00:00:00Z")
			finish(2, "unknown service", "--time", moment, "--service", "tokens")
			for range 2 {
				finish(0, "prepared syncstorage, tokenserver, extstorage, buckets, guest", "--time", moment)
			}
			again := binary.Start(t, data, vars...)
			if stranger, a := fxa.signIn(t, again, "stranger", 1); stranger.UID < before.UID+1_000_000 {
				t.Errorf("another account is user %d after %d: %d %s", stranger.UID, before.UID, a.Status, a.Body)
			}
			if next := feed.put(feed.client("kept", again), "third"); next.Revision < first.Revision+2_000_000_000 {
				t.Errorf("revision %d after %d", next.Revision, first.Revision)
			}
			if next := feed.put(feed.client("lost", again), "first"); next.Revision < 2_000_000_000 {
				t.Errorf("revision %d of another install", next.Revision)
			}
			feed.checkSchemas(again)
			for _, body := range bodyFiles(t, data) {
				if err := os.Remove(body); err != nil {
					t.Fatal(err)
				}
			}
			uploads.complete(http.StatusBadRequest, uploads.before, uploads.parts, "InvalidPart")
			if status, text := newSite(t, again, "site").send("consume", handoffs.open, "booking"); status != http.StatusForbidden {
				t.Errorf("an old handoff can be consumed: %d %s", status, text)
			}
			batch.check(again)
		})
	}
}
