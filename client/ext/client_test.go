//test:unraced the race detector makes it ten times as slow

package ext_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client/ext"
	"holdfast/internal/openapitest"
	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

const tenant = "11111111-2222-4333-8444-555555555555"

// site is a server whose responses are validated against the API description.
type site struct {
	*binary.Server
	description *openapitest.Document
}

func start(t *testing.T, vars ...string) *site {
	t.Helper()
	text, err := os.ReadFile("../../internal/extstorage/httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	return &site{binary.Start(t, t.TempDir(), append(vars, "HOLDFAST_EXTSTORAGE__ENABLED=true",
		"HOLDFAST_EXTSTORAGE__DRY_RUN_TIME=1ns")...), d} // a dry run checks one record at a time
}

// wire is a transport that counts requests and can change responses.
type wire struct {
	next  http.RoundTripper
	sent  atomic.Int64
	spoil func(*http.Request, *http.Response) error // an error replaces the response; may be nil
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.sent.Add(1)
	resp, err := w.next.RoundTrip(r)
	if err != nil || w.spoil == nil {
		return resp, err
	}
	if err := w.spoil(r, resp); err != nil {
		_, _ = io.Copy(io.Discard, resp.Body) // wait until the server has processed it
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func (s *site) install(t *testing.T) (ext.Install, *wire) {
	t.Helper()
	id := uuid()
	token := s.Verb("ext", "tokens", "create", "--tenant", tenant, "--install", id, "--namespace", "settings=rw", "--namespace", "log=rw")
	return s.client(t, ext.StaticToken(strings.TrimSpace(token)), id)
}

func (s *site) client(t *testing.T, tokens ext.TokenSource, id string) (ext.Install, *wire) {
	t.Helper()
	c, err := ext.New(s.URL, tokens)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	w := &wire{next: &openapitest.Transport{Document: s.description, Next: transport, Report: func(err error) { t.Error(err) }}}
	c.HTTP = &http.Client{Transport: w}
	return c.Install(id), w
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func refused(t *testing.T, err error, code ext.ErrorCode) *ext.Error {
	t.Helper()
	e, ok := errors.AsType[*ext.Error](err)
	if !ok || !errors.Is(err, code) {
		t.Fatalf("%v, want %s", err, code)
	}
	return e
}

func TestClient(t *testing.T) {
	t.Parallel()
	s := start(t, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false")
	for name, test := range map[string]func(*testing.T, *site){
		"records": testRecords, "keys": testKeys, "list": testList, "numbers": testNumbers, "markup": testMarkup, "several": testSeveral, "batch": testBatch,
		"lost answers": testLostAnswers, "update": testUpdate, "changes": testChanges, "watch": testWatch, "schemas": testSchemas,
		"transfer": testTransfer, "tokens": testTokens, "usage": testUsage, "errors": testErrors,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func testErrors(t *testing.T, s *site) {
	in, _ := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	sc := must[ext.Schema](t)(settings.RegisterSchema(ctx, map[string]any{
		"type": "object", "required": []string{"id"}, "properties": map[string]any{"n": map[string]any{"maximum": json.Number("5.50")}},
	}))
	must[ext.Schema](t)(settings.SetSchemaStatus(ctx, sc.Version, ext.SchemaActive))
	_, err := settings.Put(ctx, "k", ext.Put{Value: map[string]any{"n": 6}})
	e := refused(t, err, ext.CodeValidationFailed)
	keyword, required, id := "maximum", "required", "id"
	want := []ext.SchemaFailure{
		{Pointer: "/value", Location: "", Missing: &id, Keyword: &required, Bound: json.RawMessage(`["id"]`), Message: "lacks a required member: id"},
		{Pointer: "/value/n", Location: "/n", Keyword: &keyword, Bound: json.RawMessage("5.5"), Message: "must be at most 5.5"},
	}
	if !reflect.DeepEqual(e.Failures, want) || e.Retryable || *e.Pointer != "/value" {
		t.Errorf("a schema: %+v", e.ErrorDetail)
	}
	_, err = settings.Put(ctx, "k", ext.Put{Value: map[string]any{"id": strings.Repeat("x", 70_000)}})
	if e := refused(t, err, ext.CodeLimitExceeded); e.Limit == nil || *e.Limit != 65_536 || e.Size == nil || *e.Size != 70_009 || *e.Pointer != "/value" || e.Failures != nil {
		t.Errorf("a limit: %+v", e.ErrorDetail)
	}
}

func testRecords(t *testing.T, s *site) {
	in, w := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	start := w.sent.Load()
	made, err := settings.Put(ctx, "theme", ext.Put{Value: map[string]any{"dark": true}, Metadata: map[string]string{"by": "me"}, TTL: time.Hour}, ext.IfAbsent())
	if err != nil || made.Revision != 1 || made.TTLExpiresAt == nil || made.TTLExpiresAt.Sub(made.CreatedAt) != time.Hour {
		t.Fatalf("made: %+v, %v", made, err)
	}
	rec := must[ext.Record](t)(settings.Get(ctx, "theme"))
	if string(rec.Value) != `{"dark":true}` || string(rec.Metadata) != `{"by":"me"}` || rec.Etag != made.Etag {
		t.Errorf("%+v", rec)
	}
	if _, err := settings.Get(ctx, "theme", ext.IfNoneMatch(made.Etag)); !errors.Is(err, ext.ErrNotModified) {
		t.Errorf("not modified: %v", err)
	}
	if sent := w.sent.Load() - start; sent != 3 {
		t.Errorf("sent: %d", sent)
	}
	if meta := must[ext.RecordMeta](t)(settings.Merge(ctx, "theme", map[string]any{"dark": nil, "font": "mono"}, ext.IfRevision(1))); meta.Revision != 2 {
		t.Errorf("merged: %+v", meta)
	}
	_, err = settings.Put(ctx, "theme", ext.Put{Value: 1}, ext.IfRevision(1))
	if e := refused(t, err, ext.CodeRevisionMismatch); e.Status != http.StatusConflict || e.CurrentRevision == nil || *e.CurrentRevision != 2 || e.RequestID == "" {
		t.Errorf("a precondition in the body: %+v", e)
	}
	_, err = settings.Put(ctx, "theme", ext.Put{Value: 1}, ext.IfMatch(made.Etag))
	if e := refused(t, err, ext.CodeRevisionMismatch); e.Status != http.StatusPreconditionFailed {
		t.Errorf("a precondition in a header: %+v", e)
	}
	_, err = settings.Get(ctx, "theme", ext.IfRevision(1))
	refused(t, err, ext.CodeRevisionMismatch)
	refused(t, settings.Delete(ctx, "theme", ext.IfRevision(1)), ext.CodeRevisionMismatch)
	_, err = settings.Put(ctx, "theme", ext.Put{Value: 1, TTL: time.Second})
	if e := refused(t, err, ext.CodeValidationFailed); e.Pointer == nil || *e.Pointer != "/ttlSeconds" || !strings.HasPrefix(e.Error(), "/ttlSeconds: ") {
		t.Errorf("a short time to live: %v", e)
	}
	for range 2 {
		if err := settings.Delete(ctx, "theme"); err != nil {
			t.Error(err)
		}
	}
	_, err = settings.Get(ctx, "theme")
	refused(t, err, ext.CodeNotFound)
	_, err = in.Records("another").Get(ctx, "theme")
	refused(t, err, ext.CodeNamespaceDenied)
	if _, err := settings.Put(ctx, "theme", ext.Put{Value: func() {}}); err == nil {
		t.Error("a value that is not JSON was accepted")
	}
}

func testKeys(t *testing.T, s *site) {
	in, _ := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	keys := []string{"..", ".", "a b?c#d", "100%", "%2e%2e", "é", "+", "\"", `\`}
	for _, key := range keys {
		must[ext.RecordMeta](t)(settings.Put(ctx, key, ext.Put{Value: key}))
		if rec, err := settings.Get(ctx, key); err != nil || rec.Key != key {
			t.Errorf("%q: %q, %v", key, rec.Key, err)
		}
	}
	var listed []string
	for item, err := range settings.List(ctx, ext.List{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, item.Key)
	}
	if slices.Sort(keys); !slices.Equal(listed, keys) {
		t.Errorf("listed: %q", listed)
	}
	_, err := settings.Get(ctx, "a/b")
	refused(t, err, ext.CodeValidationFailed)
}

// testMarkup checks that markup of the maximum size fits, because it is not escaped.
func testMarkup(t *testing.T, s *site) {
	in, _ := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	markup := strings.Repeat("<", 65_534)
	must[ext.RecordMeta](t)(settings.Put(ctx, "page", ext.Put{Value: markup, Metadata: map[string]string{"by": strings.Repeat("&", 4_000)}}))
	must[ext.RecordMeta](t)(settings.Merge(ctx, "page", markup))
	must[[]ext.BulkPutItem](t)(settings.BulkPut(ctx, must[ext.PutItem](t)(settings.Item("bulk", ext.Put{Value: markup}))))
	must[[]ext.OpResult](t)(in.Batch(ctx, settings.PutOp("batch", ext.Put{Value: markup})))
	to, _ := s.install(t)
	if done := must[ext.ImportResult](t)(to.Import(ctx, in.Export(ctx))); done.Written != 3 {
		t.Errorf("imported: %+v", done)
	}
	if rec := must[ext.Record](t)(to.Records("settings").Get(ctx, "bulk")); string(rec.Value) != `"`+markup+`"` {
		t.Errorf("the value is now %.20s", rec.Value)
	}
}

func testList(t *testing.T, s *site) {
	in, w := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	fill(t, settings, 45)
	before := w.sent.Load()
	var keys []string
	for item, err := range settings.List(ctx, ext.List{Prefix: "key", Reverse: true, Values: true, Page: 20}) {
		if err != nil {
			t.Fatal(err)
		}
		if string(item.Value) != `"`+item.Key+`"` || item.Metadata != nil {
			t.Errorf("%s: %s %s", item.Key, item.Value, item.Metadata)
		}
		keys = append(keys, item.Key)
	}
	if slices.Reverse(keys); len(keys) != 45 || !slices.IsSorted(keys) || w.sent.Load()-before != 3 {
		t.Errorf("in %d requests: %q", w.sent.Load()-before, keys)
	}
	for range settings.List(ctx, ext.List{Page: 10}) {
		break // a caller that stops sends no more requests
	}
	if w.sent.Load()-before != 4 {
		t.Errorf("%d requests", w.sent.Load()-before)
	}
	for _, err := range in.Records("another").List(ctx, ext.List{}) {
		refused(t, err, ext.CodeNamespaceDenied)
	}
}

// fill puts n records, each with its key in the value.
func fill(t *testing.T, r ext.Records, n int) {
	t.Helper()
	for from := 0; from < n; from += 20 {
		var items []ext.PutItem
		for i := from; i < min(from+20, n); i++ {
			key := fmt.Sprintf("key%03d", i)
			items = append(items, must[ext.PutItem](t)(r.Item(key, ext.Put{Value: key})))
		}
		must[[]ext.BulkPutItem](t)(r.BulkPut(t.Context(), items...))
	}
}

func testNumbers(t *testing.T, s *site) {
	in, _ := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	big := "123456789012345678901234567890.1"
	result := must[ext.IncrementResult](t)(settings.Increment(ctx, "visits", ext.Increment{Pointer: "/n", By: "123456789012345678901234567890.1", Create: true}))
	if result.Sum.String() != big || result.Revision != 1 {
		t.Errorf("%+v", result)
	}
	_, err := settings.Increment(ctx, "visits", ext.Increment{Pointer: "/n", By: "1", Max: "10"})
	if e := refused(t, err, ext.CodeBoundReached); e.Status != http.StatusConflict || *e.Pointer != "/max" || e.Retryable {
		t.Errorf("beyond the maximum: %+v", e.ErrorDetail)
	}
	_, err = settings.Increment(ctx, "visits", ext.Increment{Pointer: "/n", By: "1", Min: "0"}, ext.IfRevision(7))
	refused(t, err, ext.CodeRevisionMismatch)
	_, err = settings.Increment(ctx, "nobody", ext.Increment{By: "1"})
	refused(t, err, ext.CodeNotFound)
	if done, err := settings.Increment(ctx, "visits", ext.Increment{Pointer: "/n"}); err == nil {
		t.Errorf("an increment by nothing: %+v", done)
	}
}

func testSeveral(t *testing.T, s *site) {
	in, _ := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	item := func(key string, p ext.Put, precondition ...ext.Precondition) ext.PutItem {
		return must[ext.PutItem](t)(settings.Item(key, p, precondition...))
	}
	made := must[[]ext.BulkPutItem](t)(settings.BulkPut(ctx, item("a", ext.Put{Value: 1}), item("b", ext.Put{Value: 2}, ext.IfAbsent())))
	if len(made) != 2 || made[1].Key != "b" || !made[1].Created {
		t.Errorf("%+v", made)
	}
	_, err := settings.BulkPut(ctx, item("c", ext.Put{Value: 1}), item("b", ext.Put{Value: 2}, ext.IfAbsent()))
	e := refused(t, err, ext.CodeBulkPartialFailure)
	if !errors.Is(err, ext.CodeRevisionMismatch) || *e.Index != 1 || *e.CurrentRevision != 1 {
		t.Errorf("%+v", e)
	}
	_, err = settings.Get(ctx, "c")
	refused(t, err, ext.CodeNotFound)
	if _, err := settings.Item("a", ext.Put{}, ext.IfNoneMatch(made[0].Etag)); err == nil {
		t.Error("an item accepted IfNoneMatch")
	}
}

func testBatch(t *testing.T, s *site) {
	in, w := s.install(t)
	settings, log, ctx := in.Records("settings"), in.Records("log"), t.Context()
	results := must[[]ext.OpResult](t)(in.Batch(ctx,
		settings.PutOp("theme", ext.Put{Value: true, Metadata: struct{}{}, TTL: time.Minute}, ext.IfAbsent()),
		log.IncrementOp("writes", ext.Increment{By: "2", Min: "0", Max: "9", Create: true}),
		settings.DeleteOp("nothing"),
		settings.CheckOp("nothing", ext.IfAbsent()),
	))
	if len(results) != 4 || !results[0].Created || results[0].TTLExpiresAt == nil || results[1].Sum != "2" || results[1].Namespace != "log" ||
		results[2].Existed || results[3].Op != "check" || results[3].Etag != "" {
		t.Errorf("%+v", results)
	}
	_, err := in.Batch(ctx, log.DeleteOp("writes"), settings.CheckOp("theme", ext.IfRevision(4)))
	if e := refused(t, err, ext.CodeRevisionMismatch); *e.Index != 1 {
		t.Errorf("%+v", e)
	}
	must[ext.Record](t)(log.Get(ctx, "writes"))
	before := w.sent.Load()
	for _, bad := range []ext.Op{settings.PutOp("a", ext.Put{Value: make(chan int)}), settings.DeleteOp("a", ext.IfNoneMatch("*"))} {
		if _, err := in.Batch(ctx, bad); err == nil || w.sent.Load() != before {
			t.Errorf("an operation that cannot be made: %v", err)
		}
	}
}

var errLost = errors.New("the response is lost")

// testLostAnswers checks that the client repeats safe requests after a lost response.
func testLostAnswers(t *testing.T, s *site) {
	in, w := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	lose := atomic.Int64{}
	w.spoil = func(*http.Request, *http.Response) error {
		if lose.Add(-1) >= 0 {
			return errLost
		}
		return nil
	}
	for _, c := range []struct {
		name string
		do   func() error
		once bool
	}{
		{name: "increment", do: func() error {
			result, err := settings.Increment(ctx, "n", ext.Increment{By: "1", Create: true})
			if err == nil && result.Sum.String() != "1" {
				err = fmt.Errorf("it was done twice: %s", result.Sum)
			}
			return err
		}},
		{name: "batch", do: func() error {
			results, err := in.Batch(ctx, settings.IncrementOp("n", ext.Increment{By: "1"}))
			if err == nil && results[0].Sum != "2" {
				err = fmt.Errorf("it was done twice: %s", results[0].Sum)
			}
			return err
		}},
		{name: "put", do: func() error { _, err := settings.Put(ctx, "a", ext.Put{Value: 1}); return err }},
		{name: "guarded put", once: true, do: func() error { _, err := settings.Put(ctx, "b", ext.Put{Value: 1}, ext.IfAbsent()); return err }},
		{name: "merge", once: true, do: func() error { _, err := settings.Merge(ctx, "a", 1); return err }},
		{name: "get", do: func() error { _, err := settings.Get(ctx, "b"); return err }},
		{name: "delete", do: func() error { return settings.Delete(ctx, "b") }},
		{name: "guarded delete", once: true, do: func() error { return settings.Delete(ctx, "a", ext.IfPresent()) }},
	} {
		before := w.sent.Load()
		lose.Store(1)
		err := c.do()
		sent := w.sent.Load() - before
		if c.once && (sent != 1 || !errors.Is(err, errLost)) || !c.once && (sent != 2 || err != nil) {
			t.Errorf("%s: sent %d times, %v", c.name, sent, err)
		}
	}
	lose.Store(100)
	before := w.sent.Load()
	if _, err := settings.Get(ctx, "a"); !errors.Is(err, errLost) || w.sent.Load()-before != 5 {
		t.Errorf("it gives up after %d: %v", w.sent.Load()-before, err)
	}
}

func testUsage(t *testing.T, s *site) {
	in, _ := s.install(t)
	must[ext.RecordMeta](t)(in.Records("log").Put(t.Context(), "a", ext.Put{Value: "four"}))
	u := must[ext.Usage](t)(in.Usage(t.Context()))
	if u.Keys.Used != 1 || u.Bytes.Used != int64(len(`"four"{}`)) || u.Namespaces.Limit != 32 || len(u.ByNamespace) != 1 || len(u.Warnings) != 0 {
		t.Errorf("%+v", u)
	}
	if list := must[[]ext.NamespaceUsage](t)(in.Namespaces(t.Context())); len(list) != 1 || list[0].Namespace != "log" || list[0].Keys != 1 {
		t.Errorf("%+v", list)
	}
}

func testTokens(t *testing.T, s *site) {
	for url, want := range map[string]string{
		"":                                   "expected http:// or https://",
		"holdfast.example.org":               "expected http:// or https://",
		"127.0.0.1:8000":                     "expected http:// or https://",
		"localhost:8000":                     "expected http:// or https://",
		"https://h.example/?a=b":             "no query",
		"https://h.example/p/ext/v1":         "remove /ext/v1 and what follows; expected https://h.example/p",
		s.URL + "/ext/v1/installs/" + uuid(): "remove /ext/v1 and what follows; expected " + s.URL,
	} {
		if _, err := ext.New(url, ext.StaticToken("t")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q): %v, want %q", url, err, want)
		}
	}
	if _, err := ext.New(s.URL, nil); err == nil {
		t.Error("New accepted nil as tokens")
	}
	in, w := s.client(t, ext.StaticToken("nobody's"), uuid())
	_, err := in.Usage(t.Context())
	if refused(t, err, ext.CodeUnauthenticated); w.sent.Load() != 1 {
		t.Errorf("it was asked %d times", w.sent.Load())
	}
	errSource := errors.New("no token today")
	in, w = s.client(t, func(context.Context) (string, error) { return "", errSource }, uuid())
	if _, err := in.Usage(t.Context()); !errors.Is(err, errSource) || w.sent.Load() != 0 {
		t.Errorf("%v after %d requests", err, w.sent.Load())
	}
}

// TestTrouble covers error responses from a proxy, and waits longer than MaxWait.
func TestTrouble(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if sent.Add(1) == 1 {
			http.Error(w, "<h1>Bad Gateway</h1>", http.StatusBadGateway)
			return
		}
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"code":"UNAVAILABLE","message":"the server is being moved","requestId":"r"}}`)
	}))
	defer proxy.Close()
	c := must[*ext.Client](t)(ext.New(proxy.URL+"/", ext.StaticToken("t")))
	settings := c.Install(uuid()).Records("settings")
	_, err := settings.Put(t.Context(), "a", ext.Put{}, ext.IfAbsent())
	if e, ok := errors.AsType[*ext.Error](err); !ok || e.Status != http.StatusBadGateway || e.Code != "" || e.Error() != "Bad Gateway (502)" || sent.Load() != 1 {
		t.Errorf("after %d requests: %v", sent.Load(), err)
	}
	sent.Store(0)
	_, err = settings.Get(t.Context(), "a")
	if e := refused(t, err, ext.CodeUnavailable); e.RetryAfter != time.Hour || sent.Load() != 2 {
		t.Errorf("after %d requests: %+v", sent.Load(), e)
	}
	c.MaxWait = 2 * time.Hour
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	c.HTTP = &http.Client{Transport: &wire{next: http.DefaultTransport, spoil: func(_ *http.Request, resp *http.Response) error {
		resp.Body = taken{resp.Body, func() { time.AfterFunc(20*time.Millisecond, leave) }}
		return nil
	}}}
	_, err = settings.Get(ctx, "a")
	refused(t, err, ext.CodeUnavailable)
}

type taken struct {
	io.ReadCloser
	told func()
}

func (b taken) Close() error {
	defer b.told()
	return b.ReadCloser.Close()
}

// TestWatchRests checks that Watch backs off if the server answers immediately.
func TestWatchRests(t *testing.T) {
	t.Parallel()
	const asks = 4
	var sent atomic.Int64
	ctx, leave := context.WithTimeout(t.Context(), binary.Bound)
	defer leave()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if sent.Add(1) == asks {
			leave()
		}
		_, _ = io.WriteString(w, `{"changes":[],"nextSince":7}`)
	}))
	defer busy.Close()
	c := must[*ext.Client](t)(ext.New(busy.URL, ext.StaticToken("t")))
	began := time.Now()
	for _, err := range c.Install(uuid()).Watch(ctx, 7) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	}
	// The waits start at 50 ms or more and double.
	if n, took := sent.Load(), time.Since(began); n != asks || took < 350*time.Millisecond {
		t.Errorf("%d requests in %v", n, took)
	}
}

