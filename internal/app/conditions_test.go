package app

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/app/buckets"
	"holdfast/internal/app/service"
	"holdfast/internal/testdb"
	"holdfast/internal/web"
)

// Header values that no route may take as a condition. Each value is a list of field lines.
var (
	blankValues = [][]string{{""}, {" "}, {"\t"}, {"", ""}}

	malformedTags = slices.Concat(blankValues, [][]string{
		{","}, {" , ,"}, {`"`}, {`"unterminated`}, {`*, "a"`}, {`"a", *`}, {`"a"`, "*"}, {"*", "*"}, {`"a" "b"`}, {`W/`}, {"\"a\x01\""},
	})
	malformedDates = slices.Concat(blankValues, [][]string{
		{"garbage"}, {"0"}, {"1790000000"}, {"Sat, 31 Feb 2026 19:20:00 GMT"}, {"2026-13-45T00:00:00Z"}, {"Sat, 28 Nov 2026 19:20:00"},
		{"Sat, 28 Nov 2026 19:20:00 GMT", "Sat, 28 Nov 2026 19:20:00 GMT"}, {`"a"`}, {"*"},
	})
	malformedNumbers = slices.Concat(blankValues, [][]string{
		{"garbage"}, {"-1"}, {"+1"}, {"1e9"}, {"NaN"}, {"Inf"}, {"0x10"}, {"1_0"}, {"1,2"}, {"1 2"}, {`"1"`}, {"*"}, {"1", "1"}, {strings.Repeat("9", 65)},
	})
	malformedWhole = slices.Concat(malformedNumbers, [][]string{{"1.5"}, {"01"}, {"9223372036854775808"}})
	malformedKeys  = slices.Concat(blankValues, [][]string{{"a", "b"}, {strings.Repeat("k", 256)}, {"k\x01"}, {"kä"}})
)

// conditionValues contains malformed values and a valid value for each condition header. A new header needs an entry.
var conditionValues = map[string]struct {
	malformed [][]string
	valid     string
}{
	"If-Match":                              {malformedTags, `"1"`},
	"If-None-Match":                         {malformedTags, `"1"`},
	"If-Modified-Since":                     {malformedDates, someDate},
	"If-Unmodified-Since":                   {malformedDates, someDate},
	"If-Range":                              {malformedTags, `"1"`},
	"If":                                    {blankValues, `(["1"])`},
	"If-Revision-Match":                     {malformedWhole, "1"},
	"X-If-Modified-Since":                   {malformedNumbers, "1.00"},
	"X-If-Unmodified-Since":                 {malformedNumbers, "99999999999.00"},
	"X-Amz-Copy-Source-If-Match":            {malformedTags, `"1"`},
	"X-Amz-If-Match-Size":                   {malformedWhole, "1"},
	"Idempotency-Key":                       {malformedKeys, "key"},
	"X-Idempotency-Key":                     {malformedKeys, "key"},
	"X-Amz-If-Match-Initiated-Time":         {malformedDates, someDate},
	"X-Amz-If-Match-Last-Modified-Time":     {malformedDates, someDate},
	"X-Amz-Copy-Source-If-None-Match":       {malformedTags, `"1"`},
	"X-Amz-Copy-Source-If-Modified-Since":   {malformedDates, someDate},
	"X-Amz-Copy-Source-If-Unmodified-Since": {malformedDates, someDate},
}

const someDate = "Sat, 28 Nov 2026 19:20:00 GMT"

// ignoredByReads are ignored by reads if they are malformed (RFC 9110, sections 13.1.3 to 13.1.5).
var ignoredByReads = []string{"If-Modified-Since", "If-Unmodified-Since", "If-Range"}

// changingReads are GETs that change something: they allocate a user, or use up a link.
var changingReads = []string{"/1.0/sync/1.5", "/console/sign-in?link=unknown"}

type conditionWalk struct {
	*chargedWalk
	files     []*sqlite.Conn
	described map[string][]string // header parameters of described operations, by method and path
	hasBody   map[string]bool
	sent      int
}

