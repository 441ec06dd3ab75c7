package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/workload/sync"
)

const (
	workPut    = "PUT 500 B"
	workPost   = "POST 100 × 500 B"
	workList   = "GET 1,000 full"
	workPage   = "GET 100 full"
	workInfo   = "info/collections"
	workAppend = "batch: append 100 × 500 B"
	workCommit = "batch: commit %s"
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
	batches [][]byte // the requests of a batch, from newUsers
}

func newSync(n *size) *syncLoad { return &syncLoad{size: n, secret: ownSecret} }

// owner signs the user's token itself, so that neither Holdfast nor a peer needs an accounts server.
func (w *syncLoad) owner(s *server, uid int) (credentials, error) {
	node := "http://" + s.listen
	c, err := sync.Issue(w.secret, node, tokenlib.Claims{UID: int64(uid), FxAUID: fmt.Sprintf("%032x", uid), FxAKID: "0000001700000-" + accountKeys, Node: node, Expires: time.Now().Add(24 * time.Hour)})
	// The body is not hashed, because that would cost as much CPU time as the measured server, on the same cores.
	sign := func(req *http.Request) error { return hawk.SignHTTP(req, c.ID, c.Key, time.Now(), "") }
	return credentials{Endpoint: c.Endpoint, sign: sign, retries: w.retries}, err
}

func (w *syncLoad) operations() []operation {
	post := func(method, path string, body []byte) func(context.Context, *caller, int) error {
		return func(ctx context.Context, c *caller, _ int) error {
			_, err := c.send(ctx, method, path, body)
			return err
		}
	}
	get := func(collection string, records int) func(context.Context, *caller, int) error {
		return func(ctx context.Context, c *caller, _ int) error { return getRecords(ctx, c, collection, records) }
	}
	put := []byte(sync.JSON(sync.Record{Payload: payload(500)}))
	n, callers := w.size.batch, w.size.batchCallers
	return []operation{
		{
			name: workPut, goals: map[string]goal{"sqlite": {0.50, 90 * time.Microsecond}, "postgres": {0.40, 130 * time.Microsecond}},
			do: func(ctx context.Context, c *caller, i int) error {
				_, err := c.send(ctx, http.MethodPut, "/storage/"+putCollection+"/"+id(i%putRecords), put)
				return err
			},
		},
		{
			name: workPost, goals: map[string]goal{"sqlite": {ratio: 0.6}, "postgres": {ratio: 0.6}},
			do: post(http.MethodPost, "/storage/"+postCollection, list(0, postRecords, 500)),
		},
		{name: workList, goals: map[string]goal{"sqlite": {ratio: 0.6}, "postgres": {ratio: 0.6}}, do: get(listCollection, listRecords)},
		{name: workPage, least: 2, do: get(postCollection, postRecords)},
		{name: workInfo, least: 2, most: 16, do: post(http.MethodGet, "/info/collections", nil)},
		// Each batch belongs to a new user, so there are as many open batches as callers. Appends and commits start after a
		// checkpoint. Otherwise SQLite would run one in the commit that makes the log long enough.
		{
			name: workAppend, most: callers, prepare: w.newUsers, times: func(int) int { return (n + 99) / 100 },
			do: func(ctx context.Context, c *caller, i int) error { return c.stage(ctx, w.batches[i]) },
		},
		{
			name: fmt.Sprintf(workCommit, thousands(n)), goals: map[string]goal{"sqlite": {ratio: commitGoal}, "postgres": {ratio: commitGoal}},
			most: callers, times: func(int) int { return 1 },
			prepare: func(ctx context.Context, s *server, all []*caller) error {
				if err := w.newUsers(ctx, s, all); err != nil {
					return err
				}
				_, err := drive(ctx, len(all), times(len(w.batches)), func(ctx context.Context, c, i int) error { return all[c].stage(ctx, w.batches[i]) })
				if err != nil {
					return err
				}
				return s.settle(ctx, syncFile)
			},
			do: func(ctx context.Context, c *caller, _ int) error { return c.commit(ctx) },
		},
	}
}

// settle runs a checkpoint, unless the server is a peer.
func (s *server) settle(ctx context.Context, file string) error {
	if s.admin == "" {
		return nil
	}
	return s.engine.settle(ctx, s.file(file))
}

// newUsers gives each caller a new user without an open batch.
func (w *syncLoad) newUsers(ctx context.Context, s *server, all []*caller) error {
	users, err := s.newOwners(w, len(all))
	if err != nil {
		return err
	}
	for i, c := range all {
		c.credentials, c.token = users[i], ""
	}
	w.batches = posts(w.size.batch, 500)
	return s.settle(ctx, syncFile)
}

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
	_, err := c.send(ctx, http.MethodPost, sync.Commit(batchCollection, c.token), []byte("[]"))
	return err
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

// fill opens a connection per user when it is needed, because servers close idle connections after a few seconds.
func (w *syncLoad) fill(ctx context.Context, _ *server, users []credentials) error {
	for _, u := range users {
		err := with(ctx, u, func(c *caller) error {
			for collection, n := range syncRecords {
				for _, body := range posts(n, 500) {
					if _, err := c.send(ctx, http.MethodPost, "/storage/"+collection, body); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// id returns the ID of the i-th record, with 12 digits like those of Firefox's IDs; ids returns n of them.
func id(i int) string { return strconv.Itoa(100_000_000_000 + i) }

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

// list returns the body of a POST of n records, with payloads of this many bytes.
func list(from, n, bytes int) []byte {
	return []byte(sync.Records(from, from+n, func(i int) sync.Record { return sync.Record{ID: id(i), Payload: payload(bytes)} }))
}

// posts returns the bodies of POSTs of 100 records each, together n.
func posts(n, bytes int) (bodies [][]byte) {
	for from := 0; from < n; from += 100 {
		bodies = append(bodies, list(from, min(100, n-from), bytes))
	}
	return bodies
}
