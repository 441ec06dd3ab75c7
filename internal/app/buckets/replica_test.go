package buckets

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"

	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/replica"
)

// client changes objects with its own prefix, and remembers their bodies.
type client struct {
	s      *Buckets
	owner  buckets.AccountID
	bucket buckets.BucketRef
	prefix string
	bodies map[string][]byte
}

func (s *Buckets) newClients(t testing.TB, n int) (all []*client) {
	t.Helper()
	a, err := s.opened.Account(t.Context(), firstAccount)
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.opened.CreateBucket(t.Context(), a.ID, "photos")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		all = append(all, &client{s, a.ID, made.BucketRef, fmt.Sprintf("client-%d/", i), map[string][]byte{}})
	}
	return all
}

func randomBody() []byte {
	size := []int{0, 1, 1000, 70_000, 128 << 10, 300_000}[rand.IntN(6)]
	if rand.IntN(2) == 0 {
		return bytes.Repeat([]byte(fmt.Sprint("holdfast ", rand.Uint32(), " ")), 1+size/20)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func (c *client) step(ctx context.Context) error {
	name := c.prefix + fmt.Sprint(rand.IntN(12))
	switch rand.IntN(8) {
	case 0:
		_, exists := c.bodies[name]
		delete(c.bodies, name)
		if err := c.s.opened.DeleteObject(ctx, c.owner, c.bucket, buckets.Delete{Name: name}); exists || !errors.Is(err, buckets.ErrNoObject) {
			return err
		}
		return nil
	case 1:
		return c.upload(ctx, name)
	case 2: // fails after the body was read
		condition := buckets.PutRequest{Object: buckets.Object{Name: name}, Size: -1, Ready: func() error { return errors.New("the client is gone") }}
		if _, err := c.s.opened.PutObject(ctx, c.owner, c.bucket, condition, text{bytes.NewReader(randomBody())}); err == nil {
			return errors.New("the write does not fail")
		}
		return nil
	case 3:
		for from, body := range c.bodies {
			if got, err := c.get(ctx, from); err != nil || !bytes.Equal(got, body) {
				return fmt.Errorf("%s: got %d bytes, want %d, %w", from, len(got), len(body), err)
			}
			return c.put(ctx, name, body)
		}
	}
	return c.put(ctx, name, randomBody())
}

func (c *client) put(ctx context.Context, name string, body []byte) error {
	_, err := c.s.opened.PutObject(ctx, c.owner, c.bucket, buckets.PutRequest{Object: buckets.Object{Name: name}, Size: int64(len(body))}, text{bytes.NewReader(body)})
	c.bodies[name] = body
	return err
}

func (c *client) upload(ctx context.Context, name string) error {
	id, err := c.s.opened.CreateUpload(ctx, c.owner, c.bucket, buckets.Upload{Name: name})
	if err != nil {
		return err
	}
	key := buckets.UploadKey{Owner: c.owner, Bucket: c.bucket, Name: name, ID: id}
	var whole []byte
	var parts []buckets.PartRef
	last := rand.IntN(4) / 3 // parts before the last are large
	for number := range last + 1 {
		body := randomBody()
		if number < last {
			body = make([]byte, 5<<20)
		}
		for range 2 { // the first upload is overwritten
			copy(body, fmt.Sprint(rand.Uint64()))
			p, err := c.s.opened.PutPart(ctx, key, buckets.PartRequest{Number: number + 1, Size: int64(len(body))}, text{bytes.NewReader(body)})
			if err != nil {
				return err
			}
			parts = append(parts[:number], buckets.PartRef{Number: number + 1, ETag: hex.EncodeToString(p.MD5)})
		}
		whole = append(whole, body...)
	}
	if rand.IntN(3) == 0 {
		return c.s.opened.AbortUpload(ctx, key)
	}
	c.bodies[name] = whole
	_, err = c.s.opened.CompleteUpload(ctx, key, buckets.Completion{Parts: parts})
	return err
}

func (c *client) get(ctx context.Context, name string) ([]byte, error) {
	o, err := c.s.opened.Object(ctx, c.owner, c.bucket.ID, name)
	if err != nil {
		return nil, err
	}
	r := c.s.opened.Open(ctx, c.owner, c.bucket.ID, &o, buckets.Span{Length: o.Length})
	body, err := io.ReadAll(r)
	return body, errors.Join(err, r.Close())
}

func (c *client) names(t *testing.T) (all []string) {
	t.Helper()
	page, err := c.s.opened.List(t.Context(), c.owner, c.bucket.ID, buckets.Query{Limit: buckets.MaxPage})
	if err != nil || page.More {
		t.Fatal(page.More, err)
	}
	for _, e := range page.Entries {
		all = append(all, e.Name())
	}
	return all
}

func restored(t *testing.T, from replica.Restoring, point time.Time) *Buckets {
	t.Helper()
	from.Into, from.At = t.TempDir(), point
	done, err := replica.Restore(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	s, opened := openBuckets(t, from.Into)
	copied, err := opened.Files.Restore(t.Context(), from.Into, func(ctx context.Context, name string, size int64) (io.ReadCloser, error) {
		return from.OpenBody(ctx, done.Point, Name, name, size)
	}, func(int64, int64) {})
	if err != nil || len(copied.Lost)+len(copied.Missing) > 0 || !slices.Equal(copied.Names, []string{Name}) {
		t.Fatalf("restored %+v, %v", copied, err)
	}
	return s
}

// TestReplica checks each restore point of a replica while clients change objects: all objects have bodies, and the
// last point contains all current objects.
func TestReplica(t *testing.T) {
	t.Parallel()
	s, opened := openBuckets(t, t.TempDir())
	clients := s.newClients(t, 3)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	from := replica.Restoring{Known: replica.Names{Databases: []string{Name + ".db"}}, Trust: testTrust, Target: replica.Folder(filepath.Join(t.TempDir(), "target")), Identities: []age.Identity{identity}}
	r := replica.New(replica.Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{Name + ".db": opened.Databases[0].File()}, Bodies: map[string]replica.Bodies{Name: *opened.Files.Bodies},
		Target: from.Target, Recipients: []age.Recipient{identity.Recipient()}, Spool: t.TempDir(), Interval: 50 * time.Millisecond,
		Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
	work(t, clients, 20)
	r.Start()
	work(t, clients, 30)
	found, err := replica.Inspect(t.Context(), from.Target)
	if err != nil || len(found.Points) < 2 {
		t.Fatalf("%d points, %v", len(found.Points), err)
	}
	for _, i := range []int{0, len(found.Points) / 2, len(found.Points) - 1} {
		c := *clients[0]
		c.s = restored(t, from, found.Points[i].Time)
		for _, name := range c.names(t) {
			if _, err := c.get(t.Context(), name); err != nil {
				t.Errorf("point %d: %s: %v", i, name, err)
			}
		}
	}
	collecting, stop := context.WithCancel(t.Context())
	var collector sync.WaitGroup
	collector.Go(func() {
		for collecting.Err() == nil {
			_, _ = s.opened.Collect(t.Context(), time.Now(), 10)
		}
	})
	work(t, clients, 30)
	stop()
	collector.Wait()
	if err := errors.Join(r.CloseBodies(t.Context()), r.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	checkRestored(t, clients, restored(t, from, time.Time{}))
	if s := r.Status().Bodies; s.Waiting != 0 || s.Unreadable != 0 || s.Error != nil {
		t.Errorf("status %+v", s)
	}
}

func work(t *testing.T, clients []*client, steps int) {
	t.Helper()
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() {
			for range steps {
				if err := c.step(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
}

func checkRestored(t *testing.T, clients []*client, s *Buckets) {
	t.Helper()
	var want []string
	for _, c := range clients {
		want = slices.AppendSeq(want, maps.Keys(c.bodies))
		c := *c
		c.s = s
		for name, body := range c.bodies {
			if got, err := c.get(t.Context(), name); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s: got %d bytes, want %d, %v", name, len(got), len(body), err)
			}
		}
	}
	slices.Sort(want)
	c := *clients[0]
	c.s = s
	if got := c.names(t); !slices.Equal(got, want) {
		t.Errorf("objects %v, want %v", got, want)
	}
}

// TestBackupOfBodies checks that another process's backup of a running server contains the bodies of all its objects,
// including objects deleted meanwhile. A later backup sends only new bodies.
func TestBackupOfBodies(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, _ := openBuckets(t, data)
	clients := s.newClients(t, 1)
	work(t, clients, 30)
	from := replica.Restoring{Known: replica.Names{Databases: []string{Name + ".db"}}, Trust: testTrust, Target: &counting{Target: replica.Folder(filepath.Join(t.TempDir(), "target"))}}
	spool := t.TempDir()
	for round := range 2 {
		_, command := openBuckets(t, data)
		held, release, err := command.Files.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := backupOf(command, from.Target, spool)
		if err := errors.Join(r.Sync(held), r.Close(held)); err != nil {
			t.Fatal(err)
		}
		release()
		checkRestored(t, clients, restored(t, from, time.Time{}))
		if sent := from.Target.(*counting).bodies.Swap(0); round == 1 && sent > 2 {
			t.Errorf("the second backup sends %d bodies", sent)
		}
		if err := clients[0].put(t.Context(), "client-0/new", []byte("new")); err != nil {
			t.Fatal(err)
		}
	}
}

type counting struct {
	replica.Target

	bodies atomic.Int64
}

func (c *counting) Put(ctx context.Context, name string, body io.Reader) error {
	if strings.HasPrefix(name, "bodies/") {
		c.bodies.Add(1)
	}
	return c.Target.Put(ctx, name, body)
}

func backupOf(command *servicetest.Server, target replica.Target, spool string) *replica.Replica {
	return replica.New(replica.Options{
		Server: "server", Key: testKey, Once: true, Files: map[string]*sqlitedb.DB{Name + ".db": command.Databases[0].File()}, Bodies: map[string]replica.Bodies{Name: *command.Files.Bodies},
		Target: target, Spool: spool, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
}

var (
	testKey   = replica.NewSigningKey()
	testTrust = replica.Trust{Signers: []replica.Signer{{Key: testKey.Public()}}}
)
