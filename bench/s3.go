package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/workload/buckets"
)

const (
	workPutSmall   = "s3 PUT 4 KiB"
	workGetSmall   = "s3 GET 4 KiB"
	workPutMiddle  = "s3 PUT 1 MiB"
	workGetMiddle  = "s3 GET 1 MiB"
	workPutLarge   = "s3 PUT 64 MiB"
	workGetLarge   = "s3 GET 64 MiB"
	workListPage   = "s3 list, 1,000 keys"
	workListGroups = "s3 list, 100 groups"
	workDelete     = "s3 DELETE 4 KiB"

	workMixedSmall  = "s3 mixed, 64 KiB"
	workMixedMiddle = "s3 mixed, 1 MiB"
)

const (
	s3Objects = "/objects"
	s3List    = "/list"

	s3Small  = 4 << 10
	s3Mixed  = 64 << 10
	s3Middle = 1 << 20

	s3Page   = 1000
	s3Groups = 100

	// Most connections for 64 MiB. More PUTs would fill the disk, and so would more GETs, because a GET's limit writes a
	// copy.
	s3LargePuts = 4
	s3LargeGets = 16
	s3Fillers   = 64
)

// All connections share buckets and an account, because some servers have only one account.
type s3Load struct {
	size *size
	data func() []byte
	last atomic.Int64

	mixed map[string]map[int]*mixed // by endpoint and object size
}

func newS3(n *size) *s3Load {
	return &s3Load{size: n, mixed: map[string]map[int]*mixed{}, data: sync.OnceValue(func() []byte {
		return []byte(buckets.Body(0, 0, max(n.large, s3Middle)))
	})}
}

func (w *s3Load) body(size int) []byte { return w.data()[:size] }

// The returned function does not hash large bodies, because clients stream them.
func (w *s3Load) signer(key sigv4test.Signer) func(*http.Request) error {
	hashes := map[int64]string{}
	for _, size := range []int{0, 1, s3Small, s3Mixed, s3Middle} {
		hashes[int64(size)] = buckets.Hash(w.body(size))
	}
	s := buckets.NewLoadSigner(key, hashes, time.Now())
	return func(r *http.Request) error {
		s.Sign(r, time.Now())
		return nil
	}
}

func (w *s3Load) newKey() string {
	n := uint64(w.last.Add(1))
	return fmt.Sprintf("%s/put/%02x/%012d", s3Objects, n*0x9e3779b97f4a7c15>>56, n)
}

func readKey(size, i int) string { return fmt.Sprintf("%s/get/%d/%06d", s3Objects, size, i) }

func (w *s3Load) listKey(i int) string {
	return fmt.Sprintf("%02d/%s", i/(w.size.listKeys/s3Groups), id(i))
}

func (w *s3Load) operations() []operation {
	streams := map[string]goal{"sqlite": {ratio: 0.8}, "postgres": {ratio: 0.8}}
	return []operation{
		{name: workPutSmall, do: w.put(s3Small)},
		{name: workGetSmall, do: w.get(s3Small, w.size.reads)},
		{name: workPutMiddle, do: w.put(s3Middle)},
		{name: workGetMiddle, do: w.get(s3Middle, s3MiddleReads)},
		{name: workPutLarge, most: s3LargePuts, goals: streams, do: w.put(w.size.large)},
		{name: workGetLarge, most: s3LargeGets, goals: streams, do: w.get(w.size.large, s3LargeReads)},
		{name: workListPage, do: w.listPage},
		{name: workListGroups, do: w.listGroups},
		{name: workDelete, times: w.size.deletes, prepare: w.putDeleted, do: w.delete},
		{name: workMixedSmall, do: w.mix(s3Mixed)},
		{name: workMixedMiddle, do: w.mix(s3Middle)},
	}
}

const (
	s3MiddleReads = 16
	s3LargeReads  = 2
)

func (w *s3Load) put(size int) func(context.Context, *caller, int) error {
	return func(ctx context.Context, c *caller, _ int) error {
		return c.exchange(ctx, http.MethodPut, w.newKey(), w.body(size), "", io.Discard)
	}
}

