package main

import (
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	store "holdfast/internal/buckets/postgres"
)

const (
	pgPutObject = `INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, body)
		VALUES ($1, $2, $1, $3, $4, $4, $5, $6, 'binary/octet-stream', $7)`
	pgObjectOf     = ` FROM manta_bucket_object WHERE owner = $1 AND bucket_id = $2 AND name = $3`
	pgGetObject    = `SELECT id, name, created, modified, content_length, content_md5, content_type, headers, roles, sharks, properties, body` + pgObjectOf
	pgDeleteObject = `DELETE` + pgObjectOf
	pgListObjects  = `SELECT id, name, created, modified, content_length, content_md5, content_type, properties
		FROM manta_bucket_object WHERE owner = $1 AND bucket_id = $2 AND name >= $3 ORDER BY name LIMIT $4`
)

// bucketsPostgres is the limit on PostgreSQL: one pgx statement per object row.
type bucketsPostgres struct {
	pgDatabase

	load  *s3Load
	files *bucketsFiles
}

func openBucketsPostgres(ctx context.Context, e *engine, w *s3Load) (limit, error) {
	d, err := openPostgres(ctx, e, "limit_of_buckets", bucketsConnections, store.Migrations)
	if err != nil {
		return nil, err
	}
	files, err := newFiles(w)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	l := &bucketsPostgres{d, w, files}
	if err := l.fill(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

const bucketsConnections = 10

func (l *bucketsPostgres) close() error { return errors.Join(l.files.close(), l.pgDatabase.close()) }

func (l *bucketsPostgres) fill(ctx context.Context) error {
	var rows [][]any
	add := func(bucket, name string, body []byte) {
		sum := md5.Sum(body) //nolint:gosec // the ETag of S3
		now := time.Now()
		rows = append(rows, []any{bucketsOwner, name, bucketsOwner, bucket, now, now, len(body), sum[:], "binary/octet-stream", body})
	}
	for i := range l.load.size.reads {
		add(bucketsObjects, readKey(s3Small, i), l.load.body(s3Small))
	}
	for _, m := range l.files.mixed {
		for _, key := range m.keys {
			add(bucketsObjects, key, nil)
		}
	}
	for i := range l.load.size.listKeys {
		add(bucketsListed, l.load.listKey(i), l.load.body(1))
	}
	columns := []string{"id", "name", "owner", "bucket_id", "created", "modified", "content_length", "content_md5", "content_type", "body"}
	if _, err := l.pool.CopyFrom(ctx, pgx.Identifier{"manta_bucket_object"}, columns, pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	_, err := l.pool.Exec(ctx, `VACUUM ANALYZE manta_bucket_object`)
	return err
}

func (l *bucketsPostgres) put(ctx context.Context, name string, body []byte) error {
	sum := md5.Sum(body) //nolint:gosec // the ETag of S3
	_, err := l.pool.Exec(ctx, pgPutObject, bucketsOwner, name, bucketsObjects, time.Now(), len(body), sum[:], body)
	return err
}

func (l *bucketsPostgres) read(ctx context.Context, sql string, want int, args ...any) error {
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	n := 0
	for rows.Next() {
		n++
	}
	return checked(n, want, rows.Err())
}

func (l *bucketsPostgres) mix(ctx context.Context, method, key string) error {
	switch method {
	case http.MethodPut:
		return l.put(ctx, key, nil)
	case http.MethodDelete:
		return l.delete(ctx, key)
	}
	return l.read(ctx, pgGetObject, 1, bucketsOwner, bucketsObjects, key)
}

func (l *bucketsPostgres) delete(ctx context.Context, name string) error {
	_, err := l.pool.Exec(ctx, pgDeleteObject, bucketsOwner, bucketsObjects, name)
	return err
}

func (l *bucketsPostgres) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	if size := mixedSize(operation); size > 0 {
		return rate(ctx, callers, lasting(d), l.files.mix(size, l.mix))
	}
	switch operation {
	case workPutSmall:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, _ int) error { return l.put(ctx, l.load.newKey(), l.load.body(s3Small)) })
	case workGetSmall:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, i int) error {
			return l.read(ctx, pgGetObject, 1, bucketsOwner, bucketsObjects, readKey(s3Small, i%l.load.size.reads))
		})
	case workListPage:
		pages := l.load.size.listKeys / s3Page
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, i int) error {
			return l.read(ctx, pgListObjects, s3Page, bucketsOwner, bucketsListed, l.load.listKey(i%pages*s3Page), s3Page)
		})
	case workListGroups:
		group := l.load.size.listKeys / s3Groups
		return rate(ctx, callers, lasting(d), func(ctx context.Context, _, _ int) error {
			for i := range s3Groups {
				if err := l.read(ctx, pgListObjects, 1, bucketsOwner, bucketsListed, l.load.listKey(i*group), 1); err != nil {
					return err
				}
			}
			return nil
		})
	case workDelete:
		n := l.load.size.deletes / callers
		if _, err := rate(ctx, callers, times(n), func(ctx context.Context, c, i int) error { return l.put(ctx, deletedKey(c, i), l.load.body(s3Small)) }); err != nil {
			return 0, err
		}
		return rate(ctx, callers, times(n), func(ctx context.Context, c, i int) error { return l.delete(ctx, deletedKey(c, i)) })
	}
	return l.files.window(ctx, operation, callers, d)
}
