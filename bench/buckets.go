package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	workload "holdfast/internal/workload/buckets"
)

const (
	s3Objects = "/objects"
	s3List    = "/list"

	s3Small  = 4 << 10
	s3Mixed  = 64 << 10
	s3Middle = 1 << 20

	s3MiddleReads = 16
	s3LargeReads  = 2

	s3Page   = 1000
	s3Groups = 100

	// Most connections for 64 MiB. More PUTs would fill the disk, and so would more GETs, because a GET's limit writes a
	// copy.
	s3LargePuts = 4
	s3LargeGets = 16
	s3Fillers   = 64
)

// s3Load is the work of S3 clients. All connections share buckets and an account, because some servers have only one
// account.
type s3Load struct {
	size *size
	data func() []byte
	last atomic.Int64
	key  func(s *server) (listen string, key sigv4test.Signer, err error)

	retries int
	access  map[*server]credentials

	// Of the limit, from open.
	rows  objectRows
	files *files
}

// newBuckets returns the work with the access key of Holdfast's first account; peers replace key.
func newBuckets(n *size) *s3Load {
	return &s3Load{size: n, key: holdfastKey, access: map[*server]credentials{}, data: sync.OnceValue(func() []byte {
		return []byte(workload.Body(0, 0, max(n.large, s3Middle)))
	})}
}

// holdfastKey returns the access key of the account that the server creates after its start.
func holdfastKey(s *server) (listen string, key sigv4test.Signer, err error) {
	err = s.until(context.Background(), time.Millisecond, func() error {
		out, err := s.command(context.Background(), "buckets", "keys", "list", "main", "--secrets")
		if err == nil {
			key, err = workload.ReadKey(out)
		}
		return err
	})
	return s.buckets, key, err
}

// owner returns the same credentials for any number. Large bodies are not hashed, because clients stream them.
func (w *s3Load) owner(s *server, _ int) (credentials, error) {
	if c, found := w.access[s]; found {
		return c, nil
	}
	listen, key, err := w.key(s)
	if err != nil {
		return credentials{}, err
	}
	hashes := map[int64]string{}
	for _, size := range []int{0, 1, s3Small, s3Mixed, s3Middle} {
		hashes[int64(size)] = workload.Hash(w.body(size))
	}
	signer := workload.NewLoadSigner(key, hashes, time.Now())
	w.access[s] = credentials{Endpoint: "http://" + listen, retries: w.retries, sign: func(r *http.Request) error { signer.Sign(r, time.Now()); return nil }}
	return w.access[s], nil
}

// body returns a body of this many bytes, at most size.large. All bodies begin alike.
func (w *s3Load) body(size int) []byte { return w.data()[:size] }

// newKey returns a path that no request used, in one of 256 folders.
func (w *s3Load) newKey() string {
	n := uint64(w.last.Add(1))
	return fmt.Sprintf("%s/put/%02x/%012d", s3Objects, n*0x9e3779b97f4a7c15>>56, n)
}

// readKey returns the path of the i-th object that GETs read, with size bytes.
func readKey(size, i int) string { return fmt.Sprintf("%s/get/%d/%06d", s3Objects, size, i) }

// deletedKey returns the path of the i-th object that caller c deletes in a round. Each round creates it again.
func deletedKey(c, i int) string { return fmt.Sprintf("%s/delete/%02x/%06d", s3Objects, c, i) }

// listKey returns the i-th key of the listed bucket, in one of 100 folders. Keys ascend with i.
func (w *s3Load) listKey(i int) string {
	return fmt.Sprintf("%02d/%s", i/(w.size.listKeys/s3Groups), id(i))
}

