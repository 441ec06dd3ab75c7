package backup

import (
	"context"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/replica/location"
)

// Scheduler backs up a running server to backup.url. Set Server and call Set first.
type Scheduler struct {
	// Server returns the current server, whose services may have changed.
	Server func() *Server

	mu       sync.Mutex
	settings Settings
	state    SchedulerState
	wake     chan struct{}
	retry    time.Time // earliest next attempt after a failure
	fails    int       // consecutive failures
}

// Set changes the settings; Run then looks at once whether a backup is due.
func (s *Scheduler) Set(settings Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = settings
	s.wakeUp()
}

// Settings returns the settings of the last Set.
func (s *Scheduler) Settings() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// wakeUp requires the lock.
func (s *Scheduler) wakeUp() {
	if s.wake == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// SchedulerState is shown in the console.
type SchedulerState struct {
	Since time.Time // start of the running backup, or zero
	Next  time.Time // zero: none is scheduled
}

const (
	// poll is the interval of checking the clock, which may have been set.
	poll = 30 * time.Second

	// leastRetry is the delay after a failed backup. It grows up to mostRetry on further failures.
	leastRetry = 5 * time.Minute
	mostRetry  = time.Hour
)

// Run makes the scheduled backups until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	wake := make(chan struct{}, 1)
	s.mu.Lock()
	s.wake = wake
	s.mu.Unlock()
	ticks := time.NewTicker(poll)
	defer ticks.Stop()
	for {
		s.runDue(ctx)
		select {
		case <-ticks.C:
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// CanMake returns why Make would refuse now, or nil: Invalid without a URL, Conflict during a backup.
func (s *Scheduler) CanMake() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.settings.URL == "":
		return errcode.New(errcode.Invalid, "backup.url is not set: set it, or run holdfast backup DIR")
	case !s.state.Since.IsZero():
		return errcode.New(errcode.Conflict, "a backup is being made already")
	}
	return nil
}

// Make makes a backup now, and returns when it has ended. It returns the errors of CanMake. progress is called before each
// step.
func (s *Scheduler) Make(ctx context.Context, progress func(what string)) (Sent, error) {
	server := s.Server()
	if err := s.CanMake(); err != nil {
		return Sent{}, err
	}
	if !s.begin(server.Clock()) {
		return Sent{}, errcode.New(errcode.Conflict, "a backup is being made already")
	}
	return s.send(ctx, server, progress)
}

// begin reports whether no other backup is being made, and marks this one.
func (s *Scheduler) begin(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Since.IsZero() {
		return false
	}
	s.state.Since = now
	return true
}

// Verify verifies the newest backup at or before a time; zero selects the newest.
func (s *Scheduler) Verify(ctx context.Context, at time.Time, progress func(what string)) ([]service.Finding, error) {
	server, settings := s.Server(), s.Settings()
	into := spool(server.Data, settings.URL)
	if err := durable.MakeFolder(into); err != nil {
		return nil, err
	}
	trust, err := location.Own(server.Data)
	if err != nil {
		return nil, err
	}
	v := Verifying{Clouds: server.Clouds, URL: settings.URL, Known: server.Known, Trust: trust, At: at, Temporary: into, Progress: progress}
	findings, err := v.verify(ctx)
	if err != nil {
		return nil, err
	}
	var damages []string
	for _, f := range findings {
		if f.State == service.Wrong {
			damages = append(damages, f.What+": "+f.Says)
		}
	}
	server.RecordVerified(settings.URL, v.point, strings.Join(damages, "; "))
	return findings, nil
}

// State returns the state now. It does not wait for a backup.
func (s *Scheduler) State() SchedulerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// runDue makes a backup if one is due.
func (s *Scheduler) runDue(ctx context.Context) {
	server := s.Server()
	settings, now := s.Settings(), server.Clock()
	next, err := settings.next(server.Data, now)
	if err != nil {
		server.Log.Warn("the time of the latest backup is unknown: making a backup now", "error", err)
		next = now
	}
	s.mu.Lock()
	s.state.Next = next
	isDue := !next.IsZero() && !now.Before(next) && (!now.Before(s.retry) || s.retry.After(now.Add(mostRetry)))
	s.mu.Unlock()
	if isDue && s.begin(now) {
		_, _ = s.send(ctx, server, nil)
	}
}

// send makes a backup and logs its end.
func (s *Scheduler) send(ctx context.Context, server *Server, progress func(what string)) (Sent, error) {
	settings := s.Settings()
	server.Log.Info("making a backup", "url", location.Name(settings.URL))
	sent, err := server.Send(ctx, &Sending{Settings: settings, Progress: progress})
	switch {
	case err == nil:
		server.Log.Info("made a backup", "url", sent.Name, "time", sent.Point.Time)
	case ctx.Err() == nil:
		server.Log.Error("backup failed", "error", err)
	}
	s.ended(server, err, ctx.Err() != nil)
	return sent, err
}

// ended schedules the next backup, or the next attempt after a failure.
func (s *Scheduler) ended(server *Server, err error, wasStopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, _ := s.settings.next(server.Data, server.Clock())
	s.state = SchedulerState{Next: next}
	if err == nil {
		s.fails, s.retry = 0, time.Time{}
		return
	}
	if wasStopped {
		return
	}
	s.retry = server.Clock().Add(min(leastRetry<<s.fails, mostRetry))
	s.fails = min(s.fails+1, 8)
}

// next returns now before the first backup, and zero without a schedule.
func (s *Settings) next(data string, now time.Time) (time.Time, error) {
	schedule, err := ParseSchedule(s.Schedule)
	if err != nil || schedule.IsZero() || s.URL == "" {
		return time.Time{}, err
	}
	at, err := last(data, s.URL)
	if err != nil || at.IsZero() {
		return now, err
	}
	if at.After(now) { // the clock was wrong
		at = now
	}
	return schedule.Next(at.Local()), nil
}

// Late reports whether a backup was missed: two backups are due by the schedule. It is false without a schedule or
// before the first backup.
func (s *Settings) Late(data string, now time.Time) bool {
	schedule, err := ParseSchedule(s.Schedule)
	if err != nil || schedule.IsZero() {
		return false
	}
	at, err := last(data, s.URL)
	if err != nil || at.IsZero() {
		return false
	}
	return now.After(schedule.Next(schedule.Next(at.Local())))
}
