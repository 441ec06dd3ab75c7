package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
)

const (
	sqlBuckets = `SELECT b.id, b.name, b.owner, b.created, settings, b.versioning, b.object_lock FROM manta_bucket b
		LEFT JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id`
	sqlBucket      = sqlBuckets + ` WHERE b.owner = ? AND b.name = ?`
	sqlFindBuckets = sqlBuckets + ` WHERE b.name >= ?1 AND b.name < ?2 ORDER BY b.name, b.owner LIMIT ?3 + 0`
	sqlListBuckets = sqlBuckets + ` WHERE b.owner = ?1 AND b.name >= ?2 ORDER BY b.name LIMIT +?3`
	sqlHasBucket   = `SELECT id, versioning, object_lock FROM manta_bucket WHERE owner = ? AND name = ? AND id = ?`
	sqlBucketID    = `SELECT id, versioning, object_lock FROM manta_bucket WHERE owner = ? AND name = ?`
	sqlAddBucket   = `INSERT INTO manta_bucket (owner, name, id, created) VALUES (?, ?, ?, ?)`
	sqlSetSettings = `INSERT OR REPLACE INTO manta_bucket_settings (owner, bucket_id, settings) VALUES (?, ?, ?)`
	sqlHasObjects  = `SELECT 1 FROM manta_bucket_object WHERE owner = ? AND bucket_id = ? LIMIT 1`
	sqlHasVersions = `SELECT 1 FROM manta_bucket_version WHERE owner = ? AND bucket_id = ? LIMIT 1`
	sqlBuryBucket  = `INSERT INTO manta_bucket_deleted_bucket (id, name, owner, created, deleted_at)
		SELECT id, name, owner, created, ?3 FROM manta_bucket WHERE owner = ?1 AND name = ?2`
	sqlDeleteBucket = `DELETE FROM manta_bucket WHERE owner = ? AND name = ?`
)

// scanBucket reads the columns in sqlBuckets.
func scanBucket(r *sqlite.Stmt) (b buckets.Bucket, err error) {
	b = buckets.Bucket{
		BucketRef: buckets.BucketRef{ID: buckets.BucketID(r.ColumnText(0)), Name: r.ColumnText(1)},
		Owner:     buckets.AccountID(r.ColumnText(2)), Created: buckets.Moment(r.ColumnInt64(3)),
		Versioning: buckets.Versioning(r.ColumnInt(5)),
	}
	b.Lock, err = bucketLock(r, 6)
	return b, errors.Join(err, column(r, 4, &b.Settings))
}

// bucketLock reads a bucket's object lock. NULL means off; an empty object, on without a default retention.
func bucketLock(r *sqlite.Stmt, i int) (l buckets.BucketLock, err error) {
	l.Enabled = !r.ColumnIsNull(i)
	return l, column(r, i, &l)
}

// bucketCache caches buckets, because every request needs one. Changes by this process are visible at once, and changes
// by commands, which are processes of their own, after KeyDelay.
type bucketCache struct {
	clock   func() time.Time
	mu      sync.Mutex
	buckets map[bucketName]cachedBucket
	bytes   int
	changes int
}

type cachedBucket struct {
	buckets.Bucket
	read time.Time
}

// cacheState is the state of the cache before a bucket is read from the database.
type cacheState struct {
	changes int
	at      time.Time
}

type bucketName struct {
	owner buckets.AccountID
	name  string
}

// Cache limits. Most buckets have few settings, but lifecycle rules may take 512 KB.
const (
	cachedBuckets = 10_000
	cachedBytes   = 64 << 20
)

// get returns a cached bucket, or else the state for add.
func (c *bucketCache) get(n bucketName) (b buckets.Bucket, ok bool, s cacheState) {
	now := c.clock()
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.buckets[n]
	age := now.Sub(entry.read)
	return entry.Bucket, ok && 0 <= age && age < buckets.KeyDelay, cacheState{c.changes, now}
}