// openConditions opens a server with every service and some data in each. sections are more sections of its configuration.
func openConditions(t *testing.T, sections ...string) *conditionWalk {
	t.Helper()
	w := &conditionWalk{chargedWalk: &chargedWalk{tokens: map[string]string{}, batch: someTenant}}
	w.walk = openWalk(t, "request_memory = 2000000000\nmax_requests = 64\nmaster_secret = \""+strings.Repeat("m", 32)+"\"", "[buckets]\nkey_secret = \""+someKey+"\"\n"+strings.Join(sections, ""))
	go w.app.checks.Run(t.Context(), w.app.now, w.app.checkRunning)
	w.authorize()
	s3 := func(method, path, body string) string {
		return w.must(&route{listener: buckets.Listener, method: method, path: path, body: body})
	}
	s3(http.MethodPut, "/photos-gone", "")
	s3(http.MethodPut, "/photos/tagged", "x")
	s3(http.MethodPut, "/photos/parts", "x")
	s3(http.MethodPut, "/photos/tagged-gone", "x")
	w.uploadID = regexp.MustCompile("<UploadId>(.*)</UploadId>").FindStringSubmatch(s3(http.MethodPost, "/photos/parts?uploads", ""))[1]
	w.must(&route{listener: service.Main, method: http.MethodPost, path: "/1.5/1/storage/bookmarks", body: records(3), media: jsonMedia})
	w.must(&route{listener: service.Main, method: http.MethodPut, path: "/ext/v1/installs/" + someInstall + "/namespaces/a/records/001", body: `{"value":1}`, media: jsonMedia})
	w.must(&route{listener: service.Main, method: http.MethodPatch, path: "/bff/consumer/v1/session/attributes", body: `{"theme":"dark"}`, media: jsonMedia})
	names, err := filepath.Glob(filepath.Join(w.app.data, "*.db"))
	if err != nil || len(names) < 4 {
		t.Fatalf("%v: only the databases %q", err, names)
	}
	for _, name := range names {
		c, err := sqlite.OpenConn(name, sqlite.OpenReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		w.files = append(w.files, c)
	}
	return w
}

// version changes when a database changes.
func (w *conditionWalk) version() (version string) {
	w.t.Helper()
	for _, c := range w.files {
		err := sqlitex.ExecuteTransient(c, "PRAGMA data_version", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			version += s.ColumnText(0) + " "
			return nil
		}})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return version
}

// do sends a request with more headers, and returns its status and body.
func (w *conditionWalk) do(r *route, more http.Header) (status int, body string) {
	w.t.Helper()
	req := w.request(r, false, nil)
	maps.Copy(req.Header, more)
	if more["X-Idempotency-Key"] != nil { // the older name
		req.Header.Del("Idempotency-Key")
	}
	if r.listener == buckets.Listener {
		w.sign(r, req) // S3 wants the new headers in the signature
	}
	rec := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				w.t.Errorf("%s with %v: %v", r, more, p)
			}
		}()
		w.listeners[r.listener].ServeHTTP(rec, req)
	}()
	w.sent++
	if rec.Code >= http.StatusInternalServerError && rec.Code != http.StatusNotImplemented && len(more) > 0 && r.method != http.MethodGet && r.path != errorPath {
		w.t.Errorf("%s with %v: status %d", r, more, rec.Code)
	}
	return rec.Code, rec.Body.String()
}

// mount returns the service that answers a route, or nil for the server's own paths.
func (w *conditionWalk) mount(r *route) *service.Mount {
	path, _, _ := strings.Cut(r.path, "?")
	for _, s := range w.app.opened {
		for i := range s.Mounts {
			if m := &s.Mounts[i]; m.Listener == r.listener && m.Owns(path) {
				return m
			}
		}
	}
	return nil
}

func (w *conditionWalk) declared(r *route) (c web.Conditions) {
	if m := w.mount(r); m != nil && m.Conditions != nil {
		path, _, _ := strings.Cut(r.path, "?")
		c = m.Conditions(w.request(r, false, nil), web.Address{Path: path})
	}
	return c
}

