package maintenance_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

type store interface {
	maintenance.Store
	buckets.Nodes
	buckets.Events
	buckets.Store
	buckets.Versions
	buckets.Uploads
	buckets.Collector
}

// site is a service with three nodes in two datacenters.
type site struct {
	t       *testing.T
	exec    func(sql string) error
	store   store
	nodes   *buckets.NodeService
	cluster *blobs.Cluster
	service *buckets.Service
	owner   buckets.AccountID
	bucket  buckets.BucketRef
	dirs    map[string]string
	drivers map[string]blobs.Driver
	folder  string
}

var nodeIDs = []string{"east:1", "east:2", "west:1"}

func onEach(t *testing.T, test func(*testing.T, *site)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, newSite(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, newPostgresSite(t, opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations)))
	})
}

func newSite(t *testing.T) *site {
	t.Helper()
	db := opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations)
	s := newSiteOn(t, sqlite.New(db))
	s.exec = func(sql string) error {
		return db.Write(t.Context(), "test", func(c *zombiezen.Conn) error { return sqlitex.Execute(c, sql, nil) })
	}
	return s
}

func newPostgresSite(t *testing.T, db *pgdb.DB) *site {
	t.Helper()
	s := newSiteOn(t, postgres.New(db))
	s.exec = func(sql string) error {
		_, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: sql})
		return err
	}
	return s
}

func newSiteOn(t *testing.T, st store) *site {
	t.Helper()
	s := &site{
		t: t, store: st, nodes: buckets.NewNodeService(st), owner: buckets.AccountID(buckets.NewUUID()), folder: filepath.Join(t.TempDir(), "work"),
		bucket: buckets.BucketRef{Name: "b", ID: buckets.BucketID(buckets.NewUUID())}, dirs: map[string]string{}, drivers: map[string]blobs.Driver{},
	}
	s.cluster = blobs.NewCluster(blobs.Options{Clock: clock.System, Stall: 5 * time.Second})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.must(s.cluster.Close(ctx))
		for _, d := range s.drivers {
			s.must(d.Close())
		}
	})
	for _, id := range nodeIDs {
		s.dirs[id] = filepath.Join(t.TempDir(), "node")
		s.must(filedriver.Init(s.dirs[id], id))
		s.drivers[id] = filedriver.New(s.dirs[id], id)
		s.must(s.store.SetNode(t.Context(), s.node(id)))
	}
	s.sync()
	s.service = buckets.NewService(buckets.Options{
		Backend: s.store, Bodies: s.cluster, Clock: clock.System, Limits: buckets.Limits{Copies: 2, MinPart: 1},
	})
	s.must(s.store.CreateAccount(t.Context(), buckets.Account{ID: s.owner, Name: "main"}))
	_, err := s.store.CreateBucket(t.Context(), s.owner, s.bucket, 1)
	s.must(err)
	return s
}

func (s *site) node(id string) buckets.Node {
	return buckets.Node{ID: id, URL: "file://" + s.dirs[id], State: buckets.NodeActive}
}

