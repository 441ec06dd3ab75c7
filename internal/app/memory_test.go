package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCgroupLimit includes parent groups, versions 1 and 2, and a container with only the root group.
func TestCgroupLimit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		groups string
		files  map[string]string
		want   int64
	}{
		"no groups":        {},
		"version 2":        {"0::/system.slice/holdfast.service\n", map[string]string{"system.slice/holdfast.service/memory.max": "536870912\n"}, 512 << 20},
		"the one above it": {"0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "1073741824\n", "memory.max": "2147483648\n"}, 1 << 30},
		"a container":      {"0::/kubepods/pod/1\n", map[string]string{"memory.max": "268435456\n"}, 256 << 20},
		"no limit":         {"0::/\n", map[string]string{"memory.max": "max\n"}, 0},
		"version 1":        {"9:pids:/p\n4:cpu,memory:/m\n0::/u\n", map[string]string{"memory/m/memory.limit_in_bytes": "104857600\n", "pids/p/memory.limit_in_bytes": "1\n"}, 100 << 20},
		"version 1, none":  {"4:memory:/m\n", map[string]string{"memory/m/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
	} {
		root := t.TempDir()
		proc := filepath.Join(root, "proc-self-cgroup")
		if row.groups != "" {
			putFile(t, proc, row.groups)
		}
		for file, text := range row.files {
			putFile(t, filepath.Join(root, file), text)
		}
		got, ok := cgroupLimit(proc, root)
		if ok != (row.want > 0) || ok && got != row.want {
			t.Errorf("%s: %d, %t; want %d", name, got, ok, row.want)
		}
	}
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryNeededByDefault checks the default in the guide: settings_need, the maximum memory in the log.
func TestMemoryNeededByDefault(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	for environ, rest := range map[string]string{"": "", "HOLDFAST_EXTSTORAGE__ENABLED=false": "Without extension storage "} {
		_, most, outside := openApp(t, strings.Fields(environ)...).memoryNeeded()
		if want := fmt.Sprintf("%d MiB", (most+outside)>>20); !strings.Contains(string(text), want) {
			t.Errorf("%sdocs/capacity.md does not say that the server needs at most %s", rest, want)
		}
	}
}

// TestMemoryLimitLine checks that the log line names only memory that grows with the caches: with a number of bytes
// larger than the limit, operators assumed too little memory. The line warns if memory is in fact too low.
func TestMemoryLimitLine(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	a := openApp(t)
	a.log = slog.New(slog.NewTextHandler(&text, nil))
	a.limit = "1GiB"
	now, most, outside := a.memoryNeeded()
	a.logLimit(now, most, outside, 0, false)
	if line := text.String(); !strings.Contains(line, "source=GOMEMLIMIT settings_need=") {
		t.Error(line)
	}
	text.Reset()
	a.limit = ""
	a.logLimit(now, most, outside, 0, false)
	if line := text.String(); !strings.Contains(line, "level=INFO") || !strings.Contains(line, "source=settings grows_with_caches_to=") || strings.Contains(line, "need") {
		t.Error(line)
	}
	text.Reset()
	a.logLimit(now, most, outside, 64<<20, true)
	if line := text.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "settings_need=") || !strings.Contains(line, "hint=") {
		t.Error(line)
	}
}

// TestLeastRequestMemory checks that a server does not start with less memory than the largest request needs.
func TestLeastRequestMemory(t *testing.T) {
	t.Parallel()
	for value, fine := range map[string]bool{"0": false, "1048576": false, "67108864": true} {
		_, _, err := Load(Services(), "", []string{"HOLDFAST_SERVER__REQUEST_MEMORY=" + value})
		if fine && err != nil || !fine && !strings.Contains(fmt.Sprint(err), "HOLDFAST_SERVER__REQUEST_MEMORY: must be at least") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
