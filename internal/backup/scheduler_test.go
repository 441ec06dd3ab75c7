package backup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/secrets"
)

func newScheduler(t *testing.T) (s *Scheduler, now *clock.Manual, folder string) {
	t.Helper()
	now = clock.NewManual(time.Date(2026, 1, 20, 12, 0, 0, 0, time.Local))
	server := &Server{Data: t.TempDir(), Known: NamesOf(nil), Clock: now.Now, Log: slog.New(slog.DiscardHandler)}
	if err := os.WriteFile(filepath.Join(server.Data, secrets.File), []byte("[server]\nadmin_token = \"secret\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(t.TempDir(), "backups")
	s = &Scheduler{Server: func() *Server { return server }}
	settings := Defaults()
	settings.URL, settings.Schedule, settings.Keep = "file://"+filepath.ToSlash(folder), "03:30", ""
	s.Set(settings)
	return s, now, folder
}

func edit(s *Scheduler, change func(*Settings)) {
	settings := s.Settings()
	change(&settings)
	s.Set(settings)
}

func count(t *testing.T, s *Scheduler) int {
	t.Helper()
	all, err := List(t.Context(), Listing{URL: s.Settings().URL, Known: s.Server().Known, Trust: replica.Trust{Unproven: true}})
	if err != nil && !errcode.Is(err, errcode.NotFound) {
		t.Fatal(err)
	}
	return len(all)
}

// TestScheduler checks that the first backup is made at once, and later backups when due, also after the server was
// stopped.
func TestScheduler(t *testing.T) {
	t.Parallel()
	s, now, _ := newScheduler(t)
	due := func(want int) {
		t.Helper()
		s.runDue(t.Context())
		if got := count(t, s); got != want {
			t.Fatalf("%v: %d backups, want %d", now.Now(), got, want)
		}
	}
	due(1)
	due(1)
	now.Advance(15 * time.Hour) // 03:00
	due(1)
	if next := s.State().Next; !next.Equal(time.Date(2026, 1, 21, 3, 30, 0, 0, time.Local)) {
		t.Errorf("the next one is due at %v", next)
	}
	now.Advance(30 * time.Minute)
	due(2)
	due(2)
	// The server is stopped for three days.
	server := s.Server
	settings := s.Settings()
	s = &Scheduler{Server: server}
	s.Set(settings)
	now.Advance(30 * time.Hour)
	if settings.Late(server().Data, now.Now()) {
		t.Error("a backup is late after one was missed")
	}
	now.Advance(42 * time.Hour)
	if !settings.Late(server().Data, now.Now()) {
		t.Error("a backup of three days ago is not late")
	}
	due(3)
	due(3)
	if settings.Late(server().Data, now.Now()) {
		t.Error("a new backup is late")
	}
	edit(s, func(s *Settings) { s.Schedule = "6h" })
	now.Advance(6*time.Hour - time.Second)
	due(3)
	now.Advance(time.Second)
	due(4)
	now.Set(now.Now().Add(-1000 * time.Hour))
	due(4)
	now.Advance(6 * time.Hour)
	due(4)
	edit(s, func(s *Settings) { s.Schedule = "" })
	now.Advance(2000 * time.Hour)
	due(4)
	if settings = s.Settings(); settings.Late(server().Data, now.Now()) {
		t.Error("a backup is late without a schedule")
	}
}

func TestFailedSchedule(t *testing.T) {
	t.Parallel()
	s, now, folder := newScheduler(t)
	data, settings := s.Server().Data, s.Settings()
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // no folder can be created
		t.Fatal(err)
	}
	s.runDue(t.Context())
	failed := ReadFailure(data)
	if failed == nil || !strings.Contains(failed.Says, "cannot read an object") || !strings.HasPrefix(failed.URL, "file://") {
		t.Fatalf("the failure is %+v", failed)
	}
	if found := Check(t.Context(), Checked{Settings: &settings, Data: data}, now.Now()); len(found) != 1 || found[0].State != service.Warning {
		t.Errorf("holdfast check finds %v", found)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	now.Advance(leastRetry - time.Second)
	s.runDue(t.Context())
	if got := count(t, s); got != 0 {
		t.Errorf("it is tried again at once: %d backups", got)
	}
	now.Advance(time.Second)
	s.runDue(t.Context())
	if got := count(t, s); got != 1 || ReadFailure(data) != nil {
		t.Errorf("%d backups, failure %+v", got, ReadFailure(data))
	}
	if found := Check(t.Context(), Checked{Settings: &settings, Data: data}, now.Now()); len(found) != 1 || found[0].State != service.OK {
		t.Errorf("holdfast check finds %v", found)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	now.Advance(48 * time.Hour)
	s.runDue(ended)
	if failed := ReadFailure(data); failed != nil {
		t.Errorf("the end of the server is a failure: %+v", failed)
	}
}

func TestMake(t *testing.T) {
	t.Parallel()
	s, _, _ := newScheduler(t)
	edit(s, func(s *Settings) { s.Schedule = "" })
	held := make(chan struct{})
	began := make(chan struct{})
	server := s.Server()
	server.Services = []*service.Running{{Name: "test", Opened: &service.Opened{Files: &service.Files{
		Hold: func(ctx context.Context) (context.Context, func(), error) {
			close(began)
			<-held
			return ctx, func() {}, nil
		},
	}}}}
	ended := make(chan struct{})
	var steps []string
	go func() {
		defer close(ended)
		if sent, err := s.Make(t.Context(), func(what string) { steps = append(steps, what) }); err != nil || sent.Restored {
			t.Errorf("a backup without a database: %+v, %v", sent, err)
		}
	}()
	<-began
	if _, err := s.Make(t.Context(), nil); !errcode.Is(err, errcode.Conflict) || !errcode.Is(s.CanMake(), errcode.Conflict) {
		t.Errorf("a second one: %v", err)
	}
	edit(s, func(s *Settings) { s.Schedule = "1m" })
	s.runDue(t.Context()) // due, but a backup is running
	if s.State().Since.IsZero() {
		t.Error("the state does not say that a backup is being made")
	}
	_, err := server.Send(t.Context(), &Sending{Settings: s.Settings()})
	if err == nil || !strings.Contains(err.Error(), "makes a backup of this data folder") {
		t.Errorf("another process: %v", err)
	}
	close(held)
	<-ended
	if !s.State().Since.IsZero() || s.CanMake() != nil || len(steps) < 2 {
		t.Errorf("afterwards the state is %+v; steps %q", s.State(), steps)
	}
	all, err := List(t.Context(), Listing{URL: s.Settings().URL, Known: s.Server().Known, Trust: replica.Trust{Unproven: true}})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d backups, %v", len(all), err)
	}
	if v := Verified(server.Data, s.Settings().URL); len(v) > 0 {
		t.Errorf("a backup without a database is verified: %+v", v)
	}
	edit(s, func(s *Settings) { s.URL, s.Schedule = "", "" })
	if _, err := s.Make(t.Context(), nil); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("without a URL: %v", err)
	}
}

func TestVerified(t *testing.T) {
	t.Parallel()
	const address = "s3://bucket?prefix=a/&region=x"
	data, at := t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	b := &Server{Data: data, Clock: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler)}
	whole := func(at time.Time) replica.Point {
		return replica.Point{Time: at, Files: map[string]replica.Position{"sync.db": {}}}
	}
	for i := range 3 * maxVerified {
		b.RecordVerified(address, whole(at.Add(time.Duration(i))), "")
	}
	b.RecordVerified(address, whole(at), "sync database: it is damaged")
	b.RecordVerified("s3://other", whole(at), "")
	all := Verified(data, address)
	if len(all) > maxVerified || all[at.UnixNano()].Damage != "sync database: it is damaged" || all[at.UnixNano()].At != at {
		t.Errorf("%d: %+v", len(all), all[at.UnixNano()])
	}
	if others := Verified(data, "s3://other"); len(others) != 1 {
		t.Errorf("%+v", others)
	}
	name := filepath.Join(data, verifiedFile)
	if info, err := os.Stat(name); err != nil || info.Size() > 64<<10 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(name, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := Verified(data, address); len(all) != 0 {
		t.Errorf("a damaged file: %+v", all)
	}
	b.RecordVerified(address, whole(at), "")
	if all := Verified(data, address); len(all) != 1 {
		t.Errorf("after a damaged file: %+v", all)
	}
}

func TestKnownURLs(t *testing.T) {
	t.Parallel()
	s, now, _ := newScheduler(t)
	edit(s, func(s *Settings) { s.Keep, s.Schedule = "2d", "12h" })
	server := s.Server()
	folder := t.TempDir()
	if err := server.Record(folder, 0, nil); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		now.Advance(12 * time.Hour)
		s.runDue(t.Context())
	}
	all, err := Known(server.Data)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range all {
		got = append(got, b.At.Local().Format("02 15h ")+b.Path)
	}
	name := "file://" + strings.TrimPrefix(s.Settings().URL, "file://")
	days := []string{all[0].At.Local().Format("02 15h ") + name, all[1].At.Local().Format("02 15h ") + name, "20 12h " + folder}
	if len(all) != 3 || !slices.Equal(got, days) || all[0].At.Sub(all[1].At) > 36*time.Hour {
		t.Errorf("known: %q", got)
	}
}