// sync sets the cluster's nodes from the database, like a server.
func (s *site) sync() {
	s.t.Helper()
	all, err := s.store.Nodes(s.t.Context())
	s.must(err)
	var nodes []blobs.Node
	for _, n := range all {
		if n.State != buckets.NodeRemoved {
			nodes = append(nodes, blobs.Node{ID: n.ID, State: n.State, Driver: s.drivers[n.ID]})
		}
	}
	s.cluster.Set(nodes...)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

type source struct {
	io.Reader
	text string
}

func (s source) Sums() buckets.Sums {
	sum := md5.Sum([]byte(s.text))
	return buckets.Sums{MD5: sum[:]}
}

func (s *site) put(name, text string) buckets.Object {
	s.t.Helper()
	w, err := s.service.PutObject(s.t.Context(), s.owner, s.bucket, buckets.PutRequest{Object: buckets.Object{Name: name}, Size: int64(len(text))}, newSource(text))
	s.must(err)
	return w.Object
}

func (s *site) get(name string) (string, error) {
	o, err := s.store.Get(s.t.Context(), s.owner, s.bucket.ID, name)
	if err != nil {
		return "", err
	}
	r := s.service.Open(s.t.Context(), s.owner, s.bucket.ID, &o, buckets.Span{Length: o.Length})
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}

func (s *site) want(name, text string) {
	s.t.Helper()
	if got, err := s.get(name); err != nil || got != text {
		s.t.Errorf("%s: %.50q %v, want %.50q", name, got, err, text)
	}
}

func (s *site) row(name string) buckets.Object {
	s.t.Helper()
	o, err := s.store.Get(s.t.Context(), s.owner, s.bucket.ID, name)
	s.must(err)
	return o
}

func (s *site) path(o *buckets.Object) string {
	return buckets.BodyPath(s.owner, s.bucket.ID, o.ID, o.Name)
}

func (s *site) reference(o *buckets.Object) buckets.Reference {
	return buckets.Reference{Owner: s.owner, Bucket: s.bucket.ID, Name: o.Name, Body: o.Body}
}

func (s *site) file(node string, o *buckets.Object) string {
	return filepath.Join(s.dirs[node], s.path(o))
}

// age makes all files two days old.
func (s *site) age() {
	s.t.Helper()
	then := time.Now().Add(-48 * time.Hour)
	for _, dir := range s.dirs {
		s.must(filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				err = os.Chtimes(name, then, then)
			}
			return err
		}))
	}
}

func (s *site) files(node string) (all []string) {
	s.t.Helper()
	for f, err := range s.cluster.Walk(s.t.Context(), node, "") {
		s.must(err)
		all = append(all, f.Path)
	}
	return all
}

// wantFiles checks that the nodes store exactly the referenced files.
func (s *site) wantFiles() {
	s.t.Helper()
	want := map[string][]string{}
	s.must(s.store.References(s.t.Context(), func(r buckets.Reference) error {
		for _, id := range r.Sharks {
			want[id] = append(want[id], buckets.BodyPath(r.Owner, r.Bucket, r.ID, r.Name))
		}
		return nil
	}))
	for _, n := range s.cluster.Nodes() {
		got := s.files(n.ID)
		for _, path := range got {
			if !slices.Contains(want[n.ID], path) {
				s.t.Errorf("%s has %s, which no row names", n.ID, path)
			}
		}
		for _, path := range want[n.ID] {
			if !slices.Contains(got, path) {
				s.t.Errorf("%s does not have %s", n.ID, path)
			}
		}
	}
}

func (s *site) options() maintenance.Options {
	return maintenance.Options{Store: s.store, Nodes: s.nodes, Cluster: s.cluster, Clock: clock.System, Folder: s.folder, Show: func(maintenance.Step, int64, int64) {}, Waiting: func(buckets.Moment) {}}
}

// audit returns the findings as "problem node object repaired".
func (s *site) audit(o maintenance.AuditOptions) (found []string, result maintenance.Result) {
	s.t.Helper()
	result, err := maintenance.Audit(s.t.Context(), s.options(), o, func(f maintenance.Finding) error {
		found = append(found, describe(f))
		return nil
	})
	s.must(err)
	slices.Sort(found)
	return found, result
}

func describe(f maintenance.Finding) string {
	text := strings.TrimSpace(fmt.Sprint(f.Problem, " ", f.Node, " ", f.Object))
	if f.Repaired {
		text += " repaired"
	}
	return text
}

func (s *site) wantAudit(what string, o maintenance.AuditOptions, want ...string) maintenance.Result {
	s.t.Helper()
	slices.Sort(want)
	got, result := s.audit(o)
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
	return result
}

func large(seed byte) string { return string(bytes.Repeat([]byte{seed, 'x', 'y'}, 70_000)) }

func newSource(text string) source { return source{strings.NewReader(text), text} }

func hexOf(sum []byte) string { return hex.EncodeToString(sum) }
