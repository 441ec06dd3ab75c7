package buckets

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/workload"
	"holdfast/internal/workload/buckets"
)

// Buckets with lifecycle rules. The first path segment selects the rule.
const (
	versioned = "/versions"
	sometimes = "/sometimes" // versioned in every second round, otherwise suspended
	expiring  = "/expiring"
	locking   = "/locking" // versioned, with some locked versions
)

var ruled = []string{versioned, sometimes, expiring, locking}

// Version locks, which outlast the test.
const (
	governance = "GOVERNANCE"
	compliance = "COMPLIANCE"
	hold       = "HOLD"
	noLock     = "NONE" // as in responses; "" in the model
)

// mostCompliance limits the versions per writer that nobody can delete.
const mostCompliance = 8

const (
	aging = "/old/"  // noncurrent versions expire, except the newest; so do delete markers without versions
	gone  = "/gone/" // current objects expire at once
)

const newerKept = 2

type kept struct {
	id     string // version ID, "null", or unknownID
	marker bool
	md5    string
	bodies int    // on storage nodes
	lock   string // "" if unlocked or unknown

	aged  bool // old enough for the noncurrent rule
	mayGo bool // may be deleted by the rule
}

// unknownID stands for the ID in a lost response.
const unknownID = "?"

// versionWriter changes versions sequentially. Each object has one writer.
type versionWriter struct {
	n       int
	random  *rand.Rand
	bodies  *buckets.Writer
	modes   map[string]string // versioning by bucket in this round
	state   map[string][]kept // by path, newest first
	history map[string][]past
	lost    *change

	compliant int // number of versions locked in compliance mode
}

// past is an earlier object state, which began between two clock ticks.
type past struct {
	state              []kept
	sent, acknowledged int64
}

type change struct {
	kind          string // put, upload, copy, delete, drop (delete a version), or hold (set or remove a legal hold)
	path          string
	version       string // for drop and hold
	lock          string // the new version's lock, or the new hold
	bypass        bool   // bypasses governance mode
	locked        bool   // deletion must be refused
	source        string
	parts         []string
	before, after []kept
	sent          int64 // test clock
	refused       bool
}

func (c *change) String() string { return c.kind + " " + c.path + " " + c.version }

func newVersionWriter(n int) *versionWriter {
	w := &versionWriter{n: n, state: map[string][]kept{}, history: map[string][]past{}}
	w.bodies = buckets.NewWriter("", 200+n, nil) // unlike other writers' bodies
	return w
}

func bucketOf(path string) string { return path[:1+strings.Index(path[1:], "/")] }

func isGone(path string) bool { return strings.HasPrefix(path[len(bucketOf(path)):], gone) }

func isAging(path string) bool { return strings.HasPrefix(path[len(bucketOf(path)):], aging) }

// Few keys are used, so that each gets several versions.
func (w *versionWriter) next() *change {
	places := []string{versioned + "/keep/", versioned + aging, versioned + aging, versioned + gone, sometimes + "/keep/", sometimes + aging, expiring + gone, locking + aging, locking + aging}
	c := &change{path: fmt.Sprintf("%sv%d-%d", places[w.random.IntN(len(places))], w.n, w.random.IntN(2))}
	c.before = w.state[c.path]
	n := w.random.IntN(20)
	switch {
	case bucketOf(c.path) == locking && n == 19 && w.chooseHold(c):
	case bucketOf(c.path) != expiring && len(c.before) > 0 && (n < 3 || len(c.before) > 8 && n < 12):
		v := c.before[w.random.IntN(len(c.before))]
		c.kind, c.version, c.bypass = "drop", v.id, w.random.IntN(2) == 0
		c.locked = v.lock == hold || v.lock == compliance || v.lock == governance && !c.bypass
	case n < 7:
		c.kind = "delete"
	case n < 10 && w.chooseSource(c):
	case n < 12:
		c.kind, c.parts = "upload", []string{w.bodies.Body(buckets.Inline + 1 + w.random.IntN(20_000))}
	case n < 17:
		c.kind, c.parts = "put", []string{w.bodies.Body(w.random.IntN(buckets.Inline))}
	default:
		c.kind, c.parts = "put", []string{w.bodies.Body(buckets.Inline + 1 + w.random.IntN(40_000))}
	}
	if bucketOf(c.path) == locking && (c.kind == "put" || c.kind == "copy") {
		c.lock = []string{"", "", "", governance, governance, hold, compliance}[w.random.IntN(7)]
		if c.lock == compliance && w.compliant == mostCompliance {
			c.lock = ""
		}
	}
	c.after = w.result(c)
	return c
}

