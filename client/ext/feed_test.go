package ext_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/client/ext"
)

func testChanges(t *testing.T, s *site) {
	in, _ := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	if latest := must[int64](t)(in.Latest(ctx)); latest != 0 {
		t.Errorf("nothing has happened yet, and the latest is %d", latest)
	}
	fill(t, settings, 3)
	list := must[ext.ChangeList](t)(in.Changes(ctx, ext.ChangesQuery{Since: 1, Limit: 1}))
	if len(list.Changes) != 1 || list.Changes[0].Key != "key001" || list.Changes[0].Op != ext.ChangePut || list.NextSince != 2 {
		t.Errorf("%+v", list)
	}
	if latest := must[int64](t)(in.Latest(ctx)); latest != 3 {
		t.Errorf("the latest is %d", latest)
	}
	_, err := in.Changes(ctx, ext.ChangesQuery{Since: 99})
	refused(t, err, ext.CodeChangesExpired)
}

// testWatch checks that Watch yields each change once, in order, despite lost responses.
func testWatch(t *testing.T, s *site) {
	in, w := s.install(t)
	settings := in.Records("settings")
	var questions atomic.Int64
	w.spoil = func(r *http.Request, _ *http.Response) error {
		if strings.HasSuffix(r.URL.Path, "/changes") && questions.Add(1)%2 == 0 {
			return errLost
		}
		return nil
	}
	must[ext.RecordMeta](t)(settings.Put(t.Context(), "a", ext.Put{Value: 0}))
	const n = 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seqs []int64
	var last error
	for change, err := range in.Watch(ctx, 0) {
		if err != nil {
			last = err
			break
		}
		seqs = append(seqs, change.Seq)
		if len(seqs) == n {
			cancel()
		}
		if len(seqs) < n { // the next request waits for it
			must[ext.RecordMeta](t)(settings.Put(t.Context(), "a", ext.Put{Value: len(seqs)}))
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("it ends with %v", last)
	}
	want := make([]int64, n)
	for i := range want {
		want[i] = int64(i + 1)
	}
	if !slices.Equal(seqs, want) {
		t.Errorf("seen: %v", seqs)
	}
	for _, err := range in.Watch(t.Context(), 99) {
		refused(t, err, ext.CodeChangesExpired)
	}
}

func testSchemas(t *testing.T, s *site) {
	in, _ := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	const records = 12
	for i := range records {
		must[ext.RecordMeta](t)(settings.Put(ctx, fmt.Sprintf("old%02d", i), ext.Put{Value: map[string]any{}}))
	}
	document := json.RawMessage(`{"type":"object","required":["dark"]}`)
	report := must[ext.SchemaReport](t)(settings.CheckSchema(ctx, document))
	if report.ActiveVersion != nil || report.Records.Checked != records || report.Records.Failed != records ||
		len(report.Records.FirstFailures) != 10 || report.Records.FirstFailures[9].Key != "old09" || report.Records.NextCursor != nil {
		t.Errorf("%+v", report)
	}
	made := must[ext.Schema](t)(settings.RegisterSchema(ctx, document))
	if made.Version != 1 || made.Status != ext.SchemaDraft {
		t.Errorf("%+v", made)
	}
	must[ext.SchemaReport](t)(settings.CheckSchemaVersion(ctx, made.Version))
	if active := must[ext.Schema](t)(settings.SetSchemaStatus(ctx, made.Version, ext.SchemaActive)); active.Status != ext.SchemaActive {
		t.Errorf("%+v", active)
	}
	_, err := settings.Put(ctx, "new", ext.Put{Value: map[string]any{}})
	refused(t, err, ext.CodeValidationFailed)
	must[ext.RecordMeta](t)(settings.Put(ctx, "new", ext.Put{Value: map[string]any{"dark": 1}, SchemaVersion: 1}))
	for range 30 { // more than one page
		must[ext.Schema](t)(settings.RegisterSchema(ctx, document))
	}
	want := int32(31)
	for s, err := range settings.Schemas(ctx) {
		if err != nil || s.Version != want {
			t.Errorf("version %d, %v, want %d", s.Version, err, want)
		}
		want--
	}
	if want != 0 {
		t.Errorf("the list ended before version %d", want)
	}
	if page := must[ext.SchemaList](t)(settings.SchemaPage(ctx, 2, "")); len(page.Schemas) != 2 || page.NextCursor == nil {
		t.Errorf("%+v", page)
	}
	_, err = settings.Schema(ctx, 77)
	refused(t, err, ext.CodeNotFound)
	if _, err := settings.RegisterSchema(ctx, "no schema"); !errors.Is(err, ext.CodeValidationFailed) {
		t.Errorf("not a schema: %v", err)
	}
}

// testTransfer checks that an export resumes after a lost connection, and that an import writes the same records.
func testTransfer(t *testing.T, s *site) {
	from, w := s.install(t)
	to, _ := s.install(t)
	settings, ctx := from.Records("settings"), t.Context()
	fill(t, settings, 250)
	var exports atomic.Int64
	w.spoil = func(r *http.Request, resp *http.Response) error {
		if !strings.HasSuffix(r.URL.Path, "/export") || exports.Add(1) > 2 {
			return nil
		}
		whole, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(whole[:len(whole)/2]))
		return err
	}
	var keys []string
	for rec, err := range from.Export(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, rec.Key)
	}
	if len(keys) != 250 || !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != 250 || exports.Load() != 3 {
		t.Errorf("exported in %d requests: %q", exports.Load(), keys)
	}
	done := must[ext.ImportResult](t)(to.Import(ctx, from.Export(ctx)))
	if done.Written != 250 || done.Unchanged != 0 {
		t.Errorf("%+v", done)
	}
	if done := must[ext.ImportResult](t)(to.Import(ctx, from.Export(ctx))); done.Unchanged != 250 {
		t.Errorf("idempotent: %+v", done)
	}
	a, b := must[ext.Record](t)(settings.Get(ctx, "key007")), must[ext.Record](t)(to.Records("settings").Get(ctx, "key007"))
	if !bytes.Equal(a.Value, b.Value) {
		t.Errorf("%s is now %s", a.Value, b.Value)
	}

	bad := func(yield func(ext.Record, error) bool) {
		_ = yield(a, nil) && yield(ext.Record{Namespace: "another", Key: "a", Value: json.RawMessage("1")}, nil)
	}
	_, err := to.Import(ctx, bad)
	if e := refused(t, err, ext.CodeNamespaceDenied); *e.Index != 1 {
		t.Errorf("%+v", e)
	}
	errSource := errors.New("no more")
	if _, err := to.Import(ctx, func(yield func(ext.Record, error) bool) { yield(ext.Record{}, errSource) }); !errors.Is(err, errSource) {
		t.Errorf("records that fail: %v", err)
	}
}
