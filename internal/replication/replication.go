package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

const (
	spoolFolder = "replica-spool" // spoolFolder is below the data folder; it holds changes that were not sent yet.

	closeTime = 5 * time.Second // closeTime limits each shutdown step: the next start sends the rest.

	// Late is the lag that causes a warning.
	Late = 30 * time.Second
)

// Options configure Open. All fields are required.
type Options struct {
	Settings Settings
	Clouds   location.Clouds
	Data     string             // data folder
	Services []*service.Running // open, with their databases
	Known    replica.Names      // as in backup.Server
	Clock    clock.Clock
	Log      *slog.Logger
}

// Replication replicates a server. nil means no replica.
type Replication struct {
	url     string
	replica *replica.Replica
	closeIt func() error // closes the target
	clock   clock.Clock
	log     *slog.Logger
	started time.Time // the lag before the first point counts from here
}

// Open returns nil if no replica is configured or no database is a SQLite file.
func Open(ctx context.Context, o Options) (*Replication, error) {
	files, bodies := map[string]*sqlitedb.DB{}, map[string]replica.Bodies{}
	for _, s := range o.Services {
		if s.Files != nil && s.Files.Bodies != nil && s.Embedded() {
			bodies[s.Name] = *s.Files.Bodies
		}
		for _, d := range s.Databases {
			if d.Embedded() {
				files[engine.FileName(d.Service)] = d.File()
			}
		}
	}
	if o.Settings.URL == "" || len(files) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	recipients, err := o.Settings.Keys()
	if err != nil {
		return nil, fmt.Errorf("replica.recipients: %w", err)
	}
	keep, err := replica.ParseKeep(o.Settings.Keep)
	if err != nil {
		return nil, fmt.Errorf("replica.keep: %w", err)
	}
	if err := location.Outside(o.Settings.URL, o.Data); err != nil {
		return nil, fmt.Errorf("replica.url: %w", err)
	}
	id, err := location.ServerID(o.Data)
	if err != nil {
		return nil, err
	}
	key, err := location.SigningKey(o.Data)
	if err != nil {
		return nil, err
	}
	target, closeIt, err := o.Clouds.Open(ctx, o.Settings.URL)
	if err != nil {
		return nil, fmt.Errorf("replica.url: %w", err)
	}
	r := &Replication{url: location.Name(o.Settings.URL), closeIt: closeIt, clock: o.Clock, log: o.Log, started: o.Clock()}
	r.replica = replica.New(replica.Options{
		Server: id, Key: key, Known: o.Known, Files: files, Bodies: bodies, Also: map[string]string{secrets.File: filepath.Join(o.Data, secrets.File)},
		Target: target, Location: location.Name(o.Settings.URL), Recipients: recipients, Spool: filepath.Join(o.Data, spoolFolder), SpoolBytes: o.Settings.SpoolBytes,
		Keep: o.Settings.Retention, Rule: keep, Interval: o.Settings.Interval, Clock: o.Clock, Log: o.Log,
		Dismissed: func() (map[string]time.Time, error) { return backup.Dismissed(o.Data) },
	})
	return r, nil
}

// Start begins to replicate in the background. Close ends it. Without a replica it does nothing.
func (r *Replication) Start() {
	if r != nil {
		r.replica.Start()
	}
}

// CloseFiles sends the queued service files, for a limited time. Call it before stopping the services.
func (r *Replication) CloseFiles(ctx context.Context) error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := r.replica.CloseBodies(ctx); err != nil {
		r.log.Warn("the replica lacks the latest files", "error", err)
	}
	return nil
}

// Close sends the last changes, for a limited time; the next start sends the rest. Call it before closing the
// databases.
func (r *Replication) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := r.replica.Close(ctx); err != nil {
		r.log.Warn("the replica lacks the latest changes", "error", err)
	}
	return r.closeIt()
}

// State describes the replica for the console, alerts and metrics.
type State struct {
	URL     string        // without credentials
	Since   time.Time     // the newest restore point contains all writes acknowledged before; zero before the first point
	Lag     time.Duration // age of the oldest write that may be missing
	Waiting int64         // bytes to send
	Problem string        // why the last attempt failed, or ""

	// Noticed is a sign that somebody else changed the target, or "". A later success does not end it, because points may be
	// missing for good; the next start does, which compares with the points of this process.
	Noticed string

	Unreadable int64    // service files without a good copy, missing from the replica
	Examples   []string // with the reason
	Omitted    []string // a line per file
}

// State returns nil without a replica.
func (r *Replication) State() *State {
	if r == nil {
		return nil
	}
	status := r.replica.Status()
	files := status.Bodies
	s := &State{
		URL: r.url, Since: status.Since, Waiting: status.WaitingBytes + files.WaitingBytes, Lag: max(0, r.clock().Sub(r.started)),
		Unreadable: files.Unreadable, Examples: files.Names, Omitted: files.Omitted,
	}
	if !s.Since.IsZero() {
		s.Lag = status.Lag(r.clock())
	}
	if err := errors.Join(status.CaptureError, status.ShipError, files.Error); err != nil {
		s.Problem = service.Reason(err)
	}
	if status.Noticed != nil {
		s.Noticed = service.Reason(status.Noticed)
	}
	return s
}

// Finding describes the state as holdfast check does: a warning if the replica is Late, was changed by others, or
// lacks files.
func (s *State) Finding() service.Finding {
	f := service.Finding{State: service.OK, What: "replica", Says: "the newest restore point in " + s.URL + " has every write until " + service.FormatMoment(s.Since)}
	if s.Since.IsZero() {
		f.Says = s.URL + " has no restore point since the start yet"
	}
	if s.Lag > Late {
		f.State, f.Says = service.Warning, f.Says+fmt.Sprintf(": it is %s behind", s.Lag.Round(time.Second))
		f.Fix = "see whether " + s.URL + " can be reached and written"
	}
	if s.Problem != "" {
		f.Says += "; the last attempt failed: " + s.Problem
	}
	if s.Noticed != "" {
		f.State = service.Warning
		f.Says += "; " + s.Noticed
		f.Fix = cmp.Or(f.Fix, "see who may write to "+s.URL+"; a restart of the server ends this finding")
	}
	if s.Unreadable > 0 {
		f.State = service.Warning
		f.Says += fmt.Sprintf("; it lacks %s that cannot be read, e.g. %s", service.Count(s.Unreadable, "file"), s.Examples[0])
		f.Fix = cmp.Or(f.Fix, "restore the files on their storage nodes from a backup, or delete their objects")
	}
	for _, what := range s.Omitted {
		f.Says += "; not in it: " + what
	}
	return f
}

// Check reads a server's replica, which another process may be writing, without changes.
func Check(ctx context.Context, clouds location.Clouds, s *Settings, data string) []service.Finding {
	if s.URL == "" {
		return nil
	}
	name := location.Name(s.URL)
	content, problem := backup.Location{Clouds: clouds, What: "replica", Holds: "replica", URL: s.URL, Data: data, Spool: filepath.Join(data, spoolFolder)}.Inspect(ctx)
	if problem != nil {
		return []service.Finding{*problem}
	}
	f := service.Finding{State: service.OK, What: "replica", Says: name + " has no restore point yet"}
	switch n := len(content.Points); {
	case content.Server == "":
		f.Says = name + " contains no replica yet; a server starts it"
	case n > 0:
		f.Says = fmt.Sprintf("%s: %s, the newest from %s, signed by %s", name, service.Count(int64(n), "restore point"), service.FormatMoment(content.Points[n-1].Time), content.Key)
	}
	return []service.Finding{f}
}
