package buckets

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func (b *Workload) openVersions(h *harness.Harness) {
	h.T.Helper()
	for _, bucket := range ruled {
		var headers []string
		if bucket == locking {
			headers = []string{"X-Amz-Bucket-Object-Lock-Enabled: true"}
		}
		b.want(h, http.StatusOK, http.MethodPut, bucket, "", headers...)
	}
	b.setRules(h)
	b.setVersioning(h, versioned, "Enabled")
	b.modes[locking] = "Enabled"
}

// setRules sets the lifecycle rules again, so that they become due.
func (b *Workload) setRules(h *harness.Harness) {
	h.T.Helper()
	for _, bucket := range ruled {
		b.want(h, http.StatusOK, http.MethodPut, bucket+"?lifecycle", lifecycleOf(bucket))
	}
}

func (b *Workload) setVersioning(h *harness.Harness, bucket, mode string) {
	h.T.Helper()
	b.want(h, http.StatusOK, http.MethodPut, bucket+"?versioning", "<VersioningConfiguration><Status>"+mode+"</Status></VersioningConfiguration>")
	b.modes[bucket] = mode
}

func (b *Workload) versionClients(h *harness.Harness, l *harness.Load) []harness.Client {
	h.T.Helper()
	b.setVersioning(h, sometimes, map[bool]string{true: "Suspended", false: "Enabled"}[b.modes[sometimes] == "Enabled"])
	all := harness.Clients(b.keepers, func(w *versionWriter, choose *rand.Rand) {
		w.random, w.modes = choose, b.modes
		b.runVersions(h, l, w)
	})
	if b.rules {
		all = append(all, func(*rand.Rand) { b.applyRules(h, l) })
	}
	return all
}

// applyRules sets the lifecycle rules repeatedly while clients write.
func (b *Workload) applyRules(h *harness.Harness, l *harness.Load) {
	ask := b.asker(h, l, 0)
	h.Drive(l, func() (harness.Result, error) {
		for _, bucket := range ruled {
			a, answered := ask(http.MethodPut, bucket+"?lifecycle", lifecycleOf(bucket))
			if !answered {
				return harness.Lost, nil
			}
			if a.Status != http.StatusOK {
				return harness.Nothing, fmt.Errorf("PUT %s?lifecycle: %d %s", bucket, a.Status, a.Body)
			}
		}
		harness.Pause(l.Over, 100*time.Millisecond)
		return harness.Nothing, nil
	})
}

func (b *Workload) asker(h *harness.Harness, l *harness.Load, n int) buckets.Ask {
	return func(method, target, body string, headers ...string) (binary.Answer, bool) {
		return h.Judge(l, method, target, func() (binary.Answer, error) {
			return b.send(h, h.ServerOf(n), method, target, body, headers...)
		})
	}
}

// runVersions changes versions until the fault ends. After a lost response it lists the object's versions.
func (b *Workload) runVersions(h *harness.Harness, l *harness.Load, w *versionWriter) {
	ask := b.asker(h, l, w.n)
	h.Drive(l, func() (harness.Result, error) {
		if w.lost != nil {
			harness.Pause(l.Over, 20*time.Millisecond)
			got, answered, err := versionsOf(w.lost, ask)
			if answered && err == nil {
				_, err = w.found(got, h.Clock.Add(1))
			}
			return harness.Nothing, err
		}
		c := w.next()
		c.sent = h.Clock.Add(1)
		version, answered, refused, err := c.do(ask)
		switch {
		case err != nil:
			return harness.Nothing, fmt.Errorf("%s: %w", c, err)
		case !answered:
			c.refused = refused
			w.lost = c
			return harness.Lost, nil
		}
		w.done(c, version, h.Clock.Add(1))
		return harness.Acknowledged, b.readAny(h, ask, w)
	})
}

func (b *Workload) readAny(h *harness.Harness, ask buckets.Ask, w *versionWriter) error {
	c := &change{}
	if w.random.IntN(3) > 0 || !w.chooseSource(c) {
		return nil
	}
	a, answered := ask(http.MethodGet, c.source, "")
	if !answered {
		return nil
	}
	h.Tally.Reads.Add(1)
	if sum, want := buckets.MD5Of(a), w.sourceOf(c).md5; sum != want {
		return fmt.Errorf("%s was acknowledged with the MD5 %s, but then read as %q", c.source, want, sum)
	}
	return nil
}