// TestConditionsOfEveryRoute sends every condition header with every malformed value to every route of every listener.
// A write is refused and changes nothing. A read refuses a header that it applies, and is otherwise answered as without the
// header.
func TestConditionsOfEveryRoute(t *testing.T) {
	testdb.CheckOnly(t, "thousands of requests; the conformance suites test the conditions of each operation")
	t.Parallel()
	w := openConditions(t)
	all := append(w.routes(), route{listener: service.Admin, method: http.MethodGet, path: "/console/sign-in?link=unknown"})
	w.readDescriptions()
	for i := range all {
		all[i].condition, all[i].body = "", w.bodyOf(&all[i])
	}
	slices.SortFunc(all, func(a, b route) int { return strings.Compare(a.String(), b.String()) })
	all = slices.CompactFunc(all, func(a, b route) bool { return a.String() == b.String() })
	all = append(all, operationsOfServices()...)
	w.wantEachRoute(all)
	for i := range all {
		r := &all[i]
		w.wantDescribed(r)
		if isRead := r.method == http.MethodGet || r.method == http.MethodHead; isRead && !slices.Contains(changingReads, r.path) {
			w.checkRead(r)
		} else {
			w.checkWrite(r)
		}
	}
	t.Logf("%d routes, %d requests", len(all), w.sent)
}

// operationsOfServices are the operations in the bodies of services' requests to extension storage.
func operationsOfServices() (all []route) {
	for operation, more := range map[string]string{
		"put": `,"key":"k","value":1`, "get": `,"key":"001"`, "list": "", "delete": `,"key":"001"`, "patch": `,"key":"001","patch":{}`,
		"increment": `,"key":"k","pointer":"","by":1`, "bulkPut": `,"items":[{"key":"k","value":1}]`,
	} {
		all = append(all, route{listener: service.Internal, method: http.MethodPost, path: "/internal/ext-storage/install/" + someInstall, media: jsonMedia,
			body: `{"operation":"` + operation + `","namespace":"a"` + more + `}`})
	}
	return all
}

// bodyOf returns a short valid body, so that only the condition is wrong.
func (w *conditionWalk) bodyOf(r *route) string {
	path, _, _ := strings.Cut(r.path, "?")
	switch {
	case r.listener == buckets.Listener, strings.HasPrefix(path, "/console"), strings.HasPrefix(path, "/buckets/v1/"):
		return r.body
	case strings.HasSuffix(path, "/increment"):
		return `{"pointer":"","by":1}`
	case strings.HasSuffix(path, "/batch"):
		return `{"ops":[{"op":"put","namespace":"a","key":"k","value":1}]}`
	case r.method == http.MethodPost && strings.HasSuffix(path, "/records"):
		return `{"items":[{"key":"k","value":1}]}`
	case strings.HasSuffix(path, "/consume"), strings.HasSuffix(path, "/verify"):
		return `{"token":"t"}`
	case strings.HasPrefix(path, "/internal/ext-storage/"):
		return `{"operation":"usage"}`
	case !w.hasBody[r.method+" "+path] && !strings.HasPrefix(path, "/1.5/"), r.method == http.MethodDelete:
		return ""
	case strings.HasPrefix(path, "/ext/"):
		return `{"value":1}`
	}
	return "{}"
}

func (w *conditionWalk) checkWrite(r *route) {
	w.t.Helper()
	declared, before := w.declared(r), w.version()
	for _, name := range web.ConditionHeaders {
		values := conditionValues[name].malformed
		if !declared.Checked && !slices.Contains(declared.Applied, name) { // the mux refuses all values
			values = [][]string{{conditionValues[name].valid}, {""}, values[len(values)-1]}
		}
		w.refuses(r, name, values)
	}
	for _, name := range w.described[r.method+" "+r.path] {
		if _, isKey := conditionValues[name]; isKey && !slices.Contains(web.ConditionHeaders, name) {
			w.refuses(r, name, conditionValues[name].malformed)
		}
	}
	if now := w.version(); now != before {
		w.t.Errorf("%s: a refused write changed a database", r)
	}
}

