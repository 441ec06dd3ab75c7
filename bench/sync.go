package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/workload/sync"
)

const (
	putCollection, putRecords   = "bookmarks", 100
	postCollection, postRecords = "forms", 100
	listCollection, listRecords = "history", 1000
	batchCollection             = "passwords"

	syncFile    = "syncstorage.db"
	accountKeys = "qqqqqqqqqqqqqqqqqqqqqg"
	// commitGoal is the throughput ratio if a commit takes 1.3 times as long as plain SQL.
	commitGoal = 1 / 1.3
)

var collectionIDs = map[string]int64{"forms": 3, "history": 4, "bookmarks": 7, "passwords": 10}

// syncLoad is the work of Firefox Sync clients. Its owners are users.
type syncLoad struct {
	size    *size
	secret  string
	retries int
	batches [][]byte     // the requests of a batch, from newUsers
	limited atomic.Int64 // the users of the limit's batches follow this number
}

// newSync returns the work with this run's own secret; a peer needs its own.
func newSync(n *size) *syncLoad { return &syncLoad{size: n, secret: ownSecret} }

// owner signs the user's token itself, so that neither Holdfast nor a peer needs an accounts server.
func (w *syncLoad) owner(s *server, uid int) (credentials, error) {
	node := "http://" + s.listen
	c, err := sync.Issue(w.secret, node, tokenlib.Claims{UID: int64(uid), FxAUID: fmt.Sprintf("%032x", uid), FxAKID: "0000001700000-" + accountKeys, Node: node, Expires: time.Now().Add(24 * time.Hour)})
	// The body is not hashed, because that would cost as much CPU time as the measured server, on the same cores.
	sign := func(req *http.Request) error { return hawk.SignHTTP(req, c.ID, c.Key, time.Now(), "") }
	return credentials{Endpoint: c.Endpoint, sign: sign, retries: w.retries}, err
}

// operations returns PUTs, POSTs and GETs of the records from fill, and batches of new users. A limit's caller c writes as
// user 1+c, like the server's c-th connection.
func (w *syncLoad) operations() []operation {
	put := []byte(sync.JSON(sync.Record{Payload: payload(500)}))
	post := records(0, postRecords, 500)
	n, callers, posts := w.size.batch, w.size.batchCallers, (w.size.batch+99)/100
	list := func(name, collection string, records int) operation {
		return operation{
			name: name, do: func(ctx context.Context, c *caller, _ int) error { return getRecords(ctx, c, collection, records) },
			limit: transactions(func(b *bare, _, _ int) tx {
				return b.syncList(int64(b.anyOwner()), collectionIDs[collection], records)
			}),
		}
	}
	listAll := list("GET 1,000 full", listCollection, listRecords)
	listAll.goals, listAll.attack = onBoth(goal{ratio: 0.6}), true
	// Each batch belongs to a new user, so there are as many open batches as callers. Appends and commits start after a
	// checkpoint. Otherwise SQLite would run one in the commit that makes the log long enough.
	stage := operation{
		name: "batch: append 100 × 500 B", most: callers, times: posts,
		do: func(ctx context.Context, c *caller, i int) error { return c.stage(ctx, w.batches[i]) }, prepare: w.newUsers,
		limit:        transactions(func(b *bare, c, i int) tx { return b.syncStage(w.limitUser(c), i*100, min(100, n-i*100)) }),
		prepareLimit: w.newLimitUsers,
	}
	return []operation{
		{
			name: "PUT 500 B", goals: map[string]goal{"sqlite": {0.50, 90 * time.Microsecond}, "postgres": {0.40, 130 * time.Microsecond}},
			do: func(ctx context.Context, c *caller, i int) error {
				return c.call(ctx, http.MethodPut, "/storage/"+putCollection+"/"+id(i%putRecords), put)
			},
			limit: transactions(func(b *bare, c, i int) tx { return b.syncPut(1+int64(c), i%putRecords) }),
		},
		{
			name: "POST 100 × 500 B", goals: onBoth(goal{ratio: 0.6}), attack: true,
			do: func(ctx context.Context, c *caller, _ int) error {
				return c.call(ctx, http.MethodPost, "/storage/"+postCollection, post)
			},
			limit: transactions(func(b *bare, c, _ int) tx { return b.syncPost(1 + int64(c)) }),
		},
		listAll,
		list("GET 100 full", postCollection, postRecords),
		{
			name: "info/collections", most: 16,
			do: func(ctx context.Context, c *caller, _ int) error {
				return c.call(ctx, http.MethodGet, "/info/collections", nil)
			},
			limit: transactions(func(b *bare, _, _ int) tx { return b.syncInfo(int64(b.anyOwner())) }),
		},
		stage,
		{
			name: "batch: commit " + thousands(n), goals: onBoth(goal{ratio: commitGoal}), most: callers, times: 1,
			do: func(ctx context.Context, c *caller, _ int) error { return c.commit(ctx) },
			prepare: func(ctx context.Context, s *server, all []*caller) error {
				err := w.newUsers(ctx, s, all)
				if err == nil {
					_, err = drive(ctx, len(all), times(posts), func(ctx context.Context, c, i int) error { return stage.do(ctx, all[c], i) })
				}
				return errors.Join(err, s.checkpoint(ctx, syncFile))
			},
			limit: transactions(func(b *bare, c, _ int) tx { return b.syncCommit(w.limitUser(c), n) }),
			prepareLimit: func(ctx context.Context, b *bare, callers int) error {
				err := w.newLimitUsers(ctx, b, callers)
				if err == nil {
					_, err = drive(ctx, callers, times(posts), stage.limit(b))
				}
				return errors.Join(err, b.checkpoint(ctx))
			},
		},
	}
}

