package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func diskHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Each record is written once through the server. Then the write-ahead log is written to the tables (checkpoint). "+
		"The table counts tables, indexes and TOAST.\n\n")
	fmt.Fprintln(out, "| record | engine | records | bytes per record | in the change feed |")
	fmt.Fprintln(out, "|---|---|--:|--:|--:|")
}

type diskWork struct {
	name    string
	of      string
	share   int // write only every n-th record, so that there are fewer large records
	batch   int
	content func(i int) string
}

var diskTables = map[string]struct {
	tables []string
	file   func(data string) string
}{
	"load":    {[]string{"bsos", "user_collections"}, syncFile},
	"ext":     {[]string{"ext_storage_records", "ext_storage_usage", "ext_storage_namespaces", extFeed}, extFile},
	"buckets": {[]string{"manta_bucket_object", "manta_bucket_usage"}, func(data string) string { return filepath.Join(data, "buckets.db") }},
}

const extFeed = "ext_storage_changes"

// The values are random and incompressible, like ciphertext. Bodies above 16 KiB are on a storage node.
func diskWorks() []diskWork {
	const largest = 64 << 10
	text := func(bytes int) func(int) string {
		return func(i int) string { return randomText(i, bytes) }
	}
	value := func(bytes int) func(int) string {
		return func(i int) string {
			const head, tail = `{"name":"a setting","enabled":true,"note":"`, `"}`
			return head + randomText(i, bytes-len(head)-len(tail)) + tail
		}
	}
	return []diskWork{
		{of: "load", name: "Sync, 200 B", share: 1, batch: 100, content: text(200)},
		{of: "load", name: "Sync, 500 B", share: 1, batch: 100, content: text(500)},
		{of: "load", name: "Sync, 1,000 B", share: 1, batch: 100, content: text(1000)},
		{of: "load", name: "Sync, 10,000 B", share: 10, batch: 100, content: text(10_000)},
		{of: "ext", name: "extension, 200 B", share: 1, batch: 20, content: value(200)},
		{of: "ext", name: "extension, 1,000 B", share: 1, batch: 20, content: value(1000)},
		{of: "ext", name: "extension, 64 KiB text", share: 40, batch: 1, content: func(i int) string { return `"` + randomText(i, largest-2) + `"` }},
		{of: "ext", name: "extension, 64 KiB digits", share: 40, batch: 1, content: func(i int) string { return randomDigits(i, largest) }},
		{of: "buckets", name: "1,000 B object", share: 1, batch: 1, content: text(1000)},
		{of: "buckets", name: "10,000 B object", share: 10, batch: 1, content: text(10_000)},
		{of: "buckets", name: "object on a storage node", share: 10, batch: 1, content: text(17_000)},
	}
}

func randomText(seed, bytes int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	text := make([]byte, bytes)
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

// randomDigits returns an array; jsonb stores 12 bytes per digit.
func randomDigits(seed, bytes int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 2))
	text := []byte("[0")
	for len(text)+3 <= bytes {
		text = append(text, ',', byte('0'+r.IntN(10)))
	}
	return string(append(text, ']'))
}

func measureDisk(ctx context.Context, o *options, e *engine, out io.Writer) error {
	for _, w := range diskWorks() {
		of := o.service(w.of)
		own, err := enabled(of)
		if err != nil {
			return err
		}
		err = onServer(ctx, o, e, own, func(s *server) error {
			if e.postgres != nil {
				if err := e.emptied(ctx, "bsos, user_collections, ext_storage_records, ext_storage_changes, ext_storage_usage, ext_storage_namespaces, manta_bucket_object, manta_bucket_usage"); err != nil {
					return err
				}
			}
			return w.measure(ctx, o, s, of, out)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (e *engine) emptied(ctx context.Context, tables string) error {
	return e.exec(ctx, `TRUNCATE `+tables+` CASCADE`)
}

func (w *diskWork) measure(ctx context.Context, o *options, s *server, of service, out io.Writer) error {
	file, tables := diskTables[w.of].file(s.data()), diskTables[w.of].tables
	before, _, err := s.onDisk(ctx, file, tables)
	if err != nil {
		return err
	}
	records := max(w.batch, o.size.diskRecords/w.share)
	if err := w.write(ctx, s, of, records); err != nil {
		return err
	}
	if w.of == "ext" {
		if err := extPublished(ctx, s); err != nil {
			return err
		}
	}
	after, changes, err := s.onDisk(ctx, file, tables)
	if err != nil {
		return err
	}
	share := "–"
	if changes > 0 {
		share = strconv.FormatInt(changes/int64(records), 10)
	}
	fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", w.name, s.engine.name, thousands(records), thousands(int((after-before)/int64(records))), share)
	return nil
}

const diskOwner = 4000

func (w *diskWork) write(ctx context.Context, s *server, of service, records int) error {
	for first := 0; first < records; first += diskOwner {
		owners, err := s.newOwners(of, 1)
		if err != nil {
			return err
		}
		c, err := dial(ctx, owners[0])
		if err != nil {
			return err
		}
		if w.of == "buckets" && first == 0 {
			err = c.exchange(ctx, http.MethodPut, s3Objects, nil, "", io.Discard)
		}
		for i := first; i < min(first+diskOwner, records) && err == nil; i += w.batch {
			err = w.request(ctx, c, i)
		}
		c.hangUp()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *diskWork) request(ctx context.Context, c *caller, i int) error {
	if w.of == "buckets" {
		return c.exchange(ctx, http.MethodPut, s3Objects+"/"+id(i), []byte(w.content(i)), "", io.Discard)
	}
	var parts []string
	for n := range w.batch {
		if w.of == "ext" {
			parts = append(parts, fmt.Sprintf(`{"key":%q,"value":%s}`, id(i+n), w.content(i+n)))
		} else {
			parts = append(parts, fmt.Sprintf(`{"id":%q,"payload":%q}`, id(i+n), w.content(i+n)))
		}
	}
	all := strings.Join(parts, ",")
	path, body := "/storage/"+postCollection, "["+all+"]"
	if w.of == "ext" {
		path, body = "/namespaces/"+extBulkNamespace+"/records", `{"items":[`+all+`]}`
	}
	answer, err := c.send(ctx, http.MethodPost, path, []byte(body), "")
	if err != nil {
		return err
	}
	if w.of == "ext" {
		var got struct {
			Failed int `json:"failed"`
		}
		if bytes.Contains(answer, []byte(`"error"`)) || json.Unmarshal(answer, &got) == nil && got.Failed > 0 {
			return fmt.Errorf("not all records were written: %.200s", answer)
		}
	}
	return nil
}

// onDisk returns a SQLite file's disk usage, or the usage of tables with their indexes and TOAST.
func (s *server) onDisk(ctx context.Context, file string, tables []string) (all, fed int64, err error) {
	if s.engine.postgres == nil {
		err := withFile(file, func(c *sqlite.Conn) error {
			return sqlitex.ExecuteTransient(c, `PRAGMA wal_checkpoint(TRUNCATE)`, nil)
		})
		if err != nil {
			return 0, 0, err
		}
		info, err := os.Stat(file)
		if err != nil {
			return 0, 0, err
		}
		return info.Size(), 0, nil
	}
	if err := s.engine.exec(ctx, `CHECKPOINT`); err != nil {
		return 0, 0, err
	}
	err = s.engine.connect(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(t::regclass)), 0)::bigint,
			coalesce(sum(pg_total_relation_size(t::regclass)) FILTER (WHERE t = $2), 0)::bigint FROM unnest($1::text[]) AS t`, tables, extFeed).Scan(&all, &fed)
	})
	return all, fed, err
}