// operations returns PUTs of new objects, GETs and lists of the objects from fill, DELETEs of objects that each round
// creates, and mixed works. The limit of streams does without rows, because the files take nearly all of the time.
func (w *s3Load) operations() []operation {
	streams := onBoth(goal{ratio: 0.8})
	put := func(size int) do {
		return func(ctx context.Context, c *caller, _ int) error {
			return c.do(ctx, http.MethodPut, w.newKey(), w.body(size))
		}
	}
	get := func(size, objects int) do {
		return func(ctx context.Context, c *caller, i int) error {
			return getObject(ctx, c, readKey(size, i%objects), size)
		}
	}
	putDeleted := transactions(func(_ *bare, c, i int) tx { return write(w.rows.put(deletedKey(c, i), w.body(s3Small))) })
	pages, group := w.size.listKeys/s3Page, w.size.listKeys/s3Groups
	return []operation{
		{
			name: "s3 PUT 4 KiB", do: put(s3Small),
			limit: transactions(func(*bare, int, int) tx { return write(w.rows.put(w.newKey(), w.body(s3Small))) }),
		},
		{
			name: "s3 GET 4 KiB", do: get(s3Small, w.size.reads),
			limit: transactions(func(_ *bare, _, i int) tx { return read(w.rows.get(readKey(s3Small, i%w.size.reads))) }),
		},
		{name: "s3 PUT 1 MiB", do: put(s3Middle), limit: w.copies(s3Middle, true)},
		{name: "s3 GET 1 MiB", do: get(s3Middle, s3MiddleReads), limit: w.copies(s3Middle, false)},
		{name: "s3 PUT 64 MiB", most: s3LargePuts, goals: streams, do: put(w.size.large), limit: w.copies(w.size.large, true)},
		{name: "s3 GET 64 MiB", most: s3LargeGets, goals: streams, do: get(w.size.large, s3LargeReads), limit: w.copies(w.size.large, false)},
		{
			name: "s3 list, 1,000 keys", do: w.listPage,
			limit: transactions(func(_ *bare, _, i int) tx { return read(w.rows.list(w.listKey(i%pages*s3Page), s3Page)) }),
		},
		{
			name: "s3 list, 100 groups", do: func(ctx context.Context, c *caller, _ int) error {
				return c.list(ctx, s3List+"?delimiter=%2F&list-type=2&max-keys="+strconv.Itoa(s3Page), "<CommonPrefixes>", s3Groups)
			},
			limit: transactions(func(*bare, int, int) (t tx) {
				for i := range s3Groups {
					t.reads = append(t.reads, w.rows.list(w.listKey(i*group), 1))
				}
				return t
			}),
		},
		{
			name: "s3 DELETE 4 KiB", times: w.size.deletes,
			prepare: func(ctx context.Context, _ *server, all []*caller) error {
				_, err := drive(ctx, len(all), times(w.size.deletes), func(ctx context.Context, c, i int) error {
					all[c].number = c
					return all[c].do(ctx, http.MethodPut, deletedKey(c, i), w.body(s3Small))
				})
				return err
			},
			do: func(ctx context.Context, c *caller, i int) error {
				return c.do(ctx, http.MethodDelete, deletedKey(c.number, i), nil)
			},
			limit: transactions(func(_ *bare, c, i int) tx { return write(w.rows.delete(deletedKey(c, i))) }),
			prepareLimit: func(ctx context.Context, b *bare, callers int) error {
				_, err := drive(ctx, callers, times(w.size.deletes), putDeleted(b))
				return err
			},
		},
		{name: "s3 mixed, 64 KiB", do: w.mix(s3Mixed), limit: w.mixLimit(s3Mixed)},
		{name: "s3 mixed, 1 MiB", do: w.mix(s3Middle), limit: w.mixLimit(s3Middle)},
	}
}

// getObject fails if the object does not have this many bytes.
func getObject(ctx context.Context, c *caller, key string, size int) error {
	err := c.do(ctx, http.MethodGet, key, nil)
	if err == nil && int(c.read) != size {
		err = fmt.Errorf("read %d bytes, want %d", c.read, size)
	}
	return err
}

// list fails if a listing has not this number of entries.
func (c *caller) list(ctx context.Context, path, entry string, want int) error {
	answer, err := c.send(ctx, http.MethodGet, path, nil)
	if found := bytes.Count(answer, []byte(entry)); err == nil && found != want {
		err = fmt.Errorf("%d entries, want %d, in %.500s", found, want, answer)
	}
	return err
}

