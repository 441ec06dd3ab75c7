//test:unraced the race detector makes it ten times as slow

package maintenance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func other(o *buckets.Object) (free string) {
	for _, id := range nodeIDs {
		if !slices.Contains(o.Sharks, id) {
			free = id
		}
	}
	return free
}

func (s *site) read(name string) []byte {
	s.t.Helper()
	text, err := os.ReadFile(name)
	s.must(err)
	return text
}

// write writes a file and makes all files older than the grace period.
func (s *site) write(name string, text []byte) {
	s.t.Helper()
	s.must(os.WriteFile(name, text, 0o600))
	s.age()
}

type damage struct {
	name   string
	damage func(s *site, o buckets.Object)
	found  func(o buckets.Object) []string
	verify bool
	level  int
	lost   bool
}

var damages = []damage{
	{
		name: "nothing", damage: func(*site, buckets.Object) {},
		found: func(buckets.Object) []string { return nil }, verify: true, level: 2,
	},
	{
		name:   "deleted file",
		damage: func(s *site, o buckets.Object) { s.must(os.Remove(s.file(o.Sharks[0], &o))) },
		found:  func(o buckets.Object) []string { return []string{"missing " + o.Sharks[0] + " a"} },
	},
	{
		name: "flipped bit",
		damage: func(s *site, o buckets.Object) {
			text := s.read(s.file(o.Sharks[1], &o))
			text[len(text)/2] ^= 1
			s.write(s.file(o.Sharks[1], &o), text)
		},
		found: func(o buckets.Object) []string { return []string{"corrupt " + o.Sharks[1] + " a"} }, verify: true,
	},
	{
		name:   "truncated file",
		damage: func(s *site, o buckets.Object) { s.must(os.Truncate(s.file(o.Sharks[0], &o), 10)) },
		found:  func(o buckets.Object) []string { return []string{"corrupt " + o.Sharks[0] + " a"} },
	},
	{
		name: "extra file",
		damage: func(s *site, o buckets.Object) {
			none := o
			none.ID = buckets.ObjectID(buckets.NewUUID())
			s.must(os.MkdirAll(s.dirs["west:1"]+"/v2/"+string(s.owner)+"/"+string(s.bucket.ID)+"/"+string(none.ID[:2]), 0o700))
			s.write(s.file("west:1", &none), []byte("x"))
		},
		found: func(buckets.Object) []string { return []string{"unreferenced west:1"} },
	},
	{
		name: "extra copy", // left by a killed drain
		damage: func(s *site, o buckets.Object) {
			to := other(&o)
			s.must(s.cluster.Restore(s.t.Context(), s.path(&o), s.reference(&o), to))
			s.age()
		},
		found: func(o buckets.Object) []string { return []string{"unreferenced " + other(&o)} },
	},
	{
		name: "unfinished write",
		damage: func(s *site, o buckets.Object) {
			folder := s.dirs["east:1"] + "/v2/" + string(s.owner)
			s.must(os.MkdirAll(folder, 0o700)) // this node may have no copy yet
			s.write(folder+"/.tmp-0123", []byte("x"))
		},
		found: func(buckets.Object) []string { return []string{"unreferenced east:1"} },
	},
	{
		name: "wrong sharks, with another good copy",
		damage: func(s *site, o buckets.Object) {
			s.setSharks("a", o.Sharks[0], other(&o))
		},
		found: func(o buckets.Object) []string {
			return []string{"missing " + other(&o) + " a", "unreferenced " + o.Sharks[1]}
		},
	},
	{
		name:   "wrong sharks only",
		damage: func(s *site, o buckets.Object) { s.setSharks("a", other(&o)) },
		found: func(o buckets.Object) []string {
			return []string{"few-copies  a", "missing " + other(&o) + " a", "unreferenced " + o.Sharks[0], "unreferenced " + o.Sharks[1]}
		},
		level: 2,
	},
	{
		name:   "unknown node",
		damage: func(s *site, o buckets.Object) { s.setSharks("a", o.Sharks[0], "north:1") },
		found: func(o buckets.Object) []string {
			return []string{"missing north:1 a", "unreferenced " + o.Sharks[1]}
		},
	},
	{
		name: "few copies",
		damage: func(s *site, o buckets.Object) {
			s.setSharks("a", o.Sharks[0])
			s.must(os.Remove(s.file(o.Sharks[1], &o)))
		},
		found: func(o buckets.Object) []string { return []string{"few-copies  a"} }, level: 2,
	},
	{
		name: "all copies",
		damage: func(s *site, o buckets.Object) {
			s.must(os.Remove(s.file(o.Sharks[0], &o)))
			s.must(os.Truncate(s.file(o.Sharks[1], &o), 1))
		},
		found: func(o buckets.Object) []string {
			return []string{"missing " + o.Sharks[0] + " a", "corrupt " + o.Sharks[1] + " a"}
		},
		lost: true,
	},
	{
		name: "counters",
		damage: func(s *site, _ buckets.Object) {
			s.must(s.exec(`UPDATE manta_bucket_usage SET objects = objects + 7 WHERE bucket_id = '` + string(s.bucket.ID) + `'`))
		},
		found: func(buckets.Object) []string { return []string{"wrong-usage"} },
	},
}

