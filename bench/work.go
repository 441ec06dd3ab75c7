package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Works, by the names that the table has.
const (
	workPut    = "PUT 500 B"
	workPost   = "POST 100 × 500 B"
	workList   = "GET 1,000 full"
	workInfo   = "info/collections"
	workAppend = "batch: append 100 × 500 B"
	workCommit = "batch: commit %s"
)

// Collections and how many records of a user a work writes or reads in one.
const (
	putCollection, putRecords   = "bookmarks", 100
	postCollection, postRecords = "forms", 100
	listCollection, listRecords = "history", 1000
	batchCollection             = "passwords"
)

// collectionIDs are those that the migrations give the standard names.
var collectionIDs = map[string]int64{"forms": 3, "history": 4, "bookmarks": 7, "passwords": 10}

// goal is the least ratio of server to limit and the most CPU of the server
// per operation; 0: none is set.
type goal struct {
	ratio float64
	cpu   time.Duration
}

// work is a request that is repeated.
type work struct {
	name    string
	method  string
	path    func(i int) string
	body    []byte
	records string          // what X-Weave-Records must say; "": nothing
	goals   map[string]goal // by engine
	most    int             // connections that it is measured at; 0: any
	least   int
}

func works() []work {
	fixed := func(path string) func(int) string { return func(int) string { return path } }
	return []work{
		{
			name: workPut, method: http.MethodPut,
			path: func(i int) string { return "/storage/" + putCollection + "/" + id(i%putRecords) },
			body: object(record{Payload: payload(500)}),
			goals: map[string]goal{
				"sqlite":   {0.50, 90 * time.Microsecond},
				"postgres": {0.40, 130 * time.Microsecond},
				"spanner":  {ratio: spannerGoal},
			},
		},
		{
			name: workPost, method: http.MethodPost, path: fixed("/storage/" + postCollection), body: list(0, postRecords, 500),
			most:  16, // with more it is the writer alone, as with 16
			goals: map[string]goal{"sqlite": {ratio: 0.6}, "postgres": {ratio: 0.6}, "spanner": {ratio: spannerGoal}},
		},
		{
			name: workList, method: http.MethodGet, path: fixed("/storage/" + listCollection + "?full=1"), records: strconv.Itoa(listRecords),
			goals: map[string]goal{"sqlite": {ratio: 0.6}, "postgres": {ratio: 0.6}},
		},
		{name: workInfo, method: http.MethodGet, path: fixed("/info/collections"), least: 2, most: 16},
	}
}

// commitGoal is the goal that a commit takes at most 1.3 times as long as plain
// SQL, as a ratio of throughputs.
const commitGoal = 1 / 1.3

// spannerGoal is that of every work on Spanner; one without a goal there is not
// measured on it.
const spannerGoal = 0.7

// id is the i-th record's, as long as those of Firefox.
func id(i int) string { return strconv.Itoa(100_000_000_000 + i) }

// payload is so many bytes that look like a client's, which it takes some 150
// to: an object in a string, whose quotes have to be escaped on the wire.
func payload(bytes int) string {
	const begin, end = `{"ciphertext":"`, `","IV":"5Qq1tJ0bHqYvM0fJvYxk3w==","hmac":"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"}`
	return begin + strings.Repeat("Q", max(0, bytes-len(begin)-len(end))) + end
}

// record is a BSO as clients write it.
type record struct {
	ID      string `json:"id,omitempty"`
	Payload string `json:"payload"`
}

func object(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}

// list is the body of a POST of n records, the first of them the from-th, with
// payloads of so many bytes.
func list(from, n, bytes int) []byte {
	all := make([]record, n)
	for i := range all {
		all[i] = record{id(from + i), payload(bytes)}
	}
	return object(all)
}

// posts are the bodies of as many POSTs of 100 records as n records take.
func posts(n, bytes int) (bodies [][]byte) {
	for from := 0; from < n; from += 100 {
		bodies = append(bodies, list(from, min(100, n-from), bytes))
	}
	return bodies
}
