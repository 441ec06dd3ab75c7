package main

import (
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"holdfast/internal/checksum"
	"holdfast/internal/durable"
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
	pgPutObject = `INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, body)
		VALUES ($1, $2, $1, $3, $4, $4, $5, $6, 'binary/octet-stream', $7)`
	pgObjectOf     = ` FROM manta_bucket_object WHERE owner = $1 AND bucket_id = $2 AND name = $3`
	pgGetObject    = `SELECT id, name, created, modified, content_length, content_md5, content_type, headers, roles, sharks, properties, body` + pgObjectOf
	pgDeleteObject = `DELETE` + pgObjectOf
	pgListObjects  = `SELECT id, name, created, modified, content_length, content_md5, content_type, properties
		FROM manta_bucket_object WHERE owner = $1 AND bucket_id = $2 AND name >= $3 ORDER BY name LIMIT $4`
)

// objectRows are statements for the rows of objects.
type objectRows struct {
	*bare

	owner, objects, listed string // IDs of the account and of the buckets
}

// put overwrites the row of an object with this path; body is nil if a file has the body.
func (r objectRows) put(path string, body []byte) stmt {
	name := strings.TrimPrefix(path, s3Objects+"/")
	sum := md5.Sum(body) //nolint:gosec // the ETag of S3
	if !r.onSQLite() {
		return sql(pgPutObject, r.owner, name, r.objects, time.Now(), len(body), sum[:], body)
	}
	now := time.Now().UnixMicro()
	return sql(bucketsPut, r.owner, r.objects, r.owner, name, now, now, nil, len(body), sum[:], "binary/octet-stream", nil, nil, nil, nil, nil, nil, body)
}

// one runs a statement on the row of an object with this path.
func (r objectRows) one(lite, postgres, path string) stmt {
	return sql(r.either(lite, postgres), r.owner, r.objects, strings.TrimPrefix(path, s3Objects+"/")).want(1)
}

// get reads a row with its body. The row must exist, also for delete.
func (r objectRows) get(path string) stmt { return r.one(bucketsGet, pgGetObject, path) }

func (r objectRows) delete(path string) stmt { return r.one(bucketsDelete, pgDeleteObject, path) }

// list reads n rows from this key on. n = 1 only reads the key, to find the next folder.
func (r objectRows) list(from string, n int) stmt {
	switch {
	case !r.onSQLite():
		return sql(pgListObjects, r.owner, r.listed, from, n).want(n)
	case n == 1:
		return sql(bucketsNext, r.owner, r.listed, from).want(1)
	}
	return sql(bucketsList, r.owner, r.listed, from, n).want(n)
}

// open prepares statements on the copied rows, and the files to copy for the bodies above 16 KiB.
func (w *s3Load) open(b *bare) error {
	ids, err := ask(context.Background(), b.engine.address(b.file), `SELECT CAST(o.owner AS text) || ' ' || CAST(o.id AS text) || ' ' || CAST(l.id AS text)
		FROM manta_bucket o JOIN manta_bucket l ON o.owner = l.owner WHERE o.name = 'objects' AND l.name = 'list'`)
	if err != nil {
		return err
	}
	w.rows = objectRows{bare: b}
	if _, err := fmt.Sscan(ids, &w.rows.owner, &w.rows.objects, &w.rows.listed); err != nil {
		return err
	}
	w.files, err = newFiles(w, b.dir)
	return err
}

// copies is the limit of streams.
func (w *s3Load) copies(size int, put bool) func(*bare) step {
	return func(*bare) step { return func(context.Context, int, int) error { return w.files.copy(size, put) } }
}

// mixLimit is the limit of mixed works. Deleted objects' files remain, as on the server until it collects garbage.
func (w *s3Load) mixLimit(size int) func(*bare) step {
	return func(b *bare) step {
		m := w.newMixed(size)
		return func(ctx context.Context, _, _ int) error {
			return m.step(w.newKey, func(method, key string) (err error) {
				if method == http.MethodGet || method == http.MethodPut {
					err = w.files.copy(size, method == http.MethodPut)
				}
				t := read(w.rows.get(key))
				switch method {
				case http.MethodPut:
					t = write(w.rows.put(key, nil))
				case http.MethodDelete:
					t = write(w.rows.delete(key))
				}
				return errors.Join(err, b.run(ctx, t))
			})
		}
	}
}

// files copies body files without a server, but computes the server's checksums: the CRC64NVME that verifies reads, and
// the MD5 (ETag) for a PUT.
type files struct {
	dir  string
	last atomic.Int64
}

// newFiles writes a source of each copied size into a folder, which the caller removes.
func newFiles(w *s3Load, dir string) (*files, error) {
	f := &files{dir: dir}
	for _, size := range []int{s3Mixed, s3Middle, w.size.large} {
		if err := os.WriteFile(f.source(size), w.body(size), 0o600); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// source returns the path of the file that copies of this size, in bytes, are made from.
func (f *files) source(size int) string { return filepath.Join(f.dir, fmt.Sprint("source-", size)) }

// copy copies a file of this size. For a PUT, the copy is durable; for a GET, it is removed.
func (f *files) copy(size int, put bool) error {
	from, err := os.Open(f.source(size))
	if err != nil {
		return err
	}
	defer from.Close()
	write := func(to io.Writer) error {
		sums := []io.Writer{to, checksum.CRC64NVME.New()}
		if put {
			sums = append(sums, md5.New()) //nolint:gosec // the ETag of S3
		}
		// The struct hides ReadFrom and WriteTo, because a server has the bytes in memory.
		n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(sums...)}, struct{ io.Reader }{from}, make([]byte, 128<<10))
		if err == nil && n != int64(size) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	name := filepath.Join(f.dir, fmt.Sprint("copy-", f.last.Add(1)))
	if put {
		return durable.Replace(name, write)
	}
	to, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(to), to.Close(), os.Remove(name))
}