func TestFindings(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		for _, tc := range damages {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				tc.run(t, newSite(t))
			})
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) { // use a single database, because creating databases takes most of the time
		t.Parallel()
		db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations)
		tables := opened.Lines(t, db, `SELECT tablename::text FROM pg_tables WHERE tablename LIKE 'manta\_%'`)
		for _, tc := range damages {
			t.Run(tc.name, func(t *testing.T) {
				_, err := db.Exec(t.Context(), pgdb.Statement{Name: "empty", SQL: `TRUNCATE ` + strings.Join(tables, ", ")})
				if err != nil {
					t.Fatal(err)
				}
				tc.run(t, newPostgresSite(t, db))
			})
		}
	})
}

func (tc *damage) run(t *testing.T, s *site) {
	t.Helper()
	o := s.put("a", large('a'))
	s.put("b", "bbb")
	s.upload("c", "part one", "part two")
	s.put("garbage", large('g'))
	s.remove("garbage")
	s.age()
	tc.damage(s, o)
	found := tc.found(o)
	ao := maintenance.AuditOptions{Verify: tc.verify, Level: tc.level}
	result := s.wantAudit("audit", ao, found...)
	if result.Bodies != 5 || result.Left != int64(len(found)) {
		t.Errorf("result: %+v", result)
	}
	s.wantAudit("again", ao, found...)
	ao.Repair = true
	if tc.lost {
		s.wantAudit("repair", ao, found...)
		return
	}
	var repaired []string
	for _, f := range found {
		repaired = append(repaired, f+" repaired")
	}
	s.wantAudit("repair", ao, repaired...)
	ao.Verify = true
	s.wantAudit("after the repair", ao)
	s.wantFiles()
	s.want("a", large('a'))
	s.want("b", "bbb")
	s.want("c", "part onepart two")
	if now := s.row("a"); len(now.Sharks) != 2 {
		t.Errorf("nodes: %v", now.Sharks)
	}
}

func TestYoungFiles(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		o := s.put("a", large('a'))
		s.age()
		stray := s.file(o.Sharks[0], &o) + "0"
		s.must(os.WriteFile(stray, []byte("of a write that was killed"), 0o600))
		if r := s.wantAudit("a young file", maintenance.AuditOptions{}); r.Young != 1 || r.Copies != 2 {
			t.Errorf("result: %+v", r)
		}
		s.age()
		if r := s.wantAudit("an old file", maintenance.AuditOptions{}, "unreferenced "+o.Sharks[0]); r.Young != 0 {
			t.Errorf("result: %+v", r)
		}
	})
}

