package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

// Sending says where Send makes a backup, and how it verifies it.
type Sending struct {
	Settings

	// Typed means that the URL differs from backup.url, so failures are not recorded.
	Typed bool

	// Identity is the private key file for verifying an encrypted backup by a restore, or "".
	Identity string

	Progress func(what string) // called before each step; required
}

// Sent is a backup in a folder or bucket.
type Sent struct {
	Name     string        // URL without parameters
	Point    replica.Point // the new restore point
	Restored bool          // whether at least one database was restored and read to verify the backup
}

const (
	// spoolFolder is below the data folder; it holds a folder for each URL.
	spoolFolder = "backup-spool"
	// lockName is the file in the data folder that a process locks while it makes a backup.
	lockName = "backup"
)

// Send backs up a server's data to a URL. It only sends changes since the previous backup, verifies the backup, and
// deletes old backups by Settings.Keep.
func (b *Server) Send(ctx context.Context, s *Sending) (sent Sent, err error) {
	if s.Progress == nil {
		s.Progress = func(string) {}
	}
	sent.Name = location.Name(s.URL)
	if err := durable.MakeFolder(spool(b.Data, s.URL)); err != nil {
		return sent, err
	}
	if s.Identity != "" {
		if _, err := location.Identities(s.Identity); err != nil {
			return sent, err
		}
	}
	lock, err := b.lock(ctx)
	if err != nil {
		return sent, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	sent.Point, sent.Restored, err = b.send(ctx, s)
	if ctx.Err() == nil && !s.Typed {
		b.recordFailure(sent.Name, err)
	}
	if err != nil {
		err = fmt.Errorf("backup to %s failed: %w", sent.Name, err)
	}
	return sent, err
}

// lock keeps other processes from making a backup of this data folder.
func (b *Server) lock(ctx context.Context) (*sqlitedb.Lock, error) {
	lock, err := sqlitedb.AcquireLock(ctx, filepath.Join(b.Data, lockName))
	if inUse, ok := errors.AsType[*sqlitedb.InUseError](err); ok {
		by := "another process"
		if inUse.Holder != "" {
			by = inUse.Holder
		}
		return nil, fmt.Errorf("%s makes a backup of this data folder: wait until it ends", by)
	}
	return lock, err
}

// send makes and verifies a backup. restored reports whether a database was restored for that.
func (b *Server) send(ctx context.Context, s *Sending) (point replica.Point, restored bool, err error) {
	o, closeIt, err := b.open(ctx, s)
	if err != nil {
		return point, false, err
	}
	r := replica.New(o)
	defer func() { err = errors.Join(err, closeIt()) }()
	s.Progress("sending changes to " + location.Name(s.URL))
	if err := b.sync(ctx, r); err != nil {
		return point, false, errors.Join(err, r.Close(ctx))
	}
	if point = r.Published(); point.Number == 0 {
		return point, false, errors.New("there is nothing to back up: no database is a SQLite file, and the data folder has no secrets file")
	}
	if err := r.Close(ctx); err != nil {
		return point, false, err
	}
	if s.Verify && (len(s.Recipients) == 0 || s.Identity != "") {
		err := b.verifySent(ctx, s)
		if ctx.Err() == nil && !s.Typed {
			damage := ""
			if err != nil {
				damage = err.Error()
			}
			b.RecordVerified(s.URL, point, damage)
		}
		if err != nil {
			return point, false, err
		}
		restored = len(point.Files) > 0
	}
	if err = r.Tidy(ctx); err != nil {
		err = fmt.Errorf("the backup was made, but older ones could not be deleted: %w", err)
	}
	if noticed := r.Status().Noticed; noticed != nil {
		err = errors.Join(err, fmt.Errorf("the backup was made, but %w", noticed))
	}
	lost := b.logBodies(r.Status().Bodies)
	if lost > 0 {
		err = errors.Join(err, &IncompleteError{lost})
	}
	return point, restored, errors.Join(err, b.recordSent(ctx, s.URL, o.Target, lost))
}

// logBodies logs files that are not in the backup, and returns how many could not be read.
func (b *Server) logBodies(s replica.BodyStatus) (lost int64) {
	for _, what := range s.Omitted {
		b.Log.Warn("not in the backup", "what", what)
	}
	for _, what := range s.Names {
		b.Log.Error("could not be read", "what", what)
	}
	return s.Unreadable
}

// sync makes the restore point while the services hold their files.
func (b *Server) sync(ctx context.Context, r *replica.Replica) error {
	held, release, err := b.hold(ctx, Options{})
	if err != nil {
		return err
	}
	defer release()
	return r.Sync(held)
}

// open opens the target, and returns the options for a replica that runs once.
func (b *Server) open(ctx context.Context, s *Sending) (o replica.Options, closeIt func() error, err error) {
	recipients, err := s.Keys()
	if err != nil {
		return o, nil, err
	}
	if err := location.Outside(s.URL, b.Data); err != nil {
		return o, nil, err
	}
	rule, err := replica.ParseKeep(s.Keep)
	if err != nil {
		return o, nil, err
	}
	id, err := location.ServerID(b.Data)
	if err != nil {
		return o, nil, err
	}
	key, err := location.SigningKey(b.Data)
	if err != nil {
		return o, nil, err
	}
	o = replica.Options{
		Server: id, Key: key, Known: b.Known, Location: location.Name(s.URL), Once: true, Rule: rule, Recipients: recipients, Spool: spool(b.Data, s.URL), Files: map[string]*sqlitedb.DB{}, Bodies: map[string]replica.Bodies{},
		Also: map[string]string{secrets.File: filepath.Join(b.Data, secrets.File)}, Clock: b.Clock, Log: b.Log,
		Dismissed: func() (map[string]time.Time, error) { return Dismissed(b.Data) },
	}
	for _, d := range b.databases() {
		if !d.Embedded() {
			b.Log.Warn("database not in the backup, use its server's tools", "service", d.Service, "database", d.Where)
			continue
		}
		name := engine.FileName(d.Service)
		o.Files[name], o.Order = d.File(), append(o.Order, name)
	}
	for _, running := range b.Services {
		if running.Files != nil && running.Files.Bodies != nil {
			o.Bodies[running.Name] = *running.Files.Bodies
		}
	}
	o.Target, closeIt, err = b.Clouds.Open(ctx, s.URL)
	return o, closeIt, err
}

// spool returns the spool for a URL. It depends on the whole URL, so a changed prefix begins a new series.
func spool(data, address string) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(data, spoolFolder, hex.EncodeToString(sum[:8]))
}
