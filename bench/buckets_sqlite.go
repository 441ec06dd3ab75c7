package main

import (
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	store "holdfast/internal/buckets/sqlite"
)

// Copied from the service; see TestStatements.
const (
	bucketsColumns = `id, name, created, modified, creator, content_length, content_md5, content_type, headers, roles, sharks, properties`
	bucketsSums    = `content_crc32c, content_crc64nvme, content_frames`
	bucketsOne     = ` FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3`
	bucketsGet     = `SELECT ` + bucketsColumns + `, ` + bucketsSums + `, body` + bucketsOne
	bucketsDelete  = `DELETE` + bucketsOne
	bucketsPut     = `INSERT OR REPLACE INTO manta_bucket_object (owner, bucket_id, ` + bucketsColumns + `, content_crc64nvme, content_frames, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	bucketsList = `SELECT id, name, created, modified, creator, content_length, content_md5, content_type, properties FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name >= ?3 ORDER BY name LIMIT +?4`
	bucketsNext = `SELECT name FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name >= ?3 ORDER BY name LIMIT 1`
)

const (
	bucketsOwner   = "00000000-0000-4000-8000-000000000001"
	bucketsObjects = "00000000-0000-4000-8000-000000000002"
	bucketsListed  = "00000000-0000-4000-8000-000000000003"
)

// bucketsSQLite is the limit on SQLite. It writes an object row through the group-commit writer, or reads it from a
// snapshot.
type bucketsSQLite struct {
	liteFile

	load  *s3Load
	files *bucketsFiles
}

func bucketsFile(data string) string { return filepath.Join(data, "buckets.db") }

func openBucketsSQLite(ctx context.Context, w *s3Load) (limit, error) {
	f, err := openLite(ctx, bucketsFile(""), store.Migrations)
	if err != nil {
		return nil, err
	}
	files, err := newFiles(w)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	l := &bucketsSQLite{f, w, files}
	err = l.db.WriteAlone(ctx, "fill", func(c *sqlite.Conn) error {
		for i := range w.size.reads {
			if err := putRow(c, bucketsObjects, readKey(s3Small, i), w.body(s3Small)); err != nil {
				return err
			}
		}
		for _, m := range files.mixed {
			for _, key := range m.keys {
				if err := putRow(c, bucketsObjects, key, nil); err != nil {
					return err
				}
			}
		}
		for i := range w.size.listKeys {
			if err := putRow(c, bucketsListed, w.listKey(i), w.body(1)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *bucketsSQLite) close() error { return errors.Join(l.files.close(), l.liteFile.close()) }

func putRow(c *sqlite.Conn, bucket, name string, body []byte) error {
	now := time.Now().UnixMicro()
	sum := md5.Sum(body) //nolint:gosec // the ETag of S3
	return lite(c, bucketsPut, nil, bucketsOwner, bucket, bucketsOwner, name, now, now, nil, int64(len(body)),
		sum[:], "binary/octet-stream", nil, nil, nil, nil, nil, nil, body)
}

func (l *bucketsSQLite) put(ctx context.Context, key string, body []byte) error {
	return l.db.Write(ctx, "put", func(c *sqlite.Conn) error { return putRow(c, bucketsObjects, key, body) })
}

func (l *bucketsSQLite) read(ctx context.Context, sql string, want int, args ...any) error {
	rows := 0
	err := l.db.Read(ctx, "read", func(c *sqlite.Conn) error { return lite(c, sql, func(s *sqlite.Stmt) { rows++; readRow(s) }, args...) })
	return checked(rows, want, err)
}

func (l *bucketsSQLite) delete(ctx context.Context, key string) error {
	return l.db.Write(ctx, "delete", func(c *sqlite.Conn) error {
		return lite(c, bucketsDelete, nil, bucketsOwner, bucketsObjects, key)
	})
}

func (l *bucketsSQLite) mix(ctx context.Context, method, key string) error {
	switch method {
	case http.MethodPut:
		return l.put(ctx, key, nil)
	case http.MethodDelete:
		return l.delete(ctx, key)
	}
	return l.read(ctx, bucketsGet, 1, bucketsOwner, bucketsObjects, key)
}

func (l *bucketsSQLite) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	if size := mixedSize(operation); size > 0 {
		return rate(ctx, callers, lasting(d), l.files.mix(size, l.mix))
	}
	small := l.load.body(s3Small)
	switch operation {
	case workPutSmall:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, _ int) error { return l.put(ctx, l.load.newKey(), small) })
	case workGetSmall:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, i int) error {
			return l.read(ctx, bucketsGet, 1, bucketsOwner, bucketsObjects, readKey(s3Small, i%l.load.size.reads))
		})
	case workListPage:
		pages := l.load.size.listKeys / s3Page
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, i int) error {
			return l.read(ctx, bucketsList, s3Page, bucketsOwner, bucketsListed, l.load.listKey(i%pages*s3Page), int64(s3Page))
		})
	case workListGroups:
		group := l.load.size.listKeys / s3Groups
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, _ int) error {
			for i := range s3Groups {
				if err := l.read(ctx, bucketsNext, 1, bucketsOwner, bucketsListed, l.load.listKey(i*group)); err != nil {
					return err
				}
			}
			return nil
		})
	case workDelete:
		n := l.load.size.deletes / callers
		fill := func(ctx context.Context, c, i int) error { return l.put(ctx, deletedKey(c, i), small) }
		if _, err := rate(ctx, callers, times(n), fill); err != nil {
			return 0, err
		}
		return rate(ctx, callers, times(n), func(ctx context.Context, c, i int) error { return l.delete(ctx, deletedKey(c, i)) })
	}
	return l.files.window(ctx, operation, callers, d)
}

func readRow(s *sqlite.Stmt) {
	for i := range min(2, s.ColumnCount()) {
		_ = s.ColumnText(i)
	}
	for _, i := range []int{6, 13} {
		if i < s.ColumnCount() {
			b := make([]byte, s.ColumnLen(i))
			s.ColumnBytes(i, b)
		}
	}
}