// TestUnknownAccount checks that a repair keeps files of an unknown account, which may belong to another database.
func TestUnknownAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.put("a", large('a'))
	folder := s.dirs["west:1"] + "/v2/" + buckets.NewUUID() + "/" + buckets.NewUUID() + "/01"
	s.must(os.MkdirAll(folder, 0o700))
	s.write(folder+"/01234567-89ab-4def-8123-456789abcdef,"+strings.Repeat("0", 32), []byte("x"))
	s.age()
	repair := maintenance.AuditOptions{Repair: true}
	s.wantAudit("repair", repair, "unreferenced west:1")
	repair.UnknownAccounts = true
	s.wantAudit("repair of unknown accounts", repair, "unreferenced west:1 repaired")
	s.wantAudit("after the repair", repair)
}

func discard[T any](_ T, err error) error { return err }

func (s *site) setSharks(name string, sharks ...string) {
	s.t.Helper()
	o := s.row(name)
	set, err := s.store.SetSharks(s.t.Context(), buckets.Reference{Owner: s.owner, Bucket: s.bucket.ID, Name: name, Body: o.Body}, sharks)
	if s.must(err); !set {
		s.t.Fatal("the nodes were not set")
	}
}

func (s *site) upload(name string, parts ...string) {
	s.t.Helper()
	ctx := s.t.Context()
	u := buckets.Upload{ID: buckets.NewUploadID(1), Name: name, Created: 1}
	s.must(s.store.CreateUpload(ctx, s.owner, s.bucket, u))
	c := buckets.Completion{Object: buckets.ObjectID(buckets.NewUUID()), Now: 1, MinPart: 1}
	for i, text := range parts {
		p, err := s.service.PutPart(ctx, buckets.UploadKey{Owner: s.owner, Bucket: s.bucket, Name: name, ID: u.ID}, buckets.PartRequest{Number: i + 1, Size: int64(len(text))}, newSource(text))
		s.must(err)
		c.Parts = append(c.Parts, buckets.PartRef{Number: p.Number, ETag: hexOf(p.MD5)})
	}
	s.must(discard(s.store.Complete(ctx, buckets.UploadKey{Owner: s.owner, Bucket: s.bucket, Name: name, ID: u.ID}, c)))
}

type hooked struct {
	maintenance.Store
	after func(reading int)
	n     int
}

func (h *hooked) References(ctx context.Context, fn func(buckets.Reference) error) error {
	err := h.Store.References(ctx, fn)
	h.n++
	h.after(h.n)
	return err
}

func TestAuditBesideWrites(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		s.put("kept", large('k'))
		s.put("overwritten", large('o'))
		s.put("collected", large('c'))
		broken := s.put("deleted with a missing copy", "x")
		s.must(os.Remove(s.file(broken.Sharks[0], &broken)))
		s.age()
		none := buckets.Object{Name: "uploading", Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID())}}
		store := &hooked{Store: s.store, after: func(reading int) {
			if reading > 1 {
				return
			}
			s.put("new", large('n'))
			s.put("overwritten", large('p'))
			s.remove("collected")
			s.remove("deleted with a missing copy")
			if _, err := s.service.Collect(t.Context(), time.Now(), 1); err != nil { // removes the body of "overwritten"
				t.Error(err)
			}
			if _, err := s.service.Collect(t.Context(), time.Now(), 1); err != nil {
				t.Error(err)
			}
			s.age()
			// A PUT between body and commit: its body is young.
			if _, err := s.cluster.Write(t.Context(), s.path(&none), 5, 2, strings.NewReader("12345")); err != nil {
				t.Error(err)
			}
		}}
		o := s.options()
		o.Store = store
		result, err := maintenance.Audit(t.Context(), o, maintenance.AuditOptions{Verify: true, Repair: true, Level: 2}, func(f maintenance.Finding) error {
			t.Errorf("found %+v", f)
			return nil
		})
		s.must(err)
		if store.n != 2 || result.Left != 0 {
			t.Errorf("%d readings, %+v", store.n, result)
		}
		s.want("kept", large('k'))
		s.want("new", large('n'))
		s.want("overwritten", large('p'))
		for _, id := range nodeIDs {
			if _, err := os.Stat(s.file(id, &none)); err == nil {
				return
			}
		}
		t.Error("the body of the upload was removed")
	})
}