// add caches a bucket, unless buckets were changed since get.
func (c *bucketCache) add(n bucketName, b buckets.Bucket, s cacheState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != s.changes {
		return
	}
	size := b.Memory()
	if c.buckets == nil || len(c.buckets) == cachedBuckets || c.bytes+size > cachedBytes {
		c.buckets, c.bytes = map[bucketName]cachedBucket{}, 0
	}
	c.forget(n)
	c.buckets[n] = cachedBucket{b, s.at}
	c.bytes += size
}

// changed drops a bucket even if it is unknown whether the change succeeded.
func (c *bucketCache) changed(n bucketName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(n)
	c.changes++
}

// forget requires the lock.
func (c *bucketCache) forget(n bucketName) {
	if b, ok := c.buckets[n]; ok {
		c.bytes -= b.Memory()
		delete(c.buckets, n)
	}
}

// readBuckets reads all buckets that a query returns.
func readBuckets(c *sqlite.Conn, sql string, args ...any) (all []buckets.Bucket, err error) {
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		b, err := scanBucket(r)
		all = append(all, b)
		return err
	}, args...)
	return all, err
}

// CreateBucket implements buckets.Buckets.
func (s *Store) CreateBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, now buckets.Moment) (made buckets.Bucket, err error) {
	if err := owner.Check(); err != nil {
		return made, err
	}
	err = s.db.WriteChecked(ctx, "create_bucket", func(c *sqlite.Conn) error {
		if err := hasAccount(c, owner); err != nil {
			return err
		}
		matches, err := readBuckets(c, sqlBucket, owner, b.Name)
		if err == nil && len(matches) > 0 {
			made, err = matches[0], buckets.ErrBucketExists
		}
		return err
	}, func(c *sqlite.Conn) error {
		made = buckets.Bucket{BucketRef: b, Owner: owner, Created: now}
		return sqlitedb.Exec(c, sqlAddBucket, owner, b.Name, b.ID, now)
	})
	return made, err
}

// Bucket implements lifecycle.Store.
func (s *Store) Bucket(ctx context.Context, owner buckets.AccountID, name string) (b buckets.Bucket, err error) {
	if err := owner.Check(); err != nil {
		return b, err
	}
	key := bucketName{owner, name}
	b, ok, state := s.cache.get(key)
	if ok {
		return b, nil
	}
	err = s.db.ReadOne(ctx, "bucket", func(c *sqlite.Conn) error {
		matches, err := readBuckets(c, sqlBucket, owner, name)
		switch {
		case err != nil:
			return err
		case len(matches) == 0:
			return buckets.ErrNoBucket
		}
		b = matches[0]
		return nil
	})
	if err == nil {
		s.cache.add(key, b, state)
	}
	return b, err
}

// Buckets implements buckets.Buckets.
func (s *Store) Buckets(ctx context.Context, owner buckets.AccountID, q buckets.BucketQuery) (page []buckets.Bucket, more bool, err error) {
	if err := owner.Check(); err != nil {
		return nil, false, err
	}
	err = s.db.Read(ctx, "list_buckets", func(c *sqlite.Conn) error {
		l := buckets.NewBucketLister(q)
		err := sqlitedb.ForEach(c, sqlListBuckets, func(r *sqlite.Stmt) error {
			b, err := scanBucket(r)
			if err == nil && l.Add(b) {
				err = errStop
			}
			return err
		}, owner, max(q.Prefix, q.After+"\x00"), q.Limit+1) // SQLite seeks to one bound and scans up to the other
		if errors.Is(err, errStop) {
			err = nil
		}
		page, more = l.Page()
		return err
	})
	return page, more, err
}

// FindBuckets implements buckets.Finder.
func (s *Store) FindBuckets(ctx context.Context, prefix string, limit int) (all []buckets.Bucket, err error) {
	err = s.db.Read(ctx, "find_buckets", func(c *sqlite.Conn) error {
		all, err = readBuckets(c, sqlFindBuckets, prefix, prefix+afterNames, limit)
		return err
	})
	return all, err
}