func (w *versionWriter) chooseHold(c *change) bool {
	for _, v := range c.before {
		if !v.marker && !v.mayGo && (v.lock == "" || v.lock == hold) {
			c.kind, c.version = "hold", v.id
			if v.lock == "" {
				c.lock = hold
			}
			return true
		}
	}
	return false
}

func (w *versionWriter) chooseSource(c *change) bool {
	var all []string
	for path, state := range w.state {
		for _, v := range state {
			if !v.marker && !v.mayGo && v.id != unknownID && bucketOf(path) != expiring {
				all = append(all, path+"?versionId="+v.id)
			}
		}
	}
	if len(all) == 0 {
		return false
	}
	slices.Sort(all)
	c.kind, c.source = "copy", all[w.random.IntN(len(all))]
	return true
}

func (w *versionWriter) sourceOf(c *change) kept {
	path, id, _ := strings.Cut(c.source, "?versionId=")
	return w.state[path][indexOf(w.state[path], id)]
}

func indexOf(state []kept, id string) int {
	return slices.IndexFunc(state, func(v kept) bool { return v.id == id })
}

func (w *versionWriter) result(c *change) []kept {
	state := slices.Clone(c.before)
	mode := w.modes[bucketOf(c.path)]
	v := kept{id: unknownID, lock: c.lock}
	if mode != "Enabled" {
		v.id = "null"
	}
	switch c.kind {
	case "hold":
		state[indexOf(state, c.version)].lock = c.lock
		return passed(c.path, state)
	case "drop":
		if c.locked {
			return state
		}
		i := indexOf(state, c.version)
		if state = slices.Delete(state, i, i+1); i == 0 && len(state) > 0 {
			state[0].aged = false
		}
		return passed(c.path, state)
	case "delete":
		if v.marker = true; mode == "" {
			return nil
		}
	case "copy":
		source := w.sourceOf(c)
		v.md5, v.bodies = source.md5, source.bodies
	default:
		v.md5 = buckets.MD5(strings.Join(c.parts, ""))
		for _, p := range c.parts {
			if len(p) > buckets.Inline {
				v.bodies++
			}
		}
	}
	if v.id == "null" {
		state = slices.DeleteFunc(state, func(old kept) bool { return old.id == v.id })
	}
	return passed(c.path, slices.Insert(state, 0, v))
}

// passed marks the versions that the rule may now delete.
func passed(path string, state []kept) []kept {
	for i := range state {
		if isAging(path) && state[i].aged && state[i].lock == "" && i > newerKept {
			state[i].mayGo = true
		}
	}
	return state
}

func (w *versionWriter) done(c *change, version string, now int64) {
	if i := indexOf(c.after, unknownID); i >= 0 && version != "" {
		c.after[i].id = version
	}
	if c.lock == compliance {
		w.compliant++
	}
	w.set(c.path, c.after, c.sent, now)
}

func (w *versionWriter) set(path string, state []kept, sent, now int64) {
	w.state[path] = state
	w.history[path] = append(w.history[path], past{slices.Clone(state), sent, now})
}

// possible returns an object's possible states between two clock ticks.
func (w *versionWriter) possible(path string, begun, ended int64) [][]kept {
	all := [][]kept{nil}
	for _, p := range w.history[path] {
		if p.acknowledged < begun {
			all = nil
		}
		if p.sent <= ended {
			all = append(all, p.state)
		}
	}
	if w.lost != nil && w.lost.path == path {
		all = append(all, w.lost.after)
	}
	return all
}

const bypass = "X-Amz-Bypass-Governance-Retention: true"

const lockTime = 30 * 24 * time.Hour

