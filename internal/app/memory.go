package app

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/web"
)

const (
	// HeapFloor is the size of an untouched buffer, which only takes address space. The garbage collector starts when
	// the heap has doubled, and a 5 MB heap doubles every few hundred requests. With the buffer it runs a quarter as
	// often for at most HeapFloor more memory. GOGC=400 saves as much CPU time, but needs five times the memory of a
	// large heap.
	HeapFloor = 16 << 20

	// baseMemory covers everything except budgets and caches: 10 MB idle, 20 KB per connection, uncharged request
	// memory, and a reserve against constant garbage collection.
	baseMemory = 32 << 20
)

// limitMemory sets the runtime's memory limit unless GOMEMLIMIT is set. adjust updates the limit to the cache sizes,
// so that garbage does not fill memory that caches may need.
func (a *App) limitMemory() (adjust func()) {
	now, maximum, outside := a.memoryNeeded()
	group, limited := cgroupLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	limit, ceiling := a.logLimit(now, maximum, outside, group, limited)
	if a.limit != "" {
		return func() {}
	}
	set := func(n int64) { debug.SetMemoryLimit(n + HeapFloor) } // the runtime counts the floor
	set(limit)
	return func() {
		const step = 4 << 20 // every change stops the program for a moment
		now, _, _ := a.memoryNeeded()
		if now = min(now, ceiling); now > limit+step || now < limit-step {
			limit = now
			set(limit)
		}
	}
}

// logLimit chooses and logs the memory limit and its ceiling. group is the cgroup limit, if limited.
func (a *App) logLimit(now, maximum, outside, group int64, limited bool) (limit, ceiling int64) {
	var attrs []slog.Attr
	ceiling = math.MaxInt64
	if limited {
		attrs = append(attrs, slog.Int64("cgroup", group))
		ceiling = max(group-group/10-outside, baseMemory) // a tenth is for memory that the runtime does not count
	}
	level, source := slog.LevelInfo, "settings"
	limit = min(now, ceiling)
	switch {
	case a.limit != "":
		limit, source = debug.SetMemoryLimit(-1), "GOMEMLIMIT"
		attrs = append(attrs, slog.Int64("settings_need", maximum+outside))
	case ceiling < maximum:
		level, source = slog.LevelWarn, "cgroup"
		attrs = append(attrs, slog.Int64("settings_need", maximum+outside), slog.String("hint", "lower server.request_memory, or give the server more memory"))
	default: // enough: the limit rises as caches fill
		attrs = append(attrs, slog.Int64("grows_with_caches_to", maximum))
	}
	attrs = append([]slog.Attr{slog.Int64("bytes", limit), slog.String("source", source)}, attrs...)
	a.log.LogAttrs(context.Background(), level, "memory limit", attrs...)
	return limit, ceiling
}

// memoryNeeded returns the heap needed with current and with full caches, and the memory needed outside the heap.
func (a *App) memoryNeeded() (now, maximum, outside int64) {
	now = baseMemory + a.current().Server.RequestMemory
	for _, d := range a.databases() {
		h, o := d.Memory()
		now += h
		outside += o
	}
	maximum = now + OperatorMemory
	for _, s := range a.opened {
		if s.Caches != nil {
			n, m := s.Caches()
			now += n
			maximum += m
		}
	}
	return now, maximum, outside
}

// cgroupLimit returns the smallest memory limit of the process's cgroups, v1 or v2. procFile lists the cgroups; root
// is their mount point.
func cgroupLimit(procFile, root string) (limit int64, ok bool) {
	groups, err := os.ReadFile(procFile)
	if err != nil {
		return 0, false // not Linux
	}
	limit = math.MaxInt64
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir, file := root, "memory.max"
		switch {
		case parts[0] == "0" && parts[1] == "":
		case strings.Contains(","+parts[1]+",", ",memory,"):
			dir, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's, and only the root exists.
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			if text, err := os.ReadFile(filepath.Join(dir, path, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
					limit = min(limit, n)
				}
			}
			if path == "/" {
				break
			}
		}
	}
	return limit, limit < 1<<60 // in version 1 a large number means no limit
}

// tendMemory adjusts the memory limit, and returns memory to the system after a load peak. Otherwise an idle server
// stays large for two minutes, until the next collection.
func tendMemory(ctx context.Context, b *web.Memory, adjust func()) {
	// Use the peak: a quickly sent response is charged only briefly, but leaves as much garbage.
	const every, much = 2 * time.Second, 64
	for busy := false; clock.Sleep(ctx, every); {
		adjust()
		if b.TakePeak() > b.Stats().Capacity/much {
			busy = true
		} else if busy {
			busy = false
			debug.FreeOSMemory() // twice, because a sync.Pool survives one collection
			debug.FreeOSMemory()
		}
	}
}
