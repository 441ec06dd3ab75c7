//test:unraced the race detector makes it ten times as slow

package obs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/obs"
)

type hidden string

func (hidden) LogValue() slog.Value { return slog.StringValue("[secret]") }

func TestTail(t *testing.T) {
	t.Parallel()
	const hostile = "<script>a=\"b\"\x1b[31m\n\u202e level=ERROR service=other"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		tail := obs.NewTail(&out)
		log, err := obs.NewLog(tail, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("not in the log")
		log.With("service", "buckets").Warn(hostile, "size", 7, "password", hidden("open sesame"), "text", hostile, "group", slog.GroupValue(slog.Int("a", 1)))
		log.Error("plain", "error", errors.New("no disk"))
		all, size := tail.Lines()
		if len(all) != 2 || size != out.Len() {
			t.Fatalf("%s: %d bytes of %d: %+v", format, size, out.Len(), all)
		}
		if l := all[0]; l.Level != slog.LevelError || l.Message != "plain" || l.Service != "" || l.Error != "no disk" || l.Attributes != "" || time.Since(l.At) > time.Minute {
			t.Errorf("%s: %+v", format, l)
		}
		l := all[1]
		if l.Level != slog.LevelWarn || l.Service != "buckets" || l.Message != hostile || strings.Contains(l.Attributes, "sesame") || !strings.HasPrefix(l.Attributes, "size=7 password=") {
			t.Errorf("%s: %+v", format, l)
		}
		if strings.Contains(l.Attributes, "\n") || strings.Contains(l.Attributes, "\x1b") {
			t.Errorf("%s: control characters in %q", format, l.Attributes)
		}
	}
}

// TestTailIsBounded checks that the newest lines stay, and that long lines are cut.
func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"short": 10, "long": 3000, "longer than what is kept": 100_000} {
		tail := obs.NewTail(io.Discard)
		log, err := obs.NewLog(tail, "info", "text")
		if err != nil {
			t.Fatal(err)
		}
		const lines = 5*obs.TailLines + 3
		for i := range lines {
			log.Info(fmt.Sprint("line ", i), "text", strings.Repeat("x ", length/2))
			if i%97 != 0 && i != obs.TailLines {
				continue
			}
			if all, size := tail.Lines(); size > obs.TailBytes || len(all) > obs.TailLines || all[0].Message != fmt.Sprint("line ", i) {
				t.Fatalf("%s: %d lines, %d bytes after line %d", name, len(all), size, i)
			}
		}
		all, size := tail.Lines()
		for i, l := range all {
			if l.Message != fmt.Sprint("line ", lines-1-i) {
				t.Fatalf("%s: line %d is %q", name, i, l.Message)
			}
		}
		if len(all) != obs.TailLines && size < obs.TailBytes*9/10 {
			t.Errorf("%s: only %d lines, %d bytes", name, len(all), size)
		}
	}
}

// TestTailOfRefused checks that lines about refused requests are only in memory, in order, and displace no other line.
func TestTailOfRefused(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tail := obs.NewTail(&out)
	log, err := obs.NewLog(tail, "info", "json")
	refused, wrong := obs.NewLog(tail.Refused(), "info", "json")
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	log.Info("first")
	for i := range 3 * obs.TailRefused {
		refused.Info("request", "status", 403, "error", "denied", "i", i)
	}
	log.Info("last")
	all, size := tail.Lines()
	if len(all) != obs.TailRefused+2 || all[0].Message != "last" || all[len(all)-1].Message != "first" || size > obs.TailRefusedBytes+out.Len() {
		t.Fatalf("%d lines, %d bytes, %+v", len(all), size, all[0])
	}
	if l := all[1]; l.Status != 403 || l.Error != "denied" || l.Attributes != fmt.Sprint("i=", 3*obs.TailRefused-1) {
		t.Errorf("%+v", l)
	}
	if strings.Contains(out.String(), "denied") {
		t.Error("a refused request is in the output")
	}
	refused.Info("request", "text", strings.Repeat("x", 1<<20))
	for range 2 * obs.TailRefused {
		refused.Info("request", "text", strings.Repeat("x", 5000))
	}
	if _, size := tail.Lines(); size > obs.TailRefusedBytes+out.Len() {
		t.Errorf("%d bytes", size)
	}
}

func TestTailWithoutDisk(t *testing.T) {
	t.Parallel()
	tail := obs.NewTail(failing{})
	if _, err := tail.Write([]byte("time=x msg=a\n")); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("the error of the output is %v", err)
	}
	if all, _ := tail.Lines(); len(all) != 1 || all[0].Message != "a" {
		t.Errorf("%+v", all)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestTailAtOnce(t *testing.T) {
	t.Parallel()
	tail := obs.NewTail(io.Discard)
	log, err := obs.NewLog(tail, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range 500 {
				log.Info("line", "i", i)
				if i%100 == 0 {
					tail.Lines()
				}
			}
		})
	}
	wg.Wait()
	all, _ := tail.Lines()
	for _, l := range all {
		if l.Message != "line" {
			t.Fatalf("%+v", l)
		}
	}
	if len(all) != obs.TailLines {
		t.Errorf("%d lines", len(all))
	}
}

func FuzzTail(f *testing.F) {
	for _, line := range []string{`time=2026-01-02T03:04:05Z level=INFO msg="a b" n=1`, `{"time":"x","level":"WARN","msg":"a","n":{"b":[1]}}`, `{"a":`, `a="b`, `"`, "=", ""} {
		f.Add(line)
	}
	f.Fuzz(func(_ *testing.T, line string) {
		tail := obs.NewTail(io.Discard)
		_, _ = tail.Write([]byte(line))
		tail.Lines()
	})
}