// do sends a change's requests until a response is lost. It returns the created version, or "".
func (c *change) do(ask buckets.Ask) (version string, answered, refused bool, err error) {
	status, method, target, body, headers := http.StatusOK, http.MethodPut, c.path, "", []string(nil)
	switch c.kind {
	case "put":
		body = c.parts[0]
	case "copy":
		headers = []string{"X-Amz-Copy-Source: " + c.source}
	case "hold":
		target, body = c.path+"?legal-hold&versionId="+c.version, "<LegalHold><Status>"+map[string]string{hold: "ON", "": "OFF"}[c.lock]+"</Status></LegalHold>"
	case "delete":
		status, method = http.StatusNoContent, http.MethodDelete
	case "drop":
		status, method, target = http.StatusNoContent, http.MethodDelete, c.path+"?versionId="+c.version
		if c.locked {
			status = http.StatusForbidden
		}
		if c.bypass {
			headers = []string{bypass}
		}
	case "upload":
		d := &buckets.Write{Kind: c.kind, Path: c.path, Parts: c.parts}
		a, answered, err := d.Do(ask)
		return a.Header.Get("X-Amz-Version-Id"), answered, a.Status == http.StatusServiceUnavailable, err
	}
	switch {
	case c.kind == "hold" || c.lock == "":
	case c.lock == hold:
		headers = append(headers, "X-Amz-Object-Lock-Legal-Hold: ON")
	default:
		headers = append(headers, "X-Amz-Object-Lock-Mode: "+c.lock, "X-Amz-Object-Lock-Retain-Until-Date: "+time.Now().Add(lockTime).UTC().Format(time.RFC3339))
	}
	if sum := md5.Sum([]byte(body)); c.kind == "put" { // a lock requires this header
		headers = append(headers, "Content-Md5: "+base64.StdEncoding.EncodeToString(sum[:]))
	}
	a, answered := ask(method, target, body, headers...)
	if answered && a.Status != status {
		err = fmt.Errorf("%d %s, want %d", a.Status, a.Body, status)
	}
	if c.kind != "drop" && c.kind != "hold" {
		version = a.Header.Get("X-Amz-Version-Id")
	}
	return version, answered, a.Status == http.StatusServiceUnavailable, err
}

// explain compares the server's versions with a possible state, and returns them as the new state. A rule may have
// deleted versions and added delete markers.
func explain(path string, want, got []kept) (now []kept, ok bool) {
	i := 0
	for _, g := range got {
		for i < len(want) && !want[i].is(g) && want[i].mayGo {
			i++
		}
		switch {
		case i < len(want) && want[i].is(g):
			v := want[i]
			v.id, v.mayGo = g.id, false
			now = append(now, v)
			i++
		case isGone(path) && g.marker && !slices.ContainsFunc(want, func(v kept) bool { return v.id == g.id }):
			now = append(now, g)
		default:
			return nil, false
		}
	}
	for ; i < len(want); i++ { // the rule may delete a delete marker without versions
		if v := want[i]; !v.mayGo && !(v.marker && isAging(path)) && !(isGone(path) && bucketOf(path) == expiring) {
			return nil, false
		}
	}
	return passed(path, now), true
}

func (v kept) is(g kept) bool {
	return v.marker == g.marker && (v.id == g.id || v.id == unknownID && g.id != "null") && (g.md5 == "" || v.md5 == g.md5) &&
		(g.lock == "" || g.lock == cmp.Or(v.lock, noLock))
}

func lockOf(a workload.Answer) string {
	if a.Header.Get("X-Amz-Object-Lock-Legal-Hold") == "ON" {
		return hold
	}
	return cmp.Or(a.Header.Get("X-Amz-Object-Lock-Mode"), noLock)
}

// remains returns a version that a rule should have deleted, or "".
func remains(path string, state []kept) string {
	switch {
	case isGone(path) && len(state) > 0 && !state[0].marker:
		return path + " has expired"
	case isAging(path) && len(state) == 1 && state[0].marker:
		return "the delete marker of " + path + ", which has no versions"
	case isAging(path):
		for i, v := range state {
			if v.aged && v.lock == "" && i > newerKept {
				return path + ", version " + v.id
			}
		}
	}
	return ""
}

func lifecycleOf(bucket string) string {
	var all bytes.Buffer
	rule := func(prefix, actions string) {
		fmt.Fprintf(&all, "<Rule><ID>%s</ID><Filter><Prefix>%s</Prefix></Filter><Status>Enabled</Status>%s</Rule>", prefix[1:], prefix[1:], actions)
	}
	if bucket != sometimes && bucket != locking {
		rule(gone, "<Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration>")
	}
	if bucket != expiring {
		rule(aging, fmt.Sprintf(`<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>
			<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>%d</NewerNoncurrentVersions></NoncurrentVersionExpiration>`, newerKept))
	}
	return "<LifecycleConfiguration>" + all.String() + "</LifecycleConfiguration>"
}