func TestNothingToBackUp(t *testing.T) {
	t.Parallel()
	s, _, _ := newScheduler(t)
	if err := os.Remove(filepath.Join(s.Server().Data, secrets.File)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Server().Send(t.Context(), &Sending{Settings: s.Settings()})
	if err == nil || !strings.Contains(err.Error(), "nothing to back up") {
		t.Error(err)
	}
	_, inUse := errors.AsType[*sqlitedb.InUseError](err)
	if inUse {
		t.Error("the lock was not released")
	}
}

// TestTypedURL checks that failures and successes at another URL than backup.url change no recorded failure, and that a
// success after backup.url was changed ends the failure.
func TestTypedURL(t *testing.T) {
	t.Parallel()
	s, _, folder := newScheduler(t)
	server, settings := s.Server(), s.Settings()
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Send(t.Context(), &Sending{Settings: settings, Typed: true}); err == nil || ReadFailure(server.Data) != nil {
		t.Errorf("a failure at another URL: %v, recorded %+v", err, ReadFailure(server.Data))
	}
	s.runDue(t.Context())
	settings.URL = "file://" + t.TempDir() + "/other"
	if _, err := server.Send(t.Context(), &Sending{Settings: settings, Typed: true}); err != nil || ReadFailure(server.Data) == nil {
		t.Errorf("a success at another URL: %v, recorded %+v", err, ReadFailure(server.Data))
	}
	if _, err := server.Send(t.Context(), &Sending{Settings: settings}); err != nil || ReadFailure(server.Data) != nil {
		t.Errorf("a success at a new backup.url: %v, recorded %+v", err, ReadFailure(server.Data))
	}
}
