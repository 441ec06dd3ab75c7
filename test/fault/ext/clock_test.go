package ext

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "holdfast/client/ext"
	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestExpiry checks that a record exists until the millisecond before its expiry, and that afterwards no response
// contains or counts it, even before a sweep. The server's clock decides, not the database's.
func TestExpiry(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnPostgres, harness.OnSQLite), expiry)
}

const (
	fewKeys       = 4
	fewNamespaces = 2
	fewBytes      = 8000
)

func expiry(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	vars = append(append(vars, harness.ExtVars()...), "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_EXTSTORAGE__SWEEP_INTERVAL=0", fmt.Sprintf("HOLDFAST_EXTSTORAGE__QUOTA__KEYS=%d", fewKeys),
		fmt.Sprintf("HOLDFAST_EXTSTORAGE__QUOTA__NAMESPACES=%d", fewNamespaces), fmt.Sprintf("HOLDFAST_EXTSTORAGE__QUOTA__BYTES=%d", fewBytes))
	binary.Migrate(t, data, vars...)
	testClock := harness.NewClock(t)
	h := &harness.Harness{T: t, Client: &http.Client{Timeout: harness.Bound}, Server: testClock.Serve(data, vars...)}
	t.Cleanup(h.Client.CloseIdleConnections)
	for i, off := range []time.Duration{0, -5 * 365 * 24 * time.Hour, 5 * 365 * 24 * time.Hour} {
		v := &expiryTest{Harness: h, testClock: testClock, begin: time.Now().Add(off).Truncate(time.Millisecond).UTC()}
		v.in = v.install(10 * i)
		v.lives()
		v.in = v.install(10*i + 1)
		v.expiryFreesQuota("keys", func(n int) ext.Call { return v.put("settings", fmt.Sprint(n), 10) }, fewKeys)
		v.in = v.install(10*i + 2)
		v.expiryFreesQuota("bytes", func(n int) ext.Call { return v.put("settings", fmt.Sprint(n), fewBytes/2-10) }, 2)
		v.in = v.install(10*i + 3)
		v.expiryFreesQuota("namespaces", func(n int) ext.Call { return v.put([]string{"settings", "log", "counters"}[n], "x", 10) }, fewNamespaces)
		v.tokens(v.install(10*i + 4))
	}
}

type expiryTest struct {
	*harness.Harness
	testClock *harness.Clock
	begin     time.Time
	in        *ext.Install
}

const lifetime = time.Minute

func (v *expiryTest) install(n int) *ext.Install {
	in := NewInstall(v.T, n)
	in.Token = extToken(v.T, in.ID, map[string]string{"settings": "rw", "log": "rw", "counters": "rw"}, v.begin, time.Hour)
	return in
}

func (v *expiryTest) at(after time.Duration) { v.testClock.Stop(v.begin.Add(after)) }

func (v *expiryTest) put(namespace, key string, size int) ext.Call {
	return ext.Call{Method: http.MethodPut, Path: ext.RecordKey{Namespace: namespace, Key: key}.Path(),
		Body: fmt.Sprintf(`{"value":%q,"ttlSeconds":%d}`, strings.Repeat("x", size), int(lifetime.Seconds()))}
}

func (v *expiryTest) seen() (items, exported int, used sdk.Usage) {
	v.T.Helper()
	for _, ns := range []string{"settings", "log", "counters"} {
		items += len(pagesOf(v.Harness, v.in, ns))
	}
	a := callExt(v.Harness, v.in, http.StatusOK, ext.Call{Method: http.MethodGet, Path: "/export"}, nil)
	used, err := sdkOf(v.Harness, v.in).Usage(v.T.Context())
	harness.Must(v.T, err)
	return items, strings.Count(a.Body, `"revision":`), used
}