func TestExample(t *testing.T) {
	s, id := start(t), uuid()
	t.Setenv("STORAGE_URL", s.URL)
	t.Setenv("STORAGE_INSTALL", id)
	t.Setenv("STORAGE_TOKEN", strings.TrimSpace(s.Verb("ext", "tokens", "create", "--tenant", tenant, "--install", id, "--namespace", "settings=rw")))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	Example()
	os.Stdout = stdout
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := "revision 1\nrefused: the revision is 2\ntheme {\"dark\":true,\"font\":\"mono\"}\n"
	if out, err := io.ReadAll(r); err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	s := start(t, "HOLDFAST_EXTSTORAGE__RATES__WRITE_BURST=1", "HOLDFAST_EXTSTORAGE__RATES__WRITES_PER_MINUTE=60")
	id := uuid()
	token := s.Verb("ext", "tokens", "create", "--tenant", tenant, "--install", id, "--namespace", "settings=rw")
	in, w := s.client(t, ext.StaticToken(strings.TrimSpace(token)), id)
	settings := in.Records("settings")
	// Only a rate limit makes the client retry these writes. The second or, on a slow machine, a later write exceeds it.
	done := int64(0)
	for done == w.sent.Load() && done < 10 {
		must[ext.RecordMeta](t)(settings.Put(t.Context(), "a", ext.Put{Value: done}, ext.IfRevision(done)))
		done++
	}
	if sent := w.sent.Load(); sent != done+1 {
		t.Errorf("%d requests for %d writes", sent, done)
	}
}