// found compares the versions read after a lost response with the model, and updates it.
func (w *versionWriter) found(got []kept, now int64) (done bool, err error) {
	c := w.lost
	w.lost = nil
	if state, ok := explain(c.path, c.before, got); ok {
		w.state[c.path] = state
		return false, nil
	}
	if state, ok := explain(c.path, c.after, got); ok {
		w.set(c.path, state, c.sent, now)
		return true, nil
	}
	return false, fmt.Errorf("%s got no response: versions before %v, after %v, found %v", c, c.before, c.after, got)
}

type versionList struct {
	Entries []struct {
		XMLName   xml.Name
		Key       string
		VersionID string `xml:"VersionId"`
		IsLatest  bool
	} `xml:",any"`
	IsTruncated bool
}

// versionsOf lists the changed object's versions. It also reads the null version, which the change may have replaced,
// or the version whose lock changed.
func versionsOf(c *change, ask buckets.Ask) (all []kept, answered bool, err error) {
	bucket := bucketOf(c.path)
	a, answered := ask(http.MethodGet, bucket+"?versions&prefix="+c.path[len(bucket)+1:], "")
	if !answered {
		return nil, false, nil
	}
	by, err := readVersions(bucket, a)
	all = by[c.path]
	id := "null"
	if c.kind == "hold" {
		id = c.version
	}
	if i := indexOf(all, id); err == nil && i >= 0 && !all[i].marker {
		a, answered := ask(http.MethodGet, c.path+"?versionId="+id, "")
		if !answered {
			return nil, false, nil
		}
		all[i].md5, all[i].lock = buckets.MD5Of(a), lockOf(a)
		if all[i].md5 == "" { // a rule has deleted the listed version
			all = slices.Delete(all, i, i+1)
		}
	}
	return all, true, err
}

func readVersions(bucket string, a binary.Answer) (map[string][]kept, error) {
	var list versionList
	if err := xml.Unmarshal([]byte(a.Body), &list); a.Status != http.StatusOK || err != nil || list.IsTruncated {
		return nil, fmt.Errorf("versions of %s: %d, truncated: %t: %w", bucket, a.Status, list.IsTruncated, err)
	}
	all := map[string][]kept{}
	for _, e := range list.Entries {
		if e.XMLName.Local != "Version" && e.XMLName.Local != "DeleteMarker" {
			continue
		}
		path := bucket + "/" + e.Key
		if e.IsLatest != (len(all[path]) == 0) {
			return nil, fmt.Errorf("%s, version %s: IsLatest is %t", path, e.VersionID, e.IsLatest)
		}
		all[path] = append(all[path], kept{id: e.VersionID, marker: e.XMLName.Local == "DeleteMarker"})
	}
	return all, nil
}

func (b *Workload) listVersions(h *harness.Harness) map[string][]kept {
	h.T.Helper()
	all := map[string][]kept{}
	for _, bucket := range ruled {
		some, err := readVersions(bucket, b.want(h, http.StatusOK, http.MethodGet, bucket+"?versions", ""))
		harness.Must(h.T, err)
		maps.Copy(all, some)
	}
	return all
}

// compareLists checks that the server lists exactly the objects with a current version.
func (b *Workload) compareLists(h *harness.Harness, all map[string][]kept) {
	h.T.Helper()
	for _, bucket := range ruled {
		live := b.want(h, http.StatusOK, http.MethodGet, bucket+"?list-type=2", "").Body
		n := 0
		for path, state := range all {
			if bucketOf(path) == bucket && !state[0].marker {
				if n++; !strings.Contains(live, "<Key>"+path[len(bucket)+1:]+"</Key>") {
					h.T.Errorf("%s is not in the list of objects", path)
				}
			}
		}
		if listed := strings.Count(live, "<Key>"); listed != n {
			h.T.Errorf("%s: %d objects are listed, %d have a current version", bucket, listed, n)
		}
	}
}