const afterNames = "~"

// hasBucket returns ErrNoBucket unless the account owns the bucket under both its name and its ID.
func hasBucket(c *sqlite.Conn, owner buckets.AccountID, b buckets.BucketRef) error {
	found, err := exists(c, sqlHasBucket, owner, b.Name, b.ID)
	if err == nil && !found {
		return buckets.ErrNoBucket
	}
	return err
}

// bucketState is the part of a bucket that decides how an object is written.
type bucketState struct {
	bucket     buckets.BucketID
	versioning buckets.Versioning
	lock       buckets.BucketLock
}

// findBucket returns ErrNoBucket if the name is unknown, or belongs to a newer bucket than b.ID names.
func findBucket(c *sqlite.Conn, owner buckets.AccountID, b buckets.BucketRef) (k bucketState, err error) {
	sql, args := sqlBucketID, []any{owner, b.Name}
	if b.ID != "" {
		sql, args = sqlHasBucket, append(args, b.ID)
	}
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) (err error) {
		k = bucketState{bucket: buckets.BucketID(r.ColumnText(0)), versioning: buckets.Versioning(r.ColumnInt(1))}
		k.lock, err = bucketLock(r, 2)
		return err
	}, args...)
	if err == nil && k.bucket == "" {
		err = buckets.ErrNoBucket
	}
	return k, err
}

// SetBucket implements buckets.Buckets.
func (s *Store) SetBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, change buckets.SettingsChange) error {
	if err := owner.Check(); err != nil {
		return err
	}
	var text []byte
	var shared bool
	defer s.cache.changed(bucketName{owner, b.Name})
	var events []buckets.Event
	if change.Events != nil {
		events = *change.Events
	}
	err := s.db.WriteChecked(ctx, "set_bucket", func(c *sqlite.Conn) error {
		matches, err := readBuckets(c, sqlBucket, owner, b.Name)
		if err == nil && (len(matches) == 0 || matches[0].ID != b.ID) {
			err = buckets.ErrNoBucket
		}
		if err == nil && change.LifecycleWas != nil && *change.LifecycleWas != matches[0].Settings.Lifecycle.Changed {
			err = buckets.ErrPrecondition
		}
		if err != nil {
			return err
		}
		settings := change.Apply(matches[0].Settings)
		shared = settings.IsShared()
		if text, err = json.Marshal(settings); err != nil {
			return errcode.Wrap(errcode.Internal, "encode the settings of a bucket", err)
		}
		return nil
	}, func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlSetSettings, owner, b.ID, string(text)); err != nil {
			return err
		}
		if change.ChangesAccess() {
			if err := claimOrFree(c, buckets.NameClaim{Name: b.Name, Owner: owner, Claimed: change.Now}, shared); err != nil {
				return err
			}
		}
		return s.append(c, owner, events)
	})
	if err == nil {
		s.appended(owner, events)
	}
	return err
}

// DeleteBucket implements buckets.Buckets.
func (s *Store) DeleteBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, now buckets.Moment) error {
	if err := owner.Check(); err != nil {
		return err
	}
	defer s.cache.changed(bucketName{owner, b.Name})
	return s.db.WriteChecked(ctx, "delete_bucket", func(c *sqlite.Conn) error {
		if err := hasBucket(c, owner, b); err != nil {
			return err
		}
		found, err := exists(c, sqlHasObjects, owner, b.ID)
		if err == nil && !found {
			found, err = exists(c, sqlHasVersions, owner, b.ID)
		}
		if err == nil && found {
			return buckets.ErrBucketNotEmpty
		}
		return err
	}, func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlBuryBucket, owner, b.Name, now); err != nil {
			return err
		}
		if err := sqlitedb.Exec(c, sqlDeleteBucket, owner, b.Name); err != nil {
			return err
		}
		return claimOrFree(c, buckets.NameClaim{Name: b.Name, Owner: owner, Claimed: now}, false)
	})
}
