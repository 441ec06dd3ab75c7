package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
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
)

var collectionIDs = map[string]int64{"forms": 3, "history": 4, "bookmarks": 7, "passwords": 10}

type syncLoad struct{ secret string }

// ownSecret is shared by all servers, because they use the same database in turn.
var ownSecret = rand.Text() + rand.Text()

func newSync() *syncLoad { return &syncLoad{secret: ownSecret} }

func (w *syncLoad) settings(e *engine) []string {
	all := []string{"HOLDFAST_SERVER__MASTER_SECRET=" + w.secret}
	if e.spanner != nil {
		return append(all, "HOLDFAST_SYNCSTORAGE__DATABASE_URL=spanner://"+e.database, "HOLDFAST_SYNCSTORAGE__SPANNER_EMULATOR_HOST="+e.spanner.Host())
	}
	return slices.Concat(all, e.url("SYNCSTORAGE"), e.url("TOKENSERVER"))
}

const accountKeys = "qqqqqqqqqqqqqqqqqqqqqg"

func (w *syncLoad) owner(s *server, uid int) (credentials, error) {
	node := "http://" + s.listen
	c, err := sync.Issue(w.secret, node, tokenlib.Claims{UID: int64(uid), FxAUID: fmt.Sprintf("%032x", uid), FxAKID: "0000001700000-" + accountKeys, Node: node, Expires: time.Now().Add(24 * time.Hour)})
	return credentials{
		Endpoint: c.Endpoint,
		// The body is not hashed, because that would cost as much CPU time as the measured server, on the same cores.
		sign: func(req *http.Request) error { return hawk.SignHTTP(req, c.ID, c.Key, time.Now(), "") },
	}, err
}

func (w *syncLoad) operations() []operation {
	fixed := func(path string) func(int) string { return func(int) string { return path } }
	request := func(method string, path func(int) string, body []byte, records string) func(context.Context, *caller, int) error {
		return func(ctx context.Context, c *caller, i int) error {
			_, err := c.send(ctx, method, path(i), body, records)
			return err
		}
	}
	return []operation{
		{
			name: workPut,
			do: request(http.MethodPut, func(i int) string { return "/storage/" + putCollection + "/" + id(i%putRecords) },
				[]byte(sync.JSON(sync.Record{Payload: payload(500)})), ""),
			goals: map[string]goal{
				"sqlite":   {0.50, 90 * time.Microsecond},
				"postgres": {0.40, 130 * time.Microsecond},
				"spanner":  {ratio: spannerGoal},
			},
		},
		{
			name:  workPost,
			do:    request(http.MethodPost, fixed("/storage/"+postCollection), list(0, postRecords, 500), ""),
			goals: map[string]goal{"sqlite": {ratio: 0.6}, "postgres": {ratio: 0.6}, "spanner": {ratio: spannerGoal}},
		},
		{
			name:  workList,
			do:    request(http.MethodGet, fixed("/storage/"+listCollection+"?full=1"), nil, strconv.Itoa(listRecords)),
			goals: map[string]goal{"sqlite": {ratio: 0.6}, "postgres": {ratio: 0.6}},
		},
		{
			name: workPage, least: 2,
			do: request(http.MethodGet, fixed("/storage/"+postCollection+"?full=1"), nil, strconv.Itoa(postRecords)),
		},
		{name: workInfo, do: request(http.MethodGet, fixed("/info/collections"), nil, ""), least: 2, most: 16},
	}
}

func (w *syncLoad) records(e *engine) map[string]int {
	all := map[string]int{putCollection: putRecords, postCollection: postRecords}
	if e.spanner == nil {
		all[listCollection] = listRecords
	}
	return all
}

func (w *syncLoad) fill(ctx context.Context, e *engine, users []credentials) error {
	for _, u := range users {
		if err := w.fillUser(ctx, e, u); err != nil {
			return err
		}
	}
	return nil
}

// fillUser opens its own connection, because servers close idle connections after a few seconds.
func (w *syncLoad) fillUser(ctx context.Context, e *engine, user credentials) error {
	c, err := dial(ctx, user)
	if err != nil {
		return err
	}
	defer c.hangUp()
	for collection, n := range w.records(e) {
		for _, body := range posts(n, 500) {
			if _, err := c.send(ctx, http.MethodPost, "/storage/"+collection, body, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

type batchLimit interface {
	limit

	// stage adds the i-th 100 records to a user's only batch, which the first call opens. commit moves them to the
	// collection.
	stage(ctx context.Context, user int64, i int) error
	commit(ctx context.Context, user int64) error

	settle(ctx context.Context) error
}

// Its users are numbered from 1. Batches use higher numbers.
func (w *syncLoad) limit(ctx context.Context, o *options, e *engine, users int) (limit, error) {
	batch := o.size.records(e)
	base := syncLimit{engine: e, records: w.records(e), ids: ids(max(batch, listRecords)), batch: batch}
	switch {
	case e.spanner != nil:
		return openSyncSpanner(ctx, base, users)
	case e.postgres != nil:
		return openSyncPostgres(ctx, base, users)
	}
	return openSyncSQLite(ctx, base, users)
}

type syncLimit struct {
	engine  *engine
	records map[string]int // per user, by collection
	ids     []string
	batch   int
}

type found struct {
	id        string
	modified  time.Time
	sortindex *int64
	payload   []byte
}

const infoRows = 4

func now() time.Time { return time.Now().UTC() }

func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = id(i)
	}
	return all
}

func syncFile(data string) string { return filepath.Join(data, "syncstorage.db") }

// commitGoal is the throughput ratio if a commit takes 1.3 times as long as plain SQL.
const commitGoal = 1 / 1.3

const spannerGoal = 0.7

func id(i int) string { return strconv.Itoa(100_000_000_000 + i) }

// payload resembles a client's payload with at least about 150 bytes: an object in a string, whose quotes are escaped
// on the wire.
func payload(bytes int) string {
	const begin, end = `{"ciphertext":"`, `","IV":"5Qq1tJ0bHqYvM0fJvYxk3w==","hmac":"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"}`
	return begin + strings.Repeat("Q", max(0, bytes-len(begin)-len(end))) + end
}

func list(from, n, bytes int) []byte {
	return []byte(sync.Records(from, from+n, func(i int) sync.Record { return sync.Record{ID: id(i), Payload: payload(bytes)} }))
}

func posts(n, bytes int) (bodies [][]byte) {
	for from := 0; from < n; from += 100 {
		bodies = append(bodies, list(from, min(100, n-from), bytes))
	}
	return bodies
}