// checkpoint runs a checkpoint, unless the server is a peer.
func (s *server) checkpoint(ctx context.Context, file string) error {
	if s.admin == "" {
		return nil
	}
	return s.engine.checkpoint(ctx, s.file(file))
}

// newUsers gives each caller a new user without an open batch.
func (w *syncLoad) newUsers(ctx context.Context, s *server, all []*caller) error {
	users, err := s.newOwners(len(all))
	if err != nil {
		return err
	}
	for i, c := range all {
		c.credentials, c.token = users[i], ""
	}
	if w.batches == nil {
		w.batches = posts(w.size.batch, 500)
	}
	return s.checkpoint(ctx, syncFile)
}

// newLimitUsers gives each caller of the limit a new user without an open batch.
func (w *syncLoad) newLimitUsers(ctx context.Context, b *bare, callers int) error {
	w.limited.Add(int64(1_000_000 + callers))
	return b.checkpoint(ctx)
}

// limitUser returns the user whose batch a caller of the limit fills in this round.
func (w *syncLoad) limitUser(caller int) int64 { return w.limited.Load() + int64(caller) }

// stage appends records to the caller's open batch, or opens one.
func (c *caller) stage(ctx context.Context, body []byte) error {
	got, err := c.send(ctx, http.MethodPost, sync.Append(batchCollection, c.token), body)
	if err == nil && c.token == "" {
		c.token, err = sync.Opened(got)
	}
	return err
}

// commit commits the caller's open batch.
func (c *caller) commit(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, sync.Commit(batchCollection, c.token), []byte("[]"))
}

// getRecords fails if the collection does not have this many records.
func getRecords(ctx context.Context, c *caller, collection string, records int) error {
	err := c.do(ctx, http.MethodGet, "/storage/"+collection+"?full=1", nil)
	if got := c.header.Get("X-Weave-Records"); err == nil && got != strconv.Itoa(records) {
		err = fmt.Errorf("GET %s: %q records, want %d", collection, got, records)
	}
	return err
}

// syncRecords are the numbers of a user's records by collection.
var syncRecords = map[string]int{putCollection: putRecords, postCollection: postRecords, listCollection: listRecords}

// fill stores 500-byte records in each user's collections.
func (w *syncLoad) fill(ctx context.Context, _ *server, users []credentials) error {
	return fillEach(ctx, users, func(ctx context.Context, c *caller) error {
		for collection, n := range syncRecords {
			for _, body := range posts(n, 500) {
				if err := c.call(ctx, http.MethodPost, "/storage/"+collection, body); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// id returns the ID of the i-th record, with 12 characters, as many as in Firefox's IDs.
func id(i int) string { return strconv.Itoa(100_000_000_000 + i) }

// ids returns n IDs from the from-th record on.
func ids(from, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = id(from + i)
	}
	return all
}

// payload resembles a client's payload with at least about 150 bytes: an object in a string, whose quotes are escaped
// on the wire.
func payload(bytes int) string {
	const begin, end = `{"ciphertext":"`, `","IV":"5Qq1tJ0bHqYvM0fJvYxk3w==","hmac":"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"}`
	return begin + strings.Repeat("Q", max(0, bytes-len(begin)-len(end))) + end
}

// records returns the body of a POST of n records, with payloads of this many bytes.
func records(from, n, bytes int) []byte {
	return []byte(sync.Records(from, from+n, func(i int) sync.Record { return sync.Record{ID: id(i), Payload: payload(bytes)} }))
}

// posts returns the bodies of POSTs of 100 records each, together n.
func posts(n, bytes int) (bodies [][]byte) {
	for from := 0; from < n; from += 100 {
		bodies = append(bodies, records(from, min(100, n-from), bytes))
	}
	return bodies
}