func (w *s3Load) get(size, objects int) func(context.Context, *caller, int) error {
	return func(ctx context.Context, c *caller, i int) error {
		return getObject(ctx, c, readKey(size, i%objects), size)
	}
}

func getObject(ctx context.Context, c *caller, key string, size int) error {
	var n counted
	err := c.exchange(ctx, http.MethodGet, key, nil, "", &n)
	if err == nil && int(n) != size {
		err = fmt.Errorf("read %d bytes, want %d", n, size)
	}
	return err
}

type counted int64

func (n *counted) Write(p []byte) (int, error) {
	*n += counted(len(p))
	return len(p), nil
}

func (w *s3Load) listPage(ctx context.Context, c *caller, i int) error {
	query := "list-type=2&max-keys=" + strconv.Itoa(s3Page)
	switch {
	case i == 0:
		query += "&start-after=" + buckets.Escape(w.listKey(rand.IntN(w.size.listKeys-s3Page)))
	case c.token != "":
		query = "continuation-token=" + buckets.Escape(c.token) + "&" + query
	}
	answer, err := c.send(ctx, http.MethodGet, s3List+"?"+query, nil, "")
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

func (w *s3Load) listGroups(ctx context.Context, c *caller, _ int) error {
	answer, err := c.send(ctx, http.MethodGet, s3List+"?delimiter=%2F&list-type=2&max-keys="+strconv.Itoa(s3Page), nil, "")
	if found := bytes.Count(answer, []byte("<CommonPrefixes>")); err == nil && found != s3Groups {
		err = fmt.Errorf("%d groups, want %d, in %.500s", found, s3Groups, answer)
	}
	return err
}

func deletedKey(c, i int) string { return fmt.Sprintf("%s/delete/%02x/%06d", s3Objects, c, i) }

func (w *s3Load) putDeleted(ctx context.Context, all []*caller) error {
	_, _, err := drive(ctx, len(all), times(w.size.deletes/len(all)), func(ctx context.Context, c, i int) error {
		all[c].number = c
		return all[c].exchange(ctx, http.MethodPut, deletedKey(c, i), w.body(s3Small), "", io.Discard)
	})
	return err
}

func (w *s3Load) delete(ctx context.Context, c *caller, i int) error {
	return c.exchange(ctx, http.MethodDelete, deletedKey(c.number, i), nil, "", io.Discard)
}

func (w *s3Load) fill(ctx context.Context, _ *engine, owners []credentials) error {
	all, hangUp, err := dialAll(ctx, repeated(owners[0], s3Fillers))
	if err != nil {
		return err
	}
	defer hangUp()
	for _, bucket := range []string{s3Objects, s3List} {
		if err := all[0].exchange(ctx, http.MethodPut, bucket, nil, "", io.Discard); err != nil {
			return err
		}
	}
	var jobs []func(ctx context.Context, c *caller) error
	put := func(key string, body []byte) {
		jobs = append(jobs, func(ctx context.Context, c *caller) error {
			return c.exchange(ctx, http.MethodPut, key, body, "", io.Discard)
		})
	}
	for size, objects := range map[int]int{s3Small: w.size.reads, s3Middle: s3MiddleReads, w.size.large: s3LargeReads} {
		for i := range objects {
			put(readKey(size, i), w.body(size))
		}
	}
	objects := w.newMixed()
	for size, m := range objects {
		for _, key := range m.keys {
			put(key, w.body(size))
		}
	}
	w.mixed[owners[0].Endpoint] = objects
	for i := range w.size.listKeys {
		put(s3List+"/"+w.listKey(i), w.body(1))
	}
	var next atomic.Int64
	_, _, err = drive(ctx, len(all), times(1), func(ctx context.Context, c, _ int) (err error) {
		for i := int(next.Add(1)) - 1; i < len(jobs) && err == nil; i = int(next.Add(1)) - 1 {
			err = errors.Join(ctx.Err(), jobs[i](ctx, all[c]))
		}
		return err
	})
	return err
}

func repeated(c credentials, n int) (all []credentials) {
	for range n {
		all = append(all, c)
	}
	return all
}
