package extstorage_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// TestChangesWait checks that a client sees a change from this process immediately, and from another process after the
// polling interval.
func TestChangesWait(t *testing.T) {
	t.Parallel()
	asleep, tick := make(chan time.Duration), make(chan time.Time)
	m := newService(t, func(o *ext.Options) {
		o.After = func(d time.Duration) <-chan time.Time {
			asleep <- d
			return tick
		}
	})
	type answer struct {
		feed ext.Feed
		err  error
	}
	ask := func(since ext.Seq) <-chan answer {
		c := make(chan answer, 1)
		go func() {
			f, err := m.Changes(t.Context(), m.r, since, 10, time.Minute)
			c <- answer{f, err}
		}()
		return c
	}
	waiting := ask(0)
	if d := <-asleep; d != time.Second {
		t.Errorf("it looks again after %v", d)
	}
	m.do(t, task(ext.PutTask, "k", "1"))
	if got := <-waiting; got.err != nil || got.feed.Last != 1 || len(got.feed.Changes) != 1 {
		t.Errorf("own change: %+v", got)
	}

	waiting = ask(1)
	<-asleep
	w := ext.Write{Now: ext.At(m.clock.Now()), Quota: ext.DefaultQuota(), Ops: []ext.Op{
		{Namespace: "hidden", Key: "k", Value: "1", Metadata: canonjson.EmptyObject}, {Namespace: "c", Key: "k", Value: "1", Metadata: canonjson.EmptyObject},
	}}
	if _, err := m.store.Apply(t.Context(), m.r.Grant.Owner, w); err != nil { // like another process
		t.Fatal(err)
	}
	tick <- time.Time{}
	if got := <-waiting; got.err != nil || got.feed.Last != 3 || len(got.feed.Changes) != 1 || got.feed.Changes[0].Namespace != "c" {
		t.Errorf("another's change: %+v", got)
	}

	waiting = ask(3)
	<-asleep
	m.clock.Advance(time.Minute)
	tick <- time.Time{}
	if got := <-waiting; got.err != nil || got.feed.Last != 3 || len(got.feed.Changes) != 0 {
		t.Errorf("nothing: %+v", got)
	}

	revoked := func(by string) {
		t.Helper()
		if got := <-waiting; !errors.Is(got.err, ext.ErrRevoked) {
			t.Errorf("revoked %s while it waits: %+v", by, got)
		}
	}
	o := m.r.Grant.Owner
	waiting = ask(3)
	<-asleep
	if err := m.RevokeInstall(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	revoked("here")
	if _, _, err := m.RegisterInstall(t.Context(), o, ext.Registration{}, true); err != nil {
		t.Fatal(err)
	}
	waiting = ask(3)
	<-asleep
	if err := m.store.RevokeInstall(t.Context(), o, ext.At(m.clock.Now())); err != nil {
		t.Fatal(err)
	}
	m.clock.Advance(time.Second)
	tick <- time.Time{}
	revoked("by another process")
}

func TestChangesBounds(t *testing.T) {
	t.Parallel()
	m := newService(t)
	for pointer, ask := range map[string]func() error{
		"/limit": func() error { _, err := m.Changes(t.Context(), m.r, 0, -1, 0); return err },
		"/since": func() error { _, err := m.Changes(t.Context(), m.r, -1, 1, 0); return err },
		"/wait":  func() error { _, err := m.Changes(t.Context(), m.r, 0, 1, 61*time.Second); return err },
	} {
		wantPlace(t, pointer, ask(), pointer)
	}
	if _, err := m.Changes(t.Context(), m.r, 5, 1, 0); !errors.Is(err, ext.ErrChangesGone) {
		t.Errorf("a number that was never given out: %v", err)
	}
}

func TestChangesBegin(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.do(t, task(ext.PutTask, "k", "1"))
	m.do(t, task(ext.DeleteTask, "k", ""))
	m.clock.Advance(ext.ChangesKept + ext.DefaultConfig().SweepAfter + time.Second)
	if n, err := m.Sweep(t.Context(), ext.SweptChanges, m.clock.Now(), 10); err != nil || n != 2 {
		t.Fatalf("%d swept, %v", n, err)
	}
	for since := range ext.Seq(2) {
		if _, err := m.Changes(t.Context(), m.r, since, 1, 0); !errors.Is(err, ext.ErrChangesGone) {
			t.Errorf("since %d: %v", since, err)
		}
	}
	begin, err := m.Changes(t.Context(), m.r, 0, 0, 0)
	if err != nil || begin.Last != 2 || len(begin.Changes) != 0 {
		t.Fatalf("%+v, %v", begin, err)
	}
	m.do(t, task(ext.PutTask, "k", "2"))
	if feed, err := m.Changes(t.Context(), m.r, begin.Last, 1, 0); err != nil || feed.Last != 3 || len(feed.Changes) != 1 {
		t.Errorf("%+v, %v", feed, err)
	}
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.activate(t, `{"type":"integer"}`)
	for i := range 130 {
		m.do(t, task(ext.PutTask, fmt.Sprintf("k%03d", i), fmt.Sprint(i)))
	}
	if _, err := m.Do(t.Context(), m.r, ext.Task{Namespace: "b", Key: "k", Value: "500"}); err != nil {
		t.Fatal(err)
	}
	report, err := m.CheckSchema(t.Context(), m.r, "a", []byte(`{"type":"integer","maximum":99}`), "")
	run := report.DryRun
	if err != nil || report.Active != 1 || report.Compatibility.Effect != "breaking" ||
		run.Checked != 130 || run.Failed != 30 || len(run.First) != 10 || run.First[0].Key != "k100" || run.First[0].Revision != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if all, _, err := m.Schemas(t.Context(), m.r, "a", "", 9); err != nil || len(all) != 1 {
		t.Errorf("it was registered: %v, %v", all, err)
	}
	if _, err := m.CheckVersion(t.Context(), m.r, "a", 2, ""); !errors.Is(err, ext.ErrNoSchema) {
		t.Errorf("a version that is not there: %v", err)
	}
	if report, err := m.CheckVersion(t.Context(), m.r, "a", 1, ""); err != nil || report.DryRun.Failed != 0 || report.Compatibility.Effect != "harmless" {
		t.Errorf("%+v, %v", report, err)
	}
	_, err = m.RegisterSchema(t.Context(), m.r, "a", []byte(`{"properties":{"x":{"type":"nothing"}}}`))
	wantPlace(t, "no schema", err, "/properties/x/type")
}

type slowClock struct {
	validator
	clock func() *clock.Manual
	each  time.Duration
}

func (j slowClock) Validate(ctx context.Context, of ext.TenantID, document []byte, v canonjson.Value) error {
	j.clock().Advance(j.each)
	return j.validator.Validate(ctx, of, document, v)
}

// TestDryRunInPieces checks that a dry run continues after its time limit, only for the same document, and that each
// part checks at least one record.
func TestDryRunInPieces(t *testing.T) {
	t.Parallel()
	const limit, records, small = 20 * time.Second, 130, 50
	document := fmt.Appendf(nil, `{"maximum":%d}`, small-1)
	for _, c := range []struct {
		each   time.Duration
		pieces int
	}{{0, 1}, {limit / 130, 1}, {limit / 100, 2}, {limit / 7, 17}, {limit, records}, {time.Hour, records}} {
		var m *service
		m = newService(t, func(o *ext.Options) {
			o.Config.DryRunTime = limit
			o.Validators = slowClock{newValidator(), func() *clock.Manual { return m.clock }, c.each}
		})
		for i := range records {
			m.do(t, task(ext.PutTask, fmt.Sprintf("k%03d", i), fmt.Sprint(i)))
		}
		if _, err := m.Do(t.Context(), m.r, ext.Task{Namespace: "b", Key: "k", Value: "500"}); err != nil {
			t.Fatal(err)
		}
		checked, failed, pieces, cursor := 0, 0, 0, ""
		for more := true; more; more = cursor != "" {
			report, err := m.CheckSchema(t.Context(), m.r, "a", document, cursor)
			run := report.DryRun
			if err != nil || run.Checked == 0 {
				t.Fatalf("%v, piece %d: %+v, %v", c.each, pieces, report, err)
			}
			if failed == 0 && run.Failed > 0 && string(run.First[0].Key) != fmt.Sprintf("k%03d", small) {
				t.Errorf("%v: the first failure is %+v", c.each, run.First[0])
			}
			checked, failed, cursor = checked+run.Checked, failed+run.Failed, run.Next
			if pieces++; cursor != "" {
				_, err = m.CheckSchema(t.Context(), m.r, "a", []byte(`{"maximum":7}`), cursor)
				wantPlace(t, "another document", err, "/cursor")
				_, err = m.CheckSchema(t.Context(), m.r, "b", document, cursor)
				wantPlace(t, "another namespace", err, "/cursor")
			}
		}
		if checked != records || failed != records-small || pieces != c.pieces {
			t.Errorf("%v for each: %d checked, %d failed, %d pieces, want %d, %d, %d", c.each, checked, failed, pieces, records, records-small, c.pieces)
		}
	}
}

type outOfTime struct {
	context.Context
	done chan struct{}
}

func (c outOfTime) Done() <-chan struct{} { return c.done }

func (c outOfTime) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

type endingValidator struct {
	validator
	done chan struct{}
	n    *int
}

func (j endingValidator) Validate(ctx context.Context, of ext.TenantID, document []byte, v canonjson.Value) error {
	err := j.validator.Validate(ctx, of, document, v)
	if *j.n++; *j.n == 3 {
		close(j.done)
	}
	return err
}

func TestDryRunOutOfTime(t *testing.T) {
	t.Parallel()
	done, n := make(chan struct{}), 0
	m := newService(t, func(o *ext.Options) { o.Validators = endingValidator{newValidator(), done, &n} })
	for i := range 10 {
		m.do(t, task(ext.PutTask, fmt.Sprint("k", i), fmt.Sprint(i)))
	}
	report, err := m.CheckSchema(outOfTime{t.Context(), done}, m.r, "a", []byte(`{"maximum":5}`), "")
	if err != nil || report.DryRun.Checked != 3 || report.DryRun.Next == "" {
		t.Fatalf("%+v, %v", report, err)
	}
	report, err = m.CheckSchema(t.Context(), m.r, "a", []byte(`{"maximum":5}`), report.DryRun.Next)
	if err != nil || report.DryRun.Checked != 7 || report.DryRun.Failed != 4 || report.DryRun.Next != "" {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestOldSchemas checks that a schema registered under other limits causes a clear error, and can be replaced.
func TestOldSchemas(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.do(t, task(ext.PutTask, "k", `"x"`))
	o, now := m.r.Grant.Owner, ext.At(m.clock.Now())
	const wide = `{"items":{"pattern":"^[a-z\\p{L}]{900}x0"}}`
	sc, err := m.store.Register(t.Context(), o, ext.Schema{Namespace: "a", Document: []byte(wide), CreatedAt: now}, ext.DefaultQuota())
	if err == nil {
		_, err = m.store.SetStatus(t.Context(), o, ext.SchemaID{Namespace: "a", Version: sc.Version}, ext.Active, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Do(t.Context(), m.r, task(ext.PutTask, "k", `"y"`))
	if !errcode.Is(err, errcode.Invalid) || !strings.Contains(fmt.Sprint(err), "500000 ranges") || !strings.Contains(fmt.Sprint(err), "activate another version or deprecate it") {
		t.Errorf("a put: %v", err)
	}
	m.wantValue(t, "k", `"x"`)
	_, err = m.CheckVersion(t.Context(), m.r, "a", sc.Version, "")
	wantPlace(t, "a dry run of it", err, "/schema/items/pattern")
	report, err := m.CheckSchema(t.Context(), m.r, "a", []byte(`{"type":"string"}`), "")
	if err != nil || report.Compatibility.Effect != "unknown" || len(report.Compatibility.Changes) != 1 || report.DryRun.Checked != 1 {
		t.Errorf("a dry run of another: %+v, %v", report, err)
	}
	if _, err := m.SetSchema(t.Context(), m.r, "a", sc.Version, ext.Deprecated); err != nil {
		t.Errorf("deprecating it: %v", err)
	}
	m.do(t, task(ext.PutTask, "k", `"z"`))
	_, err = m.SetSchema(t.Context(), m.r, "a", sc.Version, ext.Active)
	wantPlace(t, "activating it again", err, "/status")
}

type slowValidator struct {
	validator
	begun, goOn chan struct{}
}

func (j slowValidator) Validate(ctx context.Context, of ext.TenantID, document []byte, v canonjson.Value) error {
	j.begun <- struct{}{}
	<-j.goOn
	return j.validator.Validate(ctx, of, document, v)
}

type waitingSlot chan struct{}

func (s waitingSlot) Without(wait func() error) error {
	s <- struct{}{}
	return wait()
}

// TestSchemasTakeTurns checks that a tenant's dry runs wait for each other without their slots, and not for other
// tenants. A dry run ends with its request, even within a page.
func TestSchemasTakeTurns(t *testing.T) {
	t.Parallel()
	slow := slowValidator{newValidator(), make(chan struct{}), make(chan struct{})}
	m := newService(t, func(o *ext.Options) { o.Validators = slow })
	for i := range 3 {
		m.do(t, task(ext.PutTask, fmt.Sprint("k", i), "1"))
	}
	other := m.r
	other.Grant.Owner.Tenant = "00000000-0000-4000-8000-000000000001"
	put := task(ext.PutTask, "k", "1")
	if _, err := m.Do(t.Context(), other, put); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	check := func(ctx context.Context, r ext.Request) {
		_, err := m.CheckSchema(ctx, r, "a", []byte(`true`), "")
		ended <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	go check(ctx, m.r)
	<-slow.begun
	waiting := m.r
	slot := make(waitingSlot)
	waiting.Slot = slot
	gone, leave := context.WithCancel(t.Context())
	go check(gone, waiting)
	<-slot
	leave()
	if err := <-ended; !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a request that ended while it waited: %v", err)
	}
	for range 5 {
		go check(t.Context(), waiting)
		<-slot
	}
	go check(t.Context(), other)
	<-slow.begun
	cancel()
	close(slow.goOn)
	go func() {
		for range 5 * 3 {
			<-slow.begun
		}
	}()
	cut := 0
	for range 7 {
		err := <-ended
		if errcode.Is(err, errcode.Unavailable) {
			cut++
		} else if err != nil {
			t.Error(err)
		}
	}
	if cut != 1 {
		t.Errorf("%d ended as unavailable, want the one whose request ended", cut)
	}
}

func TestExportImport(t *testing.T) {
	t.Parallel()
	m, to := newService(t), newService(t)
	for i := range 7 {
		put := task(ext.PutTask, fmt.Sprint("k", i), fmt.Sprint(i))
		put.TTL = ext.Some(int64(60 * (i + 1)))
		m.do(t, put)
	}
	var all []ext.Record
	for cursor := ""; ; {
		page, err := m.Export(t.Context(), m.r, cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page.Records...); page.Total != int64(len(all)) {
			t.Errorf("after %d records the export counts %d", len(all), page.Total)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	to.clock.Advance(time.Minute)
	for i, want := range []ext.Imported{{Written: 6, Expired: 1}, {Unchanged: 6, Expired: 1}} {
		if got, err := to.Import(t.Context(), to.r, &ext.Import{}, all); err != nil || got != want {
			t.Errorf("import %d: %+v, %v; want %+v", i, got, err, want)
		}
	}
	rec, err := to.GetRecord(t.Context(), to.r, "a", "k6", ext.Precondition{})
	if err != nil || rec.Value != "6" || rec.ExpiresAt != all[6].ExpiresAt || len(all) != 7 {
		t.Errorf("%+v, %v", rec, err)
	}
	_, err = to.Export(t.Context(), to.r, "edited", 3)
	wantPlace(t, "an edited cursor", err, "/cursor")
}

// TestPreserve checks that an import keeps revisions and times, that no record gets an earlier revision, and that
// change numbers continue after the other server's.
func TestPreserve(t *testing.T) {
	t.Parallel()
	m := newService(t)
	now := ext.At(m.clock.Now())
	record := func(key string, revision ext.Revision, value canonjson.Value) ext.Record {
		return ext.Record{Namespace: "a", Key: ext.Key(key), Value: value, Metadata: `{"m":1}`, Header: ext.Header{
			Revision: revision, CreatedAt: now - 1000, UpdatedAt: now - 500, ExpiresAt: now + 60_000,
		}}
	}
	im := &ext.Import{Preserve: true, LastChange: 5000}
	imported := func(what string, want ext.Imported, records ...ext.Record) {
		t.Helper()
		if got, err := m.Import(t.Context(), m.r, im, records); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
	stored := func(want ext.Record) {
		t.Helper()
		rec, err := m.GetRecord(t.Context(), m.r, "a", want.Key, ext.Precondition{})
		want.Seq, want.ValueBytes, want.MetadataBytes = rec.Seq, rec.ValueBytes, rec.MetadataBytes
		if err != nil || rec != want {
			t.Errorf("stored is %+v, %v; want %+v", rec, err, want)
		}
	}
	gone := record("gone", 3, "1")
	gone.ExpiresAt = now
	imported("the first time", ext.Imported{Written: 2, Expired: 1}, record("1", 7, "1"), record("2", 1, "2"), gone)
	stored(record("1", 7, "1"))
	stored(record("2", 1, "2"))
	feed, err := m.Changes(t.Context(), m.r, 0, 0, 0)
	if err != nil || feed.Last != 1_000_005_002 {
		t.Errorf("the last change is %d, %v", feed.Last, err)
	}
	if _, err := m.Changes(t.Context(), m.r, 4000, 10, 0); !errors.Is(err, ext.ErrChangesGone) {
		t.Errorf("changes since one of elsewhere: %v", err)
	}
	imported("again", ext.Imported{Unchanged: 2}, record("1", 7, "1"), record("2", 1, "2"))
	imported("one that has gone on there", ext.Imported{Written: 1}, record("2", 2, "22"))
	stored(record("2", 2, "22"))
	put := m.do(t, task(ext.PutTask, "1", `"here"`))
	if put.Revision != 8 || put.CreatedAt != now-1000 {
		t.Errorf("the next write here: %+v", put)
	}
	imported("one that has gone on here", ext.Imported{Newer: 1, Unchanged: 1}, record("1", 7, "1"), record("2", 2, "22"))
	_, err = m.Import(t.Context(), m.r, im, []ext.Record{record("2", 3, "3"), record("1", 8, "1")})
	if item, ok := errors.AsType[*ext.ItemError](err); !ok || item.Index != 1 || !errors.Is(err, ext.ErrDiverged) {
		t.Errorf("the same revision with other contents: %v", err)
	}
	stored(record("2", 2, "22"))
	m.do(t, task(ext.PutTask, "plain", "1"))
	same := record("plain", 1, "1")
	same.ExpiresAt, same.Metadata = 0, "{}"
	imported("one that was imported without its moments", ext.Imported{Written: 1}, same)
	stored(same)

	for place, change := range map[string]func(*ext.Record){
		"":              func(r *ext.Record) { r.Revision = 0 },
		"/revision ":    func(r *ext.Record) { r.Revision = -1 },
		"/revision  ":   func(r *ext.Record) { r.Revision = 1e15 + 1 },
		"/revision   ":  func(r *ext.Record) { r.Revision = math.MaxInt64 },
		" ":             func(r *ext.Record) { r.CreatedAt = 0 },
		"/createdAt ":   func(r *ext.Record) { r.CreatedAt = now + 25*3_600_000 },
		"  ":            func(r *ext.Record) { r.UpdatedAt = 0 },
		"/updatedAt ":   func(r *ext.Record) { r.UpdatedAt = math.MaxInt64 },
		"/ttlExpiresAt": func(r *ext.Record) { r.ExpiresAt = now + 31*24*3_600_000 },
	} {
		rec := record("bad", 1, "1")
		change(&rec)
		_, err := m.Import(t.Context(), m.r, im, []ext.Record{record("good", 1, "1"), rec})
		if item, ok := errors.AsType[*ext.ItemError](err); !ok || item.Index != 1 {
			t.Errorf("%s: %v", place, err)
		}
		wantPlace(t, place, err, strings.TrimSpace(place))
		if _, err := m.GetRecord(t.Context(), m.r, "a", "good", ext.Precondition{}); !errors.Is(err, ext.ErrNoRecord) {
			t.Errorf("%s: a record beside it is there: %v", place, err)
		}
	}
}

func TestPreserveBesideWrites(t *testing.T) {
	t.Parallel()
	m := newService(t)
	now := ext.At(m.clock.Now())
	put := m.do(t, task(ext.PutTask, "1", "0"))
	done := make(chan error)
	go func() {
		for range 200 {
			if _, err := m.Do(t.Context(), m.r, task(ext.PutTask, "1", "0")); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range 200 {
		rec := ext.Record{Namespace: "a", Key: "1", Value: "1", Header: ext.Header{Revision: ext.Revision(1 + i), CreatedAt: now, UpdatedAt: now}}
		_, err := m.Import(t.Context(), m.r, &ext.Import{Preserve: true}, []ext.Record{rec})
		_, overtaken := errors.AsType[*ext.MismatchError](err)
		if err != nil && !errors.Is(err, ext.ErrDiverged) && !overtaken {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	feed, err := m.Changes(t.Context(), m.r, 0, ext.MaxChanges, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := put.Revision
	for _, c := range feed.Changes[1:] {
		if c.Revision <= last {
			t.Fatalf("revision %d follows %d", c.Revision, last)
		}
		last = c.Revision
	}
}

func TestRegisterInstall(t *testing.T) {
	t.Parallel()
	m := newService(t, func(o *ext.Options) { o.Config.Tiers = map[string]ext.Quota{"small": {Keys: 1}} })
	o := m.r.Grant.Owner
	refused := func(what string, r ext.Registration, place string) {
		t.Helper()
		_, _, err := m.RegisterInstall(t.Context(), o, r, false)
		wantPlace(t, what, err, place)
	}
	refused("an unknown tier", ext.Registration{Tier: "x"}, "/tier")
	refused("an override for too long", ext.Registration{Overrides: ext.Overrides{Until: ext.At(m.clock.Now().Add(15 * 24 * time.Hour))}}, "/overrides/until")
	small := ext.Registration{Tier: "small", Overrides: ext.Overrides{Quota: ext.Quota{Keys: 2}}}
	in, created, err := m.RegisterInstall(t.Context(), o, small, false)
	if err != nil || !created || in.Overrides.Until != ext.At(m.clock.Now().Add(ext.OverrideLifetime)) {
		t.Fatalf("%+v, created %t, %v", in, created, err)
	}
	m.do(t, task(ext.PutTask, "1", "1"))
	m.do(t, task(ext.PutTask, "2", "1"))
	_, err = m.Do(t.Context(), m.r, task(ext.PutTask, "3", "1"))
	if over, ok := errors.AsType[*ext.QuotaError](err); !ok || over.Limit != 2 || over.What != "keys" {
		t.Errorf("over the override: %v", err)
	}
	m.clock.Advance(15 * 24 * time.Hour)
	u, err := m.Usage(t.Context(), m.r)
	if err != nil || u.Quota.Keys != 1 || u.Quota.Bytes != ext.MaxBytes {
		t.Errorf("after the override: %+v, %v", u, err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	c := ext.DefaultConfig()
	if errs := c.Check(); len(errs) != 0 {
		t.Errorf("the default is wrong: %v", errs)
	}
	c.PollEvery, c.Quota.Keys, c.SweepEvery, c.Tiers = 0, 0, -1, map[string]ext.Quota{"x": {Bytes: -1}}
	if errs := c.Check(); len(errs) != 4 {
		t.Errorf("what is wrong: %v", errs)
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := newService(t, func(o *ext.Options) {
		o.After = func(time.Duration) <-chan time.Time {
			cancel()
			return nil
		}
	})
	if _, err := m.Changes(ctx, m.r, 0, 1, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("the client has gone: %v", err)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.activate(t, `{"type":"integer"}`)
	rec := func(ns ext.Namespace, value canonjson.Value, until ext.Moment) ext.Record {
		return ext.Record{Namespace: ns, Key: "k" + ext.Key(value), Value: value, Header: ext.Header{ExpiresAt: until}}
	}
	old, far := ext.Moment(1), ext.At(m.clock.Now().Add(31*24*time.Hour))
	for what, last := range map[string]ext.Record{
		"schema": rec("a", `"x"`, 0), "read only": rec("c", "1", 0), "denied": rec("d", "1", 0), "too far": rec("a", "2", far), "no value": rec("a", "", 0),
	} {
		_, err := m.Import(t.Context(), m.r, &ext.Import{}, []ext.Record{rec("a", "0", old), rec("a", "1", 0), last})
		if item, ok := errors.AsType[*ext.ItemError](err); !ok || item.Index != 2 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if u, err := m.Usage(t.Context(), m.r); err != nil || u.Counters.Keys != 0 {
		t.Errorf("something was written: %+v, %v", u, err)
	}
	if _, err := m.Import(t.Context(), m.r, &ext.Import{}, make([]ext.Record, 21)); !errors.Is(err, canonjson.ErrTooLarge) {
		t.Errorf("too many: %v", err)
	}
}

func TestWriteOnly(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.r.Grant.Namespaces = map[ext.Namespace]ext.Access{"a": ext.Modify}
	m.do(t, task(ext.PutTask, "k", "1"))
	m.do(t, task(ext.DeleteTask, "k", ""))
	for what, ask := range map[string]func() error{
		"get":       func() error { _, err := m.GetRecord(t.Context(), m.r, "a", "k", ext.Precondition{}); return err },
		"check":     func() error { _, err := m.Do(t.Context(), m.r, task(ext.CheckTask, "k", "")); return err },
		"increment": func() error { _, err := m.Do(t.Context(), m.r, increment("k", "", "1")); return err },
		"patch":     func() error { _, err := m.Do(t.Context(), m.r, task(ext.PatchTask, "k", "1")); return err },
		"changes":   func() error { _, err := m.Changes(t.Context(), m.r, 0, 1, 0); return err },
		"export":    func() error { _, err := m.Export(t.Context(), m.r, "", 1); return err },
		"schemas":   func() error { _, _, err := m.Schemas(t.Context(), m.r, "a", "", 9); return err },
		"list": func() error {
			_, _, err := m.ListRecords(t.Context(), m.r, ext.Listing{Namespace: "a", Limit: 1})
			return err
		},
	} {
		if err := ask(); !errors.Is(err, ext.ErrAccess) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type lookedAt struct {
	ext.Store
	times int
}

func (l *lookedAt) Changes(ctx context.Context, o ext.Owner, since ext.Seq, limit int) (ext.Feed, error) {
	l.times++
	return l.Store.Changes(ctx, o, since, limit)
}

// TestChangesHidden checks that unreadable changes are skipped in large steps, regardless of the limit, and that no
// readable change is lost.
func TestChangesHidden(t *testing.T) {
	t.Parallel()
	var looked lookedAt
	m := newService(t, func(o *ext.Options) {
		looked.Store = o.Store
		o.Store = &looked
	})
	write := func(n int, namespaces ...ext.Namespace) {
		t.Helper()
		w := ext.Write{Now: ext.At(m.clock.Now()), Quota: ext.DefaultQuota()}
		for range n {
			for _, ns := range namespaces {
				w.Ops = append(w.Ops, ext.Op{Namespace: ns, Key: "k", Value: "1", Metadata: canonjson.EmptyObject})
			}
		}
		if _, err := m.store.Apply(t.Context(), m.r.Grant.Owner, w); err != nil {
			t.Fatal(err)
		}
	}
	write(1500, "hidden")
	write(3, "hidden", "a")
	write(1500, "hidden")
	var got []ext.Seq
	since := ext.Seq(0)
	for last := ext.Seq(3006); since < last; {
		feed, err := m.Changes(t.Context(), m.r, since, 1, 0)
		if err != nil || len(feed.Changes) > 1 || feed.Last <= since {
			t.Fatalf("since %d: %+v, %v", since, feed, err)
		}
		for _, c := range feed.Changes {
			got = append(got, c.Seq)
		}
		since = feed.Last
	}
	if !slices.Equal(got, []ext.Seq{1502, 1504, 1506}) || looked.times > 20 {
		t.Errorf("changes %d, looked at %d times", got, looked.times)
	}
}
