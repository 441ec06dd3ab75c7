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
	baseMemory = 48 << 20
)

// limitMemory tells the runtime how much memory the server may have, so that the
// garbage collector runs before it has more. operator is the variable GOMEMLIMIT,
// which the runtime has read already; "" when it is not set.
func (a *App) limitMemory(operator string) {
	heap, outside := a.memoryNeeded()
	group, limited := cgroupLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	limit, source := heap, "settings"
	level := slog.LevelInfo
	if most := group - group/10 - outside; limited && most < heap { // what the runtime does not count takes some
		limit, source, level = max(most, baseMemory), "cgroup", slog.LevelWarn
	}
	if operator != "" {
		limit, source, level = debug.SetMemoryLimit(-1), "GOMEMLIMIT", slog.LevelInfo
	} else {
		debug.SetMemoryLimit(limit + HeapFloor)
	}
	attrs := []slog.Attr{slog.Int64("bytes", limit), slog.String("source", source), slog.Int64("settings_need", heap+outside)}
	if limited {
		attrs = append(attrs, slog.Int64("cgroup", group))
	}
	if level == slog.LevelWarn {
		attrs = append(attrs, slog.String("hint", "lower server.request_memory, or give the server more memory"))
	}
	a.log.LogAttrs(context.Background(), level, "memory limit", attrs...)
}

// memoryNeeded is how much memory the settings allow the server to take, in the heap
// of the runtime and outside of it.
func (a *App) memoryNeeded() (heap, outside int64) {
	heap = baseMemory + a.cfg.Server.RequestMemory
	for _, s := range a.opened {
		heap += s.CacheBytes
	}
	for _, d := range a.databases() {
		h, o := d.Memory()
		heap += h
		outside += o
	}
	return heap, outside
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

// returnMemory gives memory back to the system soon after requests have had much of
// it. The runtime collects garbage when the heap has grown or after two minutes, and a
// server that is idle after much work would stay large for as long.
func returnMemory(ctx context.Context, b *web.Memory) {
	const every, much = 2 * time.Second, 8 // an eighth
	for busy := false; clock.Rest(ctx, every); {
		if b.TakePeak() > b.Stats().Capacity/much {
			busy = true
		} else if busy {
			busy = false
			debug.FreeOSMemory() // what pools keep survives one collection
			debug.FreeOSMemory()
		}
	}
}
