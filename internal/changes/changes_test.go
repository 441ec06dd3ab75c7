package changes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/changes"
	"holdfast/internal/clock"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func open(t *testing.T, file string) (l *changes.Log, log *strings.Builder, now *clock.Manual) {
	t.Helper()
	log, now = &strings.Builder{}, clock.NewManual(start)
	return &changes.Log{Log: slog.New(slog.NewTextHandler(log, nil)), Clock: now.Now, Message: error.Error, File: file}, log, now
}

func add(l *changes.Log, who, of, name string, err error) {
	ctx := service.WithOperator(context.Background(), who, "192.0.2.1")
	l.Add(ctx, &service.Change{Service: of, Page: "keys", Action: "revoke", What: []service.Named{{Name: "key", Value: name}}, Err: err})
}

func keys(t *testing.T, all []changes.Entry) (found []string) {
	t.Helper()
	for i, e := range all {
		found = append(found, e.What[0].Value)
		if i > 0 && e.Number >= all[i-1].Number {
			t.Errorf("number %d after %d", e.Number, all[i-1].Number)
		}
	}
	return found
}

func TestRestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), changes.File)
	l, log, now := open(t, file)
	add(l, "admin session 1", "buckets", "a", nil)
	now.Advance(time.Hour)
	add(l, "", "guest", "b", errors.New("no such key"))
	now.Advance(time.Hour)
	const hostile = "<script>\n\x1b[31m\u202e\xff"
	add(l, "admin session 2", "buckets", hostile, nil)
	if n := strings.Count(log.String(), `msg="operator change"`); n != 3 {
		t.Errorf("%d log lines in\n%s", n, log)
	}
	l, log, now = open(t, file)
	now.Set(start.Add(3 * time.Hour))
	add(l, "admin session 1", "server", "d", nil)
	all := l.List(&changes.Filter{Limit: 10})
	if got := keys(t, all); !slices.Equal(got, []string{"d", strings.ToValidUTF8(hostile, "\ufffd"), "b", "a"}) {
		t.Fatalf("%q", got)
	}
	if e := all[2]; e.Who != "admin token" || e.Service != "guest" || e.Failed != "no such key" || !e.At.Equal(start.Add(time.Hour)) || e.Address != "192.0.2.1" || e.Text() != "key=b" {
		t.Errorf("%+v", e)
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a warning in\n%s", log)
	}
	for i, c := range []struct {
		filter changes.Filter
		want   string
	}{
		{changes.Filter{Who: "SESSION 1", Limit: 9}, "d a"},
		{changes.Filter{Who: "token", Limit: 9}, "b"},
		{changes.Filter{Service: "guest", Limit: 9}, "b"},
		{changes.Filter{Text: "such KEY", Limit: 9}, "b"},
		{changes.Filter{Text: "key=a", Limit: 9}, "a"},
		{changes.Filter{Since: start.Add(time.Hour), Until: start.Add(2 * time.Hour), Limit: 9}, "b"},
		{changes.Filter{Limit: 1}, "d"},
		{changes.Filter{Before: all[2].Number, Limit: 9}, "a"},
		{changes.Filter{Before: all[0].Number, Service: "server", Limit: 9}, ""},
	} {
		if got := strings.Join(keys(t, l.List(&c.filter)), " "); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

// TestSizeIsBounded checks that two files of half a MiB keep the newest changes, whatever their values.
func TestSizeIsBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, changes.File)
	l, _, _ := open(t, file)
	l.Log = slog.New(slog.DiscardHandler)
	for i := range 1500 {
		c := &service.Change{Service: "buckets", Page: "keys", Action: "revoke", Err: errors.New(strings.Repeat("é", 10_000)), What: []service.Named{{Name: "key", Value: fmt.Sprint(i)}}}
		for range 30 {
			c.What = append(c.What, service.Named{Name: strings.Repeat("n", 5000), Value: strings.Repeat("\x00", 5000)})
		}
		if i%100 != 0 {
			c.What = c.What[:1]
		}
		l.Add(t.Context(), c)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Size() > 512<<10 || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%s: %v, %v", f.Name(), info, err)
		}
	}
	l, log, _ := open(t, file)
	all := l.List(&changes.Filter{Limit: 1 << 20})
	if len(all) < 400 || len(all) > 1500 || all[0].What[0].Value != "1499" || strings.Contains(log.String(), "damaged") {
		t.Errorf("%d changes, the newest %+v\n%s", len(all), all[0].What[0], log)
	}
	for i, e := range all {
		if n := 1499 - i; n%100 != 0 && e.What[0].Value != fmt.Sprint(n) || e.Number != int64(n+1) {
			t.Fatalf("change %d is %+v", n, e)
		}
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(text string) string{
		"a tail that was cut":    func(text string) string { return text[:len(text)-20] },
		"a tail of zeros":        func(text string) string { return text + strings.Repeat("\x00", 100) },
		"another file":           func(string) string { return "[server]\nlisten = \"\"\n" },
		"an array":               func(string) string { return "[1,2]" },
		"a line without numbers": func(text string) string { return `{"at":"2026-01-01T00:00:00Z","n":-5}` + "\n" + text },
		"numbers that descend":   func(text string) string { return text + text },
		"a huge file":            func(text string) string { return strings.Repeat("x", 5<<20) + "\n" + text },
		"an empty file":          func(string) string { return "" },
	} {
		file := filepath.Join(t.TempDir(), changes.File)
		l, _, _ := open(t, file)
		add(l, "", "buckets", "a", nil)
		add(l, "", "buckets", "b", nil)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(damage(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			l, log, _ := open(t, file)
			add(l, "", "buckets", fmt.Sprint("after ", i), nil)
			if got := keys(t, l.List(&changes.Filter{Limit: 100})); got[0] != fmt.Sprint("after ", i) || i == 1 && got[1] != "after 0" {
				t.Errorf("%s: %q", name, got)
			}
			if strings.Contains(log.String(), "cannot be") {
				t.Errorf("%s: %s", name, log)
			}
		}
	}
}

func TestWithoutDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	full := filepath.Join(folder, "full")
	if err := os.Mkdir(full, 0o700); err != nil { // a folder in place of the file: no write succeeds, even for root
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(folder, "missing", changes.File), full} {
		l, log, _ := open(t, file)
		for i := range 3 {
			add(l, "", "buckets", fmt.Sprint(i), nil)
		}
		if got := keys(t, l.List(&changes.Filter{Limit: 9})); len(got) != 3 {
			t.Errorf("%s: %q", file, got)
		}
		if n := strings.Count(log.String(), "will not survive a restart"); n != 1 {
			t.Errorf("%s: %d warnings in\n%s", file, n, log)
		}
	}
}

// TestTwoServers checks that two servers on a data folder write whole lines, even while the file is renamed.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), changes.File)
	var wg sync.WaitGroup
	for of := range 2 {
		l, _, _ := open(t, file)
		l.Log = slog.New(slog.DiscardHandler)
		wg.Go(func() {
			for i := range 700 {
				add(l, "", fmt.Sprint("server ", of), fmt.Sprint(i, strings.Repeat("x", 500)), nil)
			}
		})
	}
	wg.Wait()
	l, log, _ := open(t, file)
	all := l.List(&changes.Filter{Limit: 1 << 20})
	keys(t, all)
	if len(all) < 300 || strings.Contains(log.String(), "damaged") {
		t.Errorf("%d changes\n%s", len(all), log)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"n":1,"at":"2026-01-01T00:00:00Z","what":[{}]}` + "\n{"))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(folder, changes.File)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		l := &changes.Log{Log: slog.New(slog.DiscardHandler), Clock: clock.System, File: file}
		if _, err := json.Marshal(l.List(&changes.Filter{Limit: 1 << 20})); err != nil {
			t.Error(err)
		}
	})
}
