package httpapi_test

import (
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for path, want := range map[string]string{
		"/info/collections": "{}", "/info/collection_counts": "{}", "/info/collection_usage": "{}", "/info/quota": "[0,null]",
	} {
		a := u.get(path).is(200, want).has("X-Last-Modified", "0.00").has("X-Weave-Timestamp", aStamp)
		if path != "/info/quota" {
			a.has("X-Weave-Records", "0")
		}
	}
	u.put("/storage/toys/a", `{"payload":"`+strings.Repeat("x", 1024)+`"}`).is(200)
	u.put("/storage/toys/wide", `{"payload":"`+strings.Repeat("é", 256)+`"}`).is(200) // bytes, not characters
	u.later(time.Second)
	u.put("/storage/Own_name.2-x/a", `{"payload":"x"}`).is(200, toStamp)
	u.put("/storage/tabs/gone", `{"payload":"xxxx","ttl":0}`).is(200)
	u.post("/storage/forms", `[]`).is(200)
	numbers := func(path, modified string, want map[string]json.Number) {
		t.Helper()
		a := u.get(path).is(200).has("X-Last-Modified", modified)
		if got := a.numbers(); !maps.Equal(got, want) {
			t.Errorf("%s: %v; want %v", path, got, want)
		}
		if got := a.header.Get("X-Weave-Records"); got != json.Number(got).String() || len(want) != int(seconds(t, got)) {
			t.Errorf("%s: X-Weave-Records is %s", path, got)
		}
	}
	const last = "1790000001.14"
	numbers("/info/collections", last, map[string]json.Number{"toys": "1790000000.13", "Own_name.2-x": toStamp, "tabs": "1790000001.13", "forms": last})
	// Collections without live records are not listed.
	numbers("/info/collection_counts", last, map[string]json.Number{"toys": "2", "Own_name.2-x": "1"})
	numbers("/info/collection_usage", last, map[string]json.Number{"toys": "1.5", "Own_name.2-x": "0.0009765625"})
	u.get("/info/quota").is(200, "[1.5009765625,null]").has("X-Last-Modified", last).has("X-Weave-Records", "")
	u.get("/info/collections?unknown=1").is(200)
	u.get("/info/collections?%zz").is(400, "0")
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const limits = `"max_post_bytes":2621440,"max_post_records":100,"max_record_payload_bytes":2621440,"max_request_bytes":2625536,` +
		`"max_total_bytes":262144000,"max_total_records":10000,"max_quota_limit":2097152000,"max_user_quota":0`
	for _, path := range []string{u.path("/info/configuration"), "/1.5/999/info/configuration", "/1.5/0/info/configuration", "/storage/1.5/1/info/configuration"} {
		u.send(u.unsigned("GET", path, nil)).is(200, "{"+limits+"}").has("X-Last-Modified", "0.00")
	}
	u.send(u.unsigned("GET", u.path("/info/configuration?%zz"), nil)).is(200)

	over := start(t, setup{config: func(c *ss.Config) {
		c.Limits.MaxPostRecords = 7
		c.Limits.Collections = map[string]ss.CollectionLimits{
			"newtab-images": {MaxRecordPayloadBytes: 20 << 20, MaxPostBytes: 20 << 20, MaxRequestBytes: 20<<20 + 4096},
			"history":       {MaxRecordPayloadBytes: 2048},
		}
	}}).user(t)
	var got struct {
		MaxPostRecords int64 `json:"max_post_records"`
		Collections    map[string]map[string]int64
	}
	over.get("/info/configuration").is(200).into(&got)
	if got.MaxPostRecords != 7 || len(got.Collections) != 2 ||
		!maps.Equal(got.Collections["newtab-images"], map[string]int64{"max_record_payload_bytes": 20 << 20, "max_post_bytes": 20 << 20, "max_request_bytes": 20<<20 + 4096}) ||
		!maps.Equal(got.Collections["history"], map[string]int64{"max_record_payload_bytes": 2048, "max_post_bytes": 2621440, "max_request_bytes": 2625536}) {
		t.Errorf("the configuration is %+v", got)
	}
}

func TestCollectionNames(t *testing.T) {
	t.Parallel()
	u := start(t, setup{config: func(c *ss.Config) { c.MaxNames = 2 }}).user(t)
	for _, c := range ss.StandardCollections() {
		u.put("/storage/"+c.Name+"/a", `{}`).is(200)
	}
	u.put("/storage/"+strings.Repeat("n", 32)+"/a", `{}`).is(200)
	u.post("/storage/%2D%2e_%41?batch=true", `[]`).is(202)
	u.get("/storage/unseen").is(200)
	for _, a := range []*answer{u.put("/storage/third/a", `{}`), u.post("/storage/third", `[]`), u.post("/storage/third?batch=true", `[]`)} {
		a.is(400, "13")
	}
	u.put("/storage/-._A/a", `{}`).is(200)
	u.server.user(t).put("/storage/third/a", `{}`).is(200)
	u.put("/storage/third/a", `{}`).is(200) // no longer new
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	wait := time.Duration(0)
	u := start(t, setup{backoff: func() time.Duration { return wait }}).user(t)
	for d, header := range map[time.Duration]string{0: "", 10 * time.Millisecond: "1", time.Minute: "60", 1500 * time.Millisecond: "2"} {
		wait = d
		u.get("/info/collections").is(200).has("X-Weave-Backoff", header)
		u.get("/storage/toys/a").is(404).has("X-Weave-Backoff", header)
	}
}

// TestShedding checks that an overloaded server uses the protocol's format and makes rejected clients wait, too.
func TestShedding(t *testing.T) {
	t.Parallel()
	busy, done := make(chan struct{}), make(chan struct{})
	u := start(t, setup{
		log: quiet, gate: web.NewGate(1, time.Millisecond), backoff: func() time.Duration { return time.Minute },
		store: func(s ss.Store) ss.Store {
			return brokenStore{Store: s, put: func() error {
				busy <- struct{}{}
				<-done
				return ss.ErrQuota
			}}
		},
	}).user(t)
	var first sync.WaitGroup
	put := u.request("PUT", u.path("/storage/toys/a"), strings.NewReader(`{}`))
	first.Go(func() {
		if status := u.status(put); status != 403 {
			t.Errorf("the admitted request: %d", status)
		}
	})
	<-busy
	if a := u.get("/info/collections").is(503, "0").has("X-Weave-Backoff", "60"); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(done)
	first.Wait()
	u.get("/info/collections").is(200)
}
