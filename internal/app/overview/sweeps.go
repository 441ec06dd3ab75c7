package overview

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Sweeps have the state of the periodic jobs, for the console.
type Sweeps struct {
	mu  sync.Mutex
	all []swept
}

// swept is the state of a job.
type swept struct {
	job   string
	every time.Duration
	began time.Time // the start of the server
	at    time.Time // of the latest round that succeeded, in this or another process; zero: there was none
	rows  int       // of the latest round of this process
	total int       // rows of this process since the start
	err   error     // of the latest round of this process, until another process begins one
}

// Expect adds a job before its first round.
func (s *Sweeps) Expect(job string, every time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, swept{job: job, every: every, began: now})
}

// Note records a round.
func (s *Sweeps) Note(job string, rows int, err error, now time.Time) {
	s.update(job, func(one *swept) {
		one.rows, one.err = rows, err
		if one.total += rows; err == nil {
			one.at = now
		}
	})
}

// NoteOther records a round of another process.
func (s *Sweeps) NoteOther(job string, now time.Time) {
	s.update(job, func(one *swept) { one.at, one.err = now, nil })
}

func (s *Sweeps) update(job string, change func(*swept)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].job == job {
			change(&s.all[i])
		}
	}
}

// list returns the jobs by name.
func (s *Sweeps) list() []swept {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.all)
	slices.SortFunc(all, func(a, b swept) int { return strings.Compare(a.job, b.job) })
	return all
}

// late reports whether the latest success is older than three intervals and ten minutes, as the
// alert HoldfastSweepLate does.
func (s *swept) late(now time.Time) bool {
	since := s.at
	if since.IsZero() {
		since = s.began
	}
	return now.Sub(since) > 3*s.every+10*time.Minute
}