// listPage reads the page after the previous one; a window begins at a random key.
func (w *s3Load) listPage(ctx context.Context, c *caller, i int) error {
	query := "list-type=2&max-keys=" + strconv.Itoa(s3Page)
	switch {
	case i == 0:
		query += "&start-after=" + workload.Escape(w.listKey(rand.IntN(w.size.listKeys-s3Page)))
	case c.token != "":
		query = "continuation-token=" + workload.Escape(c.token) + "&" + query
	}
	answer, err := c.send(ctx, http.MethodGet, s3List+"?"+query, nil)
	if err != nil {
		return err
	}
	_, token, more := bytes.Cut(answer, []byte("<NextContinuationToken>"))
	token, _, _ = bytes.Cut(token, []byte("<"))
	c.token = string(token)
	if found := bytes.Count(answer, []byte("<Key>")); more && found != s3Page || found == 0 {
		return fmt.Errorf("%d keys, want %d, in %.500s", found, s3Page, answer)
	}
	return nil
}

// fill uses the first owner, whose account all owners share.
func (w *s3Load) fill(ctx context.Context, _ *server, owners []credentials) error {
	var all []object
	for size, n := range map[int]int{s3Small: w.size.reads, s3Mixed: w.mixedReads(s3Mixed), s3Middle: w.mixedReads(s3Middle), w.size.large: s3LargeReads} {
		for i := range n {
			all = append(all, object{readKey(size, i), size})
		}
	}
	for i := range w.size.listKeys {
		all = append(all, object{s3List + "/" + w.listKey(i), 1})
	}
	return withAll(ctx, slices.Repeat(owners[:1], s3Fillers), func(callers []*caller) error {
		for _, bucket := range []string{s3Objects, s3List} {
			if err := callers[0].do(ctx, http.MethodPut, bucket, nil); err != nil {
				return err
			}
		}
		n := len(callers)
		_, err := drive(ctx, n, times((len(all)+n-1)/n), func(ctx context.Context, c, i int) error {
			if i = i*n + c; i >= len(all) {
				return nil
			}
			return callers[c].do(ctx, http.MethodPut, all[i].key, w.body(all[i].size))
		})
		return err
	})
}

// object is an object to create; size is in bytes.
type object struct {
	key  string
	size int
}

// mixedTurns are 20 requests, GET, HEAD, PUT or DELETE, in the proportions of MinIO's `warp mixed`: 45, 30, 15 and
// 10 %. The order is fixed, because a window with more PUTs would be slower.
const mixedTurns = "GHGPGHGDHGPGHGDHGPHG"

var mixedMethods = map[byte]string{'G': http.MethodGet, 'H': http.MethodHead, 'P': http.MethodPut, 'D': http.MethodDelete}

// mixed is the state of a mixed work on objects of one size, in bytes. All connections share the turns.
type mixed struct {
	size  int
	reads int // number of objects to read
	turn  atomic.Int64
	put   chan string // keys of objects that the work put, to delete
}

// newMixed returns a mixed work's state; size is in bytes. The server and its limit each need their own, because a state
// remembers the objects that were put there.
func (w *s3Load) newMixed(size int) *mixed {
	return &mixed{size: size, reads: w.mixedReads(size), put: make(chan string, 1000)}
}

// mixedReads returns how many objects of a size mixed works read.
func (w *s3Load) mixedReads(size int) int {
	if size == s3Middle {
		return max(s3MiddleReads, w.size.reads/4)
	}
	return w.size.reads
}

// step sends the next request. Only objects that the work itself put are deleted, each once, so no read or delete fails.
func (m *mixed) step(newKey func() string, send func(method, key string) error) error {
	turn := int(m.turn.Add(1)-1) % len(mixedTurns)
	method, key := mixedMethods[mixedTurns[turn]], readKey(m.size, rand.IntN(m.reads))
	if method == http.MethodDelete {
		select {
		case key = <-m.put:
		default: // the PUTs of previous turns are under way
			method = http.MethodPut
		}
	}
	if method == http.MethodPut {
		key = newKey()
	}
	if err := send(method, key); err != nil || method != http.MethodPut {
		return err
	}
	select {
	case m.put <- key:
	default: // full, because there are more PUTs than DELETEs
	}
	return nil
}

// mix returns the mixed work on objects of this size, in bytes.
func (w *s3Load) mix(size int) do {
	m := w.newMixed(size)
	return func(ctx context.Context, c *caller, _ int) error {
		return m.step(w.newKey, func(method, key string) error {
			switch method {
			case http.MethodGet:
				return getObject(ctx, c, key, size)
			case http.MethodPut:
				return c.do(ctx, method, key, w.body(size))
			}
			return c.do(ctx, method, key, nil)
		})
	}
}
