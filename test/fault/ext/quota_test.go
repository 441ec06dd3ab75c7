package ext

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestQuotaEdge lets many clients write and delete at an install's limits, through two server processes if the engine
// supports it. No quota may be exceeded, and no write that fits may be refused.
func TestQuotaEdge(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, []harness.Engine{harness.OnSQLite, harness.OnPostgres, harness.OnCitus}, quotaEdge)
}

// The install's quota. The test reaches all three limits.
const (
	edgeKeys       = 6
	edgeNamespaces = 3
	edgeBytes      = 4000

	edgeWriters = 32
	edgeWaves   = 12
	edgePeriod  = 250 * time.Millisecond
)

type edge struct {
	*extContention
	wmu     sync.Mutex
	sizes   map[int64]int64 // stored value's size, by change
	sent    map[int64]int64 // request time, by change
	ends    map[int64]bool  // last changes in their transactions
	refused []overQuota
}

type sized struct {
	ext.RecordKey
	bytes int64
}

// overQuota is a refusal. It is correct if the puts exceeded a quota at some moment between the change from and the
// time at.
type overQuota struct {
	puts []sized
	what string
	from int64
	at   int64
}

func quotaEdge(t *testing.T, on harness.Engine, data string, vars ...string) {
	t.Helper()
	c, h := openContention(t, on.Servers(), data, append(vars, fmt.Sprintf("HOLDFAST_EXTSTORAGE__QUOTA__KEYS=%d", edgeKeys),
		fmt.Sprintf("HOLDFAST_EXTSTORAGE__QUOTA__NAMESPACES=%d", edgeNamespaces), fmt.Sprintf("HOLDFAST_EXTSTORAGE__QUOTA__BYTES=%d", edgeBytes))...)
	e := &edge{extContention: c, sizes: map[int64]int64{}, sent: map[int64]int64{}, ends: map[int64]bool{}}
	access := map[string]string{}
	for n := range edgeNamespaces + 1 {
		access[e.namespace(n)] = "rw"
	}
	c.in.Token = extToken(t, c.in.ID, access, time.Now(), time.Hour)
	harness.InWaves(t, edgeWaves, edgePeriod, func(client, _ int) error {
		for range 1 + rand.IntN(3) {
			if err := e.next(); err != nil || client >= edgeWriters {
				return err
			}
		}
		return nil
	})
	if t.Failed() {
		return
	}
	e.judge(changesOf(h, c.in, 0))
}

func (e *edge) namespace(n int) string { return fmt.Sprintf("n%d", n) }

func (e *edge) next() error {
	ns := e.namespace(rand.IntN(edgeNamespaces + 1))
	anySpot := func() ext.RecordKey { return ext.RecordKey{Namespace: ns, Key: fmt.Sprint(rand.IntN(2 * edgeKeys))} }
	r := &request{extContention: e.extContention}
	if rand.IntN(5) < 2 {
		_, err := r.send(ext.Call{Method: http.MethodDelete, Path: anySpot().Path()})
		return err
	}
	var puts []sized
	var items []any
	for range 1 + rand.IntN(3) {
		if put := (sized{anySpot(), int64(100 + rand.IntN(400))}); len(puts) == 0 || put.RecordKey != puts[0].RecordKey && put.RecordKey != puts[len(puts)-1].RecordKey {
			puts = append(puts, put)
			items = append(items, map[string]any{"key": put.Key, "value": strings.Repeat("x", int(put.bytes)-4)}) // minus two quotes and {} as metadata
		}
	}
	from := e.in.Knows()
	a, err := r.send(ext.Call{Method: http.MethodPost, Path: "/namespaces/" + ns + "/records", Body: ext.JSON(map[string]any{"items": items})})
	if err != nil {
		return err
	}
	return e.record(r, puts, from, a)
}

func (e *edge) record(r *request, puts []sized, from int64, a binary.Answer) error {
	e.wmu.Lock()
	defer e.wmu.Unlock()
	if a.Status == http.StatusTooManyRequests {
		var no struct {
			Error struct{ Code, Cause, Message string }
		}
		if err := json.Unmarshal([]byte(a.Body), &no); err != nil || no.Error.Code != "BULK_PARTIAL_FAILURE" || no.Error.Cause != "QUOTA_EXCEEDED" {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		what := strings.Fields(no.Error.Message) // e.g. "the quota of 6 keys in a namespace is used up: …"
		if len(what) < 5 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		e.refused = append(e.refused, overQuota{puts, what[4], from, r.to})
		return nil
	}
	var answer struct{ Items []ext.Result }
	if err := json.Unmarshal([]byte(a.Body), &answer); err != nil || len(answer.Items) != len(puts) {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	for i, item := range answer.Items {
		seq, err := ext.Seq(*item.ETag)
		if err != nil {
			return err
		}
		e.sizes[seq], e.sent[seq], e.ends[seq] = puts[i].bytes, r.from, i == len(puts)-1
		e.in.NoteChange(seq)
	}
	return nil
}

func (e *edge) judge(lines []ext.Change) {
	e.t.Helper()
	rows, open, reached := map[ext.RecordKey]int64{}, map[int]bool{}, map[string]int{}
	for i := range e.refused {
		open[i] = true
		reached[e.refused[i].what]++
	}
	met := func(seq int64) {
		for i := range open {
			if o := &e.refused[i]; o.from <= seq && over(o.after(rows), o.what) {
				delete(open, i)
			}
		}
	}
	met(0)
	for _, line := range lines {
		for i := range open {
			if o := &e.refused[i]; e.sent[line.Seq] > o.at { // a change sent after the response cannot explain the refusal
				e.t.Errorf("refused below the quota: %+v", o)
				delete(open, i)
			}
		}
		if delete(rows, line.RecordKey); line.Op == "put" {
			rows[line.RecordKey] = e.sizes[line.Seq]
		}
		if line.Op == "put" && !e.ends[line.Seq] {
			continue // no request could see the state between this change and the next
		}
		for _, what := range []string{"keys", "namespaces", "bytes"} {
			if over(rows, what) {
				e.t.Errorf("after %v: too many %s: %v", line, what, rows)
			}
		}
		met(line.Seq)
	}
	for i := range open {
		e.t.Errorf("refused below the quota: %+v", e.refused[i])
	}
	for _, what := range []string{"keys", "namespaces", "bytes"} {
		if reached[what] == 0 {
			e.t.Errorf("no request reached the quota of %s: %v", what, reached)
		}
	}
	e.t.Logf("%d changes, %d refused: %v", len(lines), len(e.refused), reached)
}

func (o *overQuota) after(rows map[ext.RecordKey]int64) map[ext.RecordKey]int64 {
	after := maps.Clone(rows)
	for _, put := range o.puts {
		after[put.RecordKey] = put.bytes
	}
	return after
}

func over(rows map[ext.RecordKey]int64, what string) bool {
	keys, bytes, most := map[string]int{}, int64(0), 0
	for at, size := range rows {
		keys[at.Namespace]++
		bytes += size
		most = max(most, keys[at.Namespace])
	}
	switch what {
	case "keys":
		return most > edgeKeys
	case "namespaces":
		return len(keys) > edgeNamespaces
	}
	return bytes > edgeBytes
}
