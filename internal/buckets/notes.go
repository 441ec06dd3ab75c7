package buckets

import (
	"context"
	"errors"
	"sync"
	"time"
)

// notes caches which buckets publish events or have a policy, so that a plain write reads no bucket. Entries live for
// KeyDelay.
type notes struct {
	mu   sync.Mutex
	note map[ownedName]note
}

type ownedName struct {
	owner AccountID
	name  string
}

// note keeps the facts that a write needs from its bucket.
type note struct {
	at        time.Time // when the settings were read
	bucket    BucketID
	hasPolicy bool
	rules     *Notifications // nil if the bucket publishes no events
}

// maxNotes limits the cache. A full cache is emptied: entries live less than a second.
const maxNotes = 10_000

// find returns a fresh note. A clock that was set back makes notes stale.
func (n *notes) find(owner AccountID, name string, now time.Time) (note, bool) {
	n.mu.Lock()
	entry, ok := n.note[ownedName{owner, name}]
	n.mu.Unlock()
	age := now.Sub(entry.at)
	return entry, ok && 0 <= age && age < KeyDelay
}

// forget drops a note, so that this process sees its own changes at once.
func (n *notes) forget(owner AccountID, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.note, ownedName{owner, name})
}

// add caches a bucket's facts. at must precede the read.
func (n *notes) add(b *Bucket, at time.Time) note {
	entry := note{at: at, bucket: b.ID, hasPolicy: !b.Settings.Policy.IsZero()}
	if !b.Settings.Notifications.IsZero() {
		entry.rules = &b.Settings.Notifications
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.note == nil || len(n.note) == maxNotes {
		n.note = map[ownedName]note{}
	}
	n.note[ownedName{b.Owner, b.Name}] = entry
	return entry
}

// get returns the notice for a write, or nil if the bucket does not exist or publishes no events.
func (n *notes) get(ctx context.Context, s *Service, owner AccountID, b BucketRef) (*Notice, error) {
	now := s.clock()
	entry, ok := n.find(owner, b.Name, now)
	if !ok || b.ID != "" && b.ID != entry.bucket {
		read, err := s.store.Bucket(ctx, owner, b.Name)
		if errors.Is(err, ErrNoBucket) {
			return nil, nil //nolint:nilnil // the write returns the error
		}
		if err != nil {
			return nil, err
		}
		entry = n.add(&read, now)
	}
	if entry.rules == nil || b.ID != "" && b.ID != entry.bucket {
		return nil, nil //nolint:nilnil // no events
	}
	return &Notice{Owner: owner, Bucket: BucketRef{Name: b.Name, ID: entry.bucket}, Rules: entry.rules}, nil
}

// IsPlain reports whether the bucket was read within KeyDelay and has no policy.
func (s *Service) IsPlain(owner AccountID, name string) bool {
	entry, ok := s.notes.find(owner, name, s.clock())
	return ok && !entry.hasPolicy
}

// Note caches settings that were read at the given time.
func (s *Service) Note(b *Bucket, at time.Time) { s.notes.add(b, at) }