func (v *expiryTest) lives() {
	v.T.Helper()
	at := ext.RecordKey{Namespace: "settings", Key: "brief"}
	record := func(method, body string, header ...string) ext.Call {
		c := ext.Call{Method: method, Path: at.Path(), Body: body, Header: map[string]string{}}
		if len(header) > 0 {
			c.Header[header[0]] = header[1]
		}
		return c
	}
	v.at(0)
	var meta ext.Record
	callExt(v.Harness, v.in, http.StatusCreated, v.put(at.Namespace, at.Key, 10), &meta)
	if want := v.begin.Add(lifetime).Format("2006-01-02T15:04:05.000Z"); meta.Expires == nil || *meta.Expires != want {
		v.T.Errorf("put at %v: expires at %v, want %s", v.begin, meta.Expires, want)
	}
	v.at(lifetime / 2)
	first := callExt(v.Harness, v.in, http.StatusOK, record(http.MethodPatch, `{"n":1}`), &meta).Header.Get("ETag")
	if want := v.begin.Add(lifetime).Format("2006-01-02T15:04:05.000Z"); meta.Expires == nil || *meta.Expires != want {
		v.T.Errorf("after a patch: expires at %v, want %s", meta.Expires, want)
	}

	v.at(lifetime - time.Millisecond)
	callExt(v.Harness, v.in, http.StatusOK, record(http.MethodGet, ""), &meta)
	callExt(v.Harness, v.in, http.StatusConflict, record(http.MethodPut, `{"value":1,"ifRevision":0}`), nil)
	callExt(v.Harness, v.in, http.StatusPreconditionFailed, record(http.MethodPut, `{"value":1}`, "If-None-Match", "*"), nil)
	if items, exported, used := v.seen(); meta.Revision != 2 || items != 1 || exported != 1 || used.Keys.Used != 1 || len(used.ByNamespace) != 1 {
		v.T.Errorf("a millisecond before expiry: revision %d, %d listed, %d exported, %+v", meta.Revision, items, exported, used)
	}

	v.at(lifetime)
	callExt(v.Harness, v.in, http.StatusNotFound, record(http.MethodGet, ""), nil)
	callExt(v.Harness, v.in, http.StatusNotFound, record(http.MethodPatch, `{"n":2}`), nil)
	callExt(v.Harness, v.in, http.StatusConflict, record(http.MethodPut, `{"value":1,"ifRevision":2}`), nil)
	callExt(v.Harness, v.in, http.StatusPreconditionFailed, record(http.MethodPut, `{"value":1}`, "If-Match", first), nil)
	c := record(http.MethodDelete, "")
	c.Path += "?ifRevision=2"
	callExt(v.Harness, v.in, http.StatusConflict, c, nil)
	callExt(v.Harness, v.in, http.StatusOK, ext.Call{Method: http.MethodPost, Path: "/batch",
		Body: `{"ops":[{"op":"check","namespace":"settings","key":"brief","ifRevision":0}]}`}, nil)
	if items, exported, used := v.seen(); items != 0 || exported != 0 || used.Keys.Used != 0 || used.Bytes.Used != 0 || used.Namespaces.Used != 0 || len(used.ByNamespace) != 0 {
		v.T.Errorf("at expiry: %d listed, %d exported, %+v", items, exported, used)
	}
	if lines := changesOf(v.Harness, v.in, 0); len(lines) != 2 {
		v.T.Errorf("reads and refused writes made changes: %v", lines)
	}

	// A write to the key now creates a new record.
	second := callExt(v.Harness, v.in, http.StatusCreated, record(http.MethodPut, `{"value":{"n":1}}`, "If-None-Match", "*"), &meta).Header.Get("ETag")
	if meta.Revision != 1 || second == first || meta.Expires != nil {
		v.T.Errorf("overwritten after expiry: revision %d, ETags %s and then %s, expires %v", meta.Revision, first, second, meta.Expires)
	}
	if lines := changesOf(v.Harness, v.in, 2); len(lines) != 1 || lines[0].Op != "put" || lines[0].Revision != 1 {
		v.T.Errorf("overwritten after expiry: changes %v", lines)
	}
	v.at(2 * lifetime)
	callExt(v.Harness, v.in, http.StatusOK, record(http.MethodGet, ""), nil)
}

// expiryFreesQuota uses up a quota with records that live for a minute, and requires space after they expire.
func (v *expiryTest) expiryFreesQuota(what string, put func(n int) ext.Call, most int) {
	v.T.Helper()
	v.at(0)
	for n := range most {
		callExt(v.Harness, v.in, http.StatusCreated, put(n), nil)
	}
	warned := func() bool {
		_, _, used := v.seen()
		for _, w := range used.Warnings {
			if string(w.What) == what {
				return true
			}
		}
		return false
	}
	v.at(lifetime - time.Millisecond)
	a := callExt(v.Harness, v.in, http.StatusTooManyRequests, put(most), nil)
	if !strings.Contains(a.Body, `"QUOTA_EXCEEDED"`) || a.Header.Get("Retry-After") != "" {
		v.T.Errorf("%s: %s, Retry-After %s", what, a.Body, a.Header.Get("Retry-After"))
	}
	if !warned() {
		v.T.Errorf("%s: no warning about a full quota", what)
	}

	v.at(lifetime)
	if warned() {
		v.T.Errorf("%s: warning although the records have expired", what)
	}
	callExt(v.Harness, v.in, http.StatusCreated, put(most), nil)
	if items, exported, used := v.seen(); items != 1 || exported != 1 || used.Keys.Used != 1 {
		v.T.Errorf("%s: %d listed, %d exported, %+v", what, items, exported, used)
	}
	if lines := changesOf(v.Harness, v.in, int64(most)); len(lines) != 1 || lines[0].Op != "put" {
		v.T.Errorf("%s: the write also made the changes %v", what, lines)
	}
}

// tokens checks that a token is valid for half a minute before and after its time, because the signer's clock may
// differ.
func (v *expiryTest) tokens(in *ext.Install) {
	v.T.Helper()
	const leeway = 30 * time.Second
	begin := v.begin.Truncate(time.Second)
	in.Token = extToken(v.T, in.ID, map[string]string{"settings": "r"}, begin, lifetime)
	for at, status := range map[time.Time]int{
		begin.Add(-leeway - time.Millisecond):           http.StatusUnauthorized,
		begin.Add(-leeway):                              http.StatusOK,
		begin.Add(lifetime + leeway - time.Millisecond): http.StatusOK,
		begin.Add(lifetime + leeway):                    http.StatusUnauthorized,
	} {
		v.testClock.Stop(at)
		a := callExt(v.Harness, in, status, ext.Call{Method: http.MethodGet, Path: "/namespaces/settings/records"}, nil)
		if challenge := a.Header.Get("WWW-Authenticate"); (status == http.StatusOK) != (challenge == "") {
			v.T.Errorf("%v after the start of a token's validity: %d, challenge %q", at.Sub(begin), status, challenge)
		}
	}
}
