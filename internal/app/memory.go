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
	// HeapFloor is memory that the program allocates first of all and never touches,
	// so it takes address space only. The garbage collector starts when the heap has
	// doubled, and under load one of 5 MB doubles every few hundred requests. With the
	// floor it runs a quarter as often, for as much more memory at most. GOGC=400 takes
	// as little CPU, but five times the memory of a large heap.
	HeapFloor = 16 << 20

	// baseMemory is what the server has besides budgets and caches: 10 MB when idle,
	// 20 KB for each connection, the work of a request that is not charged, and what
	// the garbage collector needs so that it does not run all the time.
	baseMemory = 32 << 20
)

// limitMemory tells the runtime how much memory the server may have, so that the
// garbage collector runs before it has more. Without the operator's own GOMEMLIMIT it
// returns a function that adjusts the limit to the caches as they are: space that they
// do not use is not for garbage.
func (a *App) limitMemory() (adjust func()) {
	now, most, outside := a.memoryNeeded()
	group, limited := cgroupLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	attrs := []slog.Attr{slog.Int64("settings_need", most+outside)}
	ceiling := int64(math.MaxInt64)
	if limited {
		attrs = append(attrs, slog.Int64("cgroup", group))
		ceiling = max(group-group/10-outside, baseMemory) // what the runtime does not count takes some
	}
	level, limit, source := slog.LevelInfo, min(now, ceiling), "settings"
	switch {
	case a.limit != "":
		limit, source = debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	case ceiling < most:
		level, source = slog.LevelWarn, "cgroup"
		attrs = append(attrs, slog.String("hint", "lower server.request_memory, or give the server more memory"))
	}
	attrs = append([]slog.Attr{slog.Int64("bytes", limit), slog.String("source", source)}, attrs...)
	a.log.LogAttrs(context.Background(), level, "memory limit", attrs...)
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

// memoryNeeded is how much memory the server may take: in the heap of the runtime with
// its caches as they are and as they may become, and outside of the heap.
func (a *App) memoryNeeded() (now, most, outside int64) {
	now = baseMemory + a.cfg.Server.RequestMemory
	for _, d := range a.databases() {
		h, o := d.Memory()
		now += h
		outside += o
	}
	most = now
	for _, s := range a.opened {
		if s.Caches != nil {
			n, m := s.Caches()
			now += n
			most += m
		}
	}
	return now, most, outside
}

// cgroupLimit is the least limit of memory of the process's control groups, of either
// version. procFile is where the kernel names them and root where they are mounted.
func cgroupLimit(procFile, root string) (limit int64, ok bool) {
	groups, err := os.ReadFile(procFile)
	if err != nil {
		return 0, false // another system
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
		// In a container the path may be the one outside of it, and only the root is
		// there.
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
	return limit, limit < 1<<60 // version 1 has a large number for none
}

// tendMemory adjusts the memory limit, and gives memory back to the system soon after
// requests have had much of it. The runtime collects garbage when the heap has grown or
// after two minutes, and a server that is idle after much work would stay large for as
// long.
func tendMemory(ctx context.Context, b *web.Memory, adjust func()) {
	// Answers that the kernel takes at once are charged for a moment only, and much
	// garbage all the same.
	const every, much = 2 * time.Second, 64 // a sixty-fourth of the budget
	for busy := false; clock.Rest(ctx, every); {
		adjust()
		if b.TakePeak() > b.Stats().Capacity/much {
			busy = true
		} else if busy {
			busy = false
			debug.FreeOSMemory() // what pools keep survives one collection
			debug.FreeOSMemory()
		}
	}
}