// checkVersions reads every version. A change without a response took effect completely or not at all.
func (b *Workload) checkVersions(h *harness.Harness) {
	h.T.Helper()
	b.releaseLease(h)
	for _, w := range b.keepers {
		b.settleVersions(h, w)
	}
	all := b.listVersions(h)
	for _, w := range b.keepers {
		for path, want := range w.state {
			state, ok := explain(path, want, all[path])
			if !ok {
				h.T.Errorf("%s: versions %v, expected %v", path, all[path], want)
			}
			w.state[path] = state
			b.readAll(h, path, state)
		}
	}
	b.age(h)
}

func (b *Workload) settleVersions(h *harness.Harness, w *versionWriter) {
	h.T.Helper()
	c := w.lost
	if c == nil {
		return
	}
	got, _, err := versionsOf(c, b.settled(h))
	harness.Must(h.T, err)
	done, err := w.found(got, h.Clock.Add(1))
	if err != nil {
		h.T.Error(err)
	} else if len(c.before)+len(c.after) > 0 {
		h.Decided(c, c.refused, done)
	}
}

// readAll compares each version's bytes and lock. The lock may come from any possible state.
func (b *Workload) readAll(h *harness.Harness, path string, state []kept, possible ...[]kept) {
	h.T.Helper()
	locks := map[string][]string{}
	for _, all := range append(possible, state) {
		for _, v := range all {
			locks[v.id] = append(locks[v.id], cmp.Or(v.lock, noLock))
		}
	}
	for _, v := range state {
		a, err := b.send(h, h.Server, http.MethodGet, path+"?versionId="+v.id, "")
		if b.rules && a.Status == http.StatusNotFound && (v.mayGo || v.marker && isAging(path) || isGone(path) && bucketOf(path) == expiring) {
			continue // a rule has deleted it
		}
		switch {
		case err != nil:
			h.T.Errorf("%s, version %s: %v", path, v.id, err)
		case v.marker && a.Status != http.StatusMethodNotAllowed:
			h.T.Errorf("%s, delete marker %s: %d", path, v.id, a.Status)
		case !v.marker && buckets.MD5Of(a) != v.md5:
			h.T.Errorf("%s, version %s: MD5 %q, acknowledged with %q", path, v.id, buckets.MD5Of(a), v.md5)
		case !v.marker && !slices.Contains(locks[v.id], lockOf(a)):
			h.T.Errorf("%s, version %s: lock %q, expected one of %q", path, v.id, lockOf(a), locks[v.id])
		}
	}
}

func (b *Workload) settled(h *harness.Harness) buckets.Ask {
	return func(method, target, body string, headers ...string) (binary.Answer, bool) {
		a, err := b.send(h, h.Server, method, target, body, headers...)
		harness.Must(h.T, err)
		return a, true
	}
}

// checkCopiedVersions compares the copied versions with one moment's state.
func (b *Workload) checkCopiedVersions(h *harness.Harness, begun, ended int64) {
	h.T.Helper()
	all := b.listVersions(h)
	b.compareLists(h, all)
	for _, w := range b.keepers {
		for path := range w.history {
			possible := w.possible(path, begun, ended)
			b.readNull(h, path, all[path])
			i := slices.IndexFunc(possible, func(want []kept) bool { _, ok := explain(path, want, all[path]); return ok })
			if i < 0 {
				h.T.Errorf("%s: versions %v in the copy, expected one of %v", path, all[path], possible)
				continue
			}
			state, _ := explain(path, possible[i], all[path])
			b.readAll(h, path, state, possible...)
		}
	}
}

// readNull adds the null version's body and lock, because several possible states may contain a null version.
func (b *Workload) readNull(h *harness.Harness, path string, state []kept) {
	h.T.Helper()
	if i := indexOf(state, "null"); i >= 0 && !state[i].marker {
		a, err := b.send(h, h.Server, http.MethodGet, path+"?versionId=null", "")
		harness.Must(h.T, err)
		state[i].md5, state[i].lock = buckets.MD5Of(a), lockOf(a)
	}
}