// refuses checks that a write is answered 400 for each value, or as an unknown path.
func (w *conditionWalk) refuses(r *route, name string, values [][]string) {
	w.t.Helper()
	for _, lines := range values {
		status, body := w.do(r, http.Header{name: lines})
		isOwn := w.lacks(r) && status >= http.StatusMultipleChoices || r.path == errorPath // the service's own error, or a redirect
		isS3 := r.listener == buckets.Listener && status == http.StatusNotImplemented
		// A sync error is a number, and an answer to HEAD has no body. An S3 form needs another content type.
		isSilent := strings.HasPrefix(r.path, "/1.5/") || r.method == http.MethodHead
		if r.listener == buckets.Listener && r.method == http.MethodPost && r.path == "/photos" && status == http.StatusMethodNotAllowed {
			continue
		}
		if status != http.StatusBadRequest && !isOwn && !isS3 {
			w.t.Errorf("%s with %s %q: status %d %.200s", r, name, lines, status, body)
		}
		named := strings.Contains(strings.ToLower(body), strings.ToLower(strings.TrimPrefix(name, "X-")))
		if !isOwn && !isSilent && !named {
			w.t.Errorf("%s with %s %q: the error does not name the header: %.200s", r, name, lines, body)
		}
	}
}

// lacks reports whether no service has a route for the path and method.
func (w *conditionWalk) lacks(r *route) bool {
	m := w.mount(r)
	path, _, _ := strings.Cut(r.path, "?")
	return m == nil || !slices.Contains(m.Routes, web.Route{Label: m.Route(path), Method: r.method})
}

// unknownRoutes returns, once for each label of every service, an unknown path and the methods that the path does not
// support.
func (w *conditionWalk) unknownRoutes() (all []route) {
	known := w.routes()
	has := func(r *route) bool {
		return slices.ContainsFunc(known, func(k route) bool { return k.String() == r.String() })
	}
	seen := map[string]bool{}
	for i := range known {
		path, _, _ := strings.Cut(known[i].path, "?")
		for _, path := range []string{path, strings.TrimSuffix(path, "/") + "/no/such/path", "/no/such/path"} {
			for _, method := range []string{"POST", "DELETE", "MERGE"} {
				r := route{listener: known[i].listener, method: method, path: path}
				isS3 := r.listener == buckets.Listener && method != "MERGE" // any path is a bucket or an object
				if isS3 || has(&r) || !w.lacks(&r) || path == errorPath {
					continue
				}
				label := fmt.Sprint(r.listener, method, strings.Contains(path, "/no/such/path"))
				if m := w.mount(&r); m != nil {
					label += m.Name + m.Route(path)
				} else if owner, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); owner != "" {
					label += owner
				}
				if !seen[label] {
					seen[label] = true
					all = append(all, r)
				}
			}
		}
	}
	return all
}

// TestConditionsOfUnknownRoutes checks for every service and every listener that a path that does not exist and a method
// that is not supported are answered with the service's own 404 or 405, whatever condition the request has.
func TestConditionsOfUnknownRoutes(t *testing.T) {
	t.Parallel()
	w := openConditions(t)
	all, before, mounts := w.unknownRoutes(), w.version(), map[*service.Mount]map[int]bool{}
	for i := range all {
		r := &all[i]
		plain, own := w.do(r, nil)
		if plain != http.StatusNotFound && plain != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d, want 404 or 405: %.200s", r, plain, own)
		}
		if m := w.mount(r); m != nil && mounts[m] == nil {
			mounts[m] = map[int]bool{plain: true}
		} else if m != nil {
			mounts[m][plain] = true
		}
		var wrong []string
		for _, name := range web.ConditionHeaders {
			if status, _ := w.do(r, http.Header{name: {conditionValues[name].valid}}); status != plain {
				wrong = append(wrong, fmt.Sprintf("%s: %d", name, status))
			}
		}
		if len(wrong) > 0 {
			t.Errorf("%s: want %d as without a condition, got %s", r, plain, strings.Join(wrong[:min(len(wrong), 3)], ", "))
		}
	}
	if now := w.version(); now != before {
		t.Error("a request to an unknown route changed a database")
	}
	for _, s := range w.app.opened {
		for i := range s.Mounts {
			if m := &s.Mounts[i]; len(mounts[m]) == 0 {
				t.Errorf("%s on the listener %s: no unknown path or method was walked", s.Name, m.Listener)
			}
		}
	}
	t.Logf("%d routes, %d requests", len(all), w.sent)
}

