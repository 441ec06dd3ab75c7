package replica

import (
	"os"
	"slices"
	"time"
)

// push queues a file. Above the limit it drops the queue, and the database is captured again when the target is
// available.
func (s *source) push(f ltxFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		_ = os.Remove(f.path(s.spool))
		return
	}
	s.waiting = append(s.waiting, f)
	s.bytes += f.counted()
	s.state = state{Position: s.chain.position(), asOf: f.asOf, bodies: s.written(), round: s.round}
	if f.from == 1 {
		s.last = snapshot{size: f.size, at: f.asOf}
	} else {
		s.last.since += f.size
	}
	if s.bytes > s.limit {
		s.drop()
	}
}

// drop requires the lock.
func (s *source) drop() {
	for _, f := range slices.Concat(s.waiting, s.kept, []ltxFile{s.snapshot}) {
		_ = os.Remove(f.path(s.spool))
	}
	s.waiting, s.kept, s.snapshot, s.bytes = nil, nil, ltxFile{}, 0
	s.away, s.broken = true, true
	s.state.Run = ""
}

// replace starts a new series unless another run has begun.
func (s *source) replace(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Run == run {
		s.drop()
		s.away = false
	}
}

// forget requires the lock.
func (s *source) forget(files []ltxFile) {
	for _, f := range files {
		_ = os.Remove(f.path(s.spool))
	}
	s.kept = s.kept[min(len(files), len(s.kept)):]
}

// pushSnapshot queues a file with all pages. It replaces an earlier one that was not sent.
func (s *source) pushSnapshot(f ltxFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshot.run != "" || s.broken {
		_ = os.Remove(s.snapshot.path(s.spool))
	}
	if s.broken {
		_ = os.Remove(f.path(s.spool))
		return
	}
	s.snapshot, s.last = f, snapshot{size: f.size, at: f.asOf}
}

const (
	snapshotEvery = 24 * time.Hour
	// snapshotLeast is the total size of files that a restore reads fast enough. Below it, only snapshotEvery causes a
	// snapshot.
	snapshotLeast = 16 << 20
)

// needsSnapshot reports whether a restore would read too many files since the last snapshot.
func (s *source) needsSnapshot(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.last
	return l.since > 0 && now.Sub(l.at) >= snapshotEvery || l.since > max(l.size, s.least)
}

// snapshotWaiting returns the snapshot to send, if any.
func (s *source) snapshotWaiting() (ltxFile, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot, s.snapshot.run != ""
}

// snapshotShipped deletes a sent snapshot.
func (s *source) snapshotShipped(f ltxFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshot == f {
		_ = os.Remove(f.path(s.spool))
		s.snapshot = ltxFile{}
	}
}

// mergeable returns the files in the target that lead to a published position, and their merged file.
func (s *source) mergeable(position Position) (files []ltxFile, merged ltxFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.kept {
		if f.run != position.Run || f.to > position.TXID {
			break
		}
		files = append(files, f)
	}
	if len(files) > 0 {
		merged = files[len(files)-1]
		merged.from, merged.size = files[0].from, 0
	}
	return files, merged
}

// merged deletes files that were sent merged.
func (s *source) merged(files []ltxFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= len(files) && len(files) > 0 && s.kept[0] == files[0] {
		s.forget(files)
	}
}

// captured records a capture without changes.
func (s *source) captured(asOf time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.asOf, s.state.round = asOf, s.round
}

func (s *source) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

func (s *source) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// pending returns how far the database is captured, and the files to send.
func (s *source) pending() (state, []ltxFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, append([]ltxFile(nil), s.waiting...)
}

// shipped removes a sent file from the queue, and keeps it for merging.
func (s *source) shipped(f ltxFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 || s.waiting[0] != f {
		return
	}
	s.waiting, s.bytes = s.waiting[1:], s.bytes-f.counted()
	if f.from == 1 || s.once {
		_ = os.Remove(f.path(s.spool))
		return
	}
	s.kept = append(s.kept, f)
	var size int64
	for _, f := range s.kept {
		size += f.size
	}
	if size > s.limit { // the files stay unmerged in the target
		s.forget(s.kept)
	}
}

// reachable allows captures again after the target answered.
func (s *source) reachable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = false
}