// age backdates the noncurrent versions, so that rules select them.
func (b *Workload) age(h *harness.Harness) {
	h.T.Helper()
	b.script(h, `UPDATE manta_bucket_version SET superseded = superseded - 259200000000 WHERE name LIKE 'old/%'`,
		`UPDATE manta_bucket_version SET superseded = (superseded AT TIME ZONE 'UTC' - interval '3 days') AT TIME ZONE 'UTC' WHERE name LIKE 'old/%'`)
	for _, w := range b.keepers {
		for path, state := range w.state {
			for i := range state {
				state[i].aged = isAging(path) && i > 0
			}
			w.state[path] = passed(path, state)
		}
	}
}

func (b *Workload) script(h *harness.Harness, onSQLite, onPostgres string) {
	h.T.Helper()
	file := filepath.Join(h.Data, "buckets.db")
	for _, v := range h.Vars {
		url, ok := strings.CutPrefix(v, "HOLDFAST_BUCKETS__DATABASE_URL=")
		switch path, local := strings.CutPrefix(url, "sqlite:"); {
		case !ok:
		case local:
			file = path
		default:
			conn := harness.Dial(h.T, url)
			_, err := conn.Exec(h.T.Context(), onPostgres)
			harness.Must(h.T, errors.Join(err, conn.Close(h.T.Context()))) // before the test counts a killed server's connections
			return
		}
	}
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	harness.Must(h.T, err)
	conn.SetBusyTimeout(harness.Bound)
	harness.Must(h.T, sqlitex.ExecuteTransient(conn, onSQLite, nil))
	harness.Must(h.T, conn.Close())
}

// releaseLease ends a killed process's lease, which would delay lifecycle rules for a minute.
func (b *Workload) releaseLease(h *harness.Harness) {
	h.T.Helper()
	pids := [2]int{h.Server.Cmd.Process.Pid}
	if h.Second != nil {
		pids[1] = h.Second.Cmd.Process.Pid
	}
	sql := fmt.Sprintf(`DELETE FROM manta_bucket_lease WHERE name = 'lifecycle' AND process NOT LIKE 'process %d on %%' AND process NOT LIKE 'process %d on %%'`,
		pids[0], pids[1])
	b.script(h, sql, sql)
}

// expire applies the rules until no version remains to delete. It returns the number of version bodies on nodes.
func (b *Workload) expire(h *harness.Harness) (bodies int) {
	h.T.Helper()
	b.setRules(h)
	if !b.rules {
		h.Server.Verb("sweep")
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Bound); ; <-tick.C {
		bodies = 0
		all, left := b.listVersions(h), ""
		for _, w := range b.keepers {
			for path, want := range w.state {
				state, ok := explain(path, want, all[path])
				if !ok {
					h.T.Errorf("%s: versions %v after a sweep, expected %v", path, all[path], want)
				}
				left = cmp.Or(left, remains(path, state))
				w.state[path] = state
				for _, v := range state {
					bodies += v.bodies
				}
			}
		}
		switch {
		case left == "":
			b.compareLists(h, all)
			if log := h.Server.Output.String(); strings.Contains(log, "could not apply a bucket's lifecycle rules") {
				h.T.Error("a lifecycle run failed")
			}
			return bodies
		case !b.rules || h.T.Failed() || time.Now().After(deadline):
			h.T.Errorf("not deleted by the rules: %s", left)
			return bodies
		}
	}
}

// deleteVersions deletes all versions and counts the bodies that locks protect.
func (b *Workload) deleteVersions(h *harness.Harness) (bodies int) {
	h.T.Helper()
	for _, w := range b.keepers {
		for path, state := range w.state {
			for _, v := range state {
				status := http.StatusNoContent
				switch v.lock {
				case hold:
					b.want(h, http.StatusForbidden, http.MethodDelete, path+"?versionId="+v.id, "", bypass)
					b.want(h, http.StatusOK, http.MethodPut, path+"?legal-hold&versionId="+v.id, "<LegalHold><Status>OFF</Status></LegalHold>")
				case compliance:
					status = http.StatusForbidden
					bodies += v.bodies
				}
				b.want(h, status, http.MethodDelete, path+"?versionId="+v.id, "", bypass)
			}
			w.state[path] = nil
		}
	}
	return bodies
}