func (w *conditionWalk) checkRead(r *route) {
	w.t.Helper()
	declared := w.declared(r)
	plain, _ := w.do(r, nil)
	ignored := []http.Header{{}, {}, {}} // a valid, a blank and a malformed value of all headers that the route does not apply
	for _, name := range web.ConditionHeaders {
		values := conditionValues[name]
		isIgnored := slices.Contains(ignoredByReads, name)
		switch applied := slices.Contains(declared.Applied, name); {
		case applied && !isIgnored && !declared.Checked:
			// A read that fails anyway may ignore its conditions (RFC 9110, section 13.2.1).
			if status, _ := w.do(r, http.Header{name: {""}}); plain < 300 || status != plain {
				w.refuses(r, name, values.malformed)
			}
			continue
		case !applied && !declared.Checked:
			ignored[0][name] = []string{values.valid}
			fallthrough
		case isIgnored:
			ignored[1][name], ignored[2][name] = []string{""}, values.malformed[len(values.malformed)-1]
			continue
		}
		for _, lines := range values.malformed { // the handler knows whether it applies them
			if status, body := w.do(r, http.Header{name: lines}); status != plain && status != http.StatusBadRequest {
				w.t.Errorf("%s with %s %q: status %d, want %d as without it, or 400: %.200s", r, name, lines, status, plain, body)
			}
		}
	}
	for _, h := range ignored {
		if status, body := w.do(r, h); status != plain {
			w.t.Errorf("%s with %v: status %d, want %d as without: %.200s", r, h, status, plain, body)
		}
	}
}

// readDescriptions reads the header parameters of all described operations. A service that declares its conditions
// describes the same ones.
func (w *conditionWalk) readDescriptions() {
	w.t.Helper()
	w.described, w.hasBody = map[string][]string{}, map[string]bool{}
	type parameter struct {
		Ref  string `json:"$ref"`
		Name string `json:"name"`
		In   string `json:"in"`
	}
	for _, name := range describedAPIs {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			w.t.Fatal(err)
		}
		var document struct {
			Paths      map[string]map[string]json.RawMessage
			Components struct{ Parameters map[string]parameter }
		}
		if err := json.Unmarshal(text, &document); err != nil {
			w.t.Fatal(err)
		}
		for template, operations := range document.Paths {
			for method, raw := range operations {
				var operation struct {
					Parameters  []parameter
					RequestBody json.RawMessage
				}
				if method == "parameters" || json.Unmarshal(raw, &operation) != nil {
					continue
				}
				of := strings.ToUpper(method) + " " + strings.Replace(filler.Replace(template), "{batch}", w.batch, 1)
				w.hasBody[of] = operation.RequestBody != nil
				for _, p := range operation.Parameters {
					if shared, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
						p = document.Components.Parameters[shared]
					}
					if p.In == "header" {
						w.described[of] = append(w.described[of], http.CanonicalHeaderKey(p.Name))
					}
				}
			}
		}
	}
}

// wantDescribed compares the declared conditions of a route with its description.
func (w *conditionWalk) wantDescribed(r *route) {
	w.t.Helper()
	declared := w.declared(r)
	described, ok := w.described[r.method+" "+r.path]
	if !ok || declared.Checked {
		return
	}
	described = slices.DeleteFunc(slices.Clone(described), func(name string) bool { return !slices.Contains(web.ConditionHeaders, name) })
	slices.Sort(described)
	if applied := slices.Sorted(slices.Values(declared.Applied)); !slices.Equal(applied, described) {
		w.t.Errorf("%s applies %q, but its description has %q", r, applied, described)
	}
}

var conditionName = regexp.MustCompile(`"((?:X-|X-Amz-|X-Amz-Copy-Source-)?If(?:-[A-Z][A-Za-z]+)+|X-Idempotency-Key|Idempotency-Key)"`)

// TestConditionHeadersAreWalked checks that the walk has values for every condition header in the code.
func TestConditionHeadersAreWalked(t *testing.T) {
	t.Parallel()
	for _, name := range web.ConditionHeaders {
		if len(conditionValues[name].malformed) == 0 {
			t.Errorf("add malformed values of %s to conditionValues", name)
		}
	}
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range conditionName.FindAllSubmatch(text, -1) {
			name := string(match[1])
			found[name] = true
			if _, ok := conditionValues[name]; !ok {
				t.Errorf("%s reads %s: add it to web.ConditionHeaders, and its malformed values to conditionValues", path, name)
			}
		}
		return err
	})
	if err != nil || len(found) < 8 {
		t.Errorf("%v: only %q are found", err, slices.Sorted(maps.Keys(found)))
	}
}