func (s *site) remove(name string) {
	s.t.Helper()
	s.must(discard(s.store.Delete(s.t.Context(), s.owner, s.bucket, buckets.Delete{Name: name, Now: buckets.At(time.Now())})))
}

// TestAuditResumes resumes an audit from every folder state that a killed process can leave.
func TestAuditResumes(t *testing.T) {
	t.Parallel()
	onEach(t, auditResumes)
}

func auditResumes(t *testing.T, s *site) {
	t.Helper()
	var want []string
	for i := range 60 {
		name := fmt.Sprintf("o%03d", i)
		o := s.put(name, name)
		if i%30 == 0 {
			s.must(os.Remove(s.file(o.Sharks[0], &o)))
			want = append(want, "missing "+o.Sharks[0]+" "+name)
		}
	}
	s.age()
	var folders []string
	o := s.options()
	o.Show = func(step maintenance.Step, n, _ int64) {
		if step == maintenance.Listing && n%30 != 0 {
			return
		}
		to := filepath.Join(t.TempDir(), "killed")
		s.must(os.CopyFS(to, os.DirFS(s.folder)))
		folders = append(folders, to)
	}
	audit := func(o maintenance.Options, ao maintenance.AuditOptions) (maintenance.Result, []string) {
		var got []string
		result, err := maintenance.Audit(t.Context(), o, ao, func(f maintenance.Finding) error {
			got = append(got, describe(f))
			return nil
		})
		s.must(err)
		slices.Sort(got)
		return result, got
	}
	slices.Sort(want)
	if _, got := audit(o, maintenance.AuditOptions{Verify: true}); !slices.Equal(got, want) {
		t.Fatalf("findings: %q, want %q", got, want)
	}
	resumed := 0
	for _, folder := range folders {
		o := s.options()
		o.Folder = folder
		result, got := audit(o, maintenance.AuditOptions{Verify: true})
		if !slices.Equal(got, want) || result.Bodies != 60 || result.Copies != 120 {
			t.Errorf("%s: %+v %q, want %q", folder, result, got, want)
		}
		if result.Resumed {
			resumed++
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	}
	if resumed < 3 || resumed == len(folders) {
		t.Errorf("%d of %d audits were continued", resumed, len(folders))
	}
	o.Show, o.Folder = func(maintenance.Step, int64, int64) {}, folders[len(folders)-1]
	s.must(os.CopyFS(o.Folder, os.DirFS(folders[0])))
	for _, ao := range []maintenance.AuditOptions{{}, {Restart: true, Verify: true}, {Node: "east:1", Verify: true}} {
		if result, _ := audit(o, ao); result.Resumed {
			t.Errorf("%+v continued another audit", ao)
		}
	}
}

// TestAuditOfOneNode checks that other nodes are not walked or counted, and that an unreadable node is a finding.
func TestAuditOfOneNode(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		o := s.put("a", "abc")
		for _, id := range o.Sharks {
			s.must(os.Remove(s.file(id, &o)))
		}
		s.age()
		s.wantAudit("one node", maintenance.AuditOptions{Node: o.Sharks[1]}, "missing "+o.Sharks[1]+" a")
		s.wantAudit("another node", maintenance.AuditOptions{Node: other(&o)})
		gone := s.dirs[o.Sharks[0]]
		s.must(os.Rename(gone, gone+"-unmounted"))
		s.wantAudit("an unmounted disk", maintenance.AuditOptions{Verify: true, Repair: true}, "bad-node "+o.Sharks[0], "missing "+o.Sharks[1]+" a")
		if _, err := maintenance.Audit(t.Context(), s.options(), maintenance.AuditOptions{Node: "no:1"}, nil); !errcode.Is(err, errcode.NotFound) {
			t.Errorf("unknown node: %v", err)
		}
	})
}
