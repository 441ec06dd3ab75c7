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
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func diskHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Records are written through the server, each once; then the log is written to the tables. Bytes are those of tables, "+
		"indexes and TOAST, per record.\n\n")
	fmt.Fprintln(out, "| record | engine | records | bytes per record | of which the change feed |")
	fmt.Fprintln(out, "|---|---|--:|--:|--:|")
}

// diskWork is a kind of record whose size on the disk is measured.
type diskWork struct {
	name    string
	ext     bool // of extension storage
	share   int  // one of so many records is written: large ones are fewer
	batch   int  // records of a request
	content func(i int) string
}

// diskWorks: values are random, as ciphertext is, so that nothing compresses
// what would not be compressed elsewhere. The last two are the largest
// values of extension storage: a text, and the value that jsonb makes largest.
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
		{name: "Sync, 200 B", share: 1, batch: 100, content: text(200)},
		{name: "Sync, 500 B", share: 1, batch: 100, content: text(500)},
		{name: "Sync, 1,000 B", share: 1, batch: 100, content: text(1000)},
		{name: "Sync, 10,000 B", share: 10, batch: 100, content: text(10_000)},
		{name: "extension, 200 B", ext: true, share: 1, batch: 20, content: value(200)},
		{name: "extension, 1,000 B", ext: true, share: 1, batch: 20, content: value(1000)},
		{name: "extension, text of 64 KiB", ext: true, share: 40, batch: 1, content: func(i int) string { return `"` + randomText(i, largest-2) + `"` }},
		{name: "extension, digits of 64 KiB", ext: true, share: 40, batch: 1, content: func(i int) string { return randomDigits(i, largest) }},
	}
}

// randomText is text in the alphabet of base64.
func randomText(seed, bytes int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	text := make([]byte, bytes)
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

// randomDigits is an array of digits, of which jsonb keeps each as a number of
// twelve bytes.
func randomDigits(seed, bytes int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 2))
	text := []byte("[0")
	for len(text)+3 <= bytes {
		text = append(text, ',', byte('0'+r.IntN(10)))
	}
	return string(append(text, ']'))
}

// measureDisk writes each kind of record into a database of its own.
func measureDisk(ctx context.Context, o *options, e *engine, out io.Writer) error {
	sync, ext := newSync(), newExt()
	for _, w := range diskWorks() {
		of := service(sync)
		if w.ext {
			of = ext
		}
		err := onServer(ctx, o, e, slices.Concat(sync.settings(e), ext.settings(e)), func(s *server) error {
			if e.postgres != nil { // what the kind before has left
				if err := e.emptied(ctx, "bsos, user_collections, ext_storage_records, ext_storage_changes, ext_storage_usage, ext_storage_namespaces"); err != nil {
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

// emptied empties tables, files included.
func (e *engine) emptied(ctx context.Context, tables string) error {
	return e.exec(ctx, `TRUNCATE `+tables+` CASCADE`)
}

func (w *diskWork) measure(ctx context.Context, o *options, s *server, of service, out io.Writer) error {
	file, tables, feed := syncFile(s.data()), []string{"bsos", "user_collections"}, ""
	if w.ext {
		file, feed = extFile(s.data()), "ext_storage_changes"
		tables = []string{"ext_storage_records", "ext_storage_usage", "ext_storage_namespaces", feed}
	}
	before, _, err := s.onDisk(ctx, file, tables, feed)
	if err != nil {
		return err
	}
	records := max(w.batch, o.size.diskRecords/w.share)
	if err := w.write(ctx, s, of, records); err != nil {
		return err
	}
	if w.ext {
		if err := extPublished(ctx, s); err != nil {
			return err
		}
	}
	after, changes, err := s.onDisk(ctx, file, tables, feed)
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

// diskOwner is the most records of an owner: fewer than a namespace may have.
const diskOwner = 4000

// write writes records, of as many owners as they need.
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

// request writes the records of a request, the first of which is i.
func (w *diskWork) request(ctx context.Context, c *caller, i int) error {
	var parts []string
	for n := range w.batch {
		if w.ext {
			parts = append(parts, fmt.Sprintf(`{"key":%q,"value":%s}`, id(i+n), w.content(i+n)))
		} else {
			parts = append(parts, fmt.Sprintf(`{"id":%q,"payload":%q}`, id(i+n), w.content(i+n)))
		}
	}
	all := strings.Join(parts, ",")
	path, body := "/storage/"+postCollection, "["+all+"]"
	if w.ext {
		path, body = "/namespaces/"+extBulkNamespace+"/records", `{"items":[`+all+`]}`
	}
	answer, err := c.send(ctx, http.MethodPost, path, []byte(body), "")
	if err != nil {
		return err
	}
	if w.ext {
		var got struct {
			Failed int `json:"failed"`
		}
		if bytes.Contains(answer, []byte(`"error"`)) || json.Unmarshal(answer, &got) == nil && got.Failed > 0 {
			return fmt.Errorf("not all records were written: %.200s", answer)
		}
	}
	return nil
}

// onDisk is what tables take on the disk with all that belongs to them, or a
// file of SQLite as a whole; and of that the table feed, if the engine can tell.
func (s *server) onDisk(ctx context.Context, file string, tables []string, feed string) (all, fed int64, err error) {
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
			coalesce(sum(pg_total_relation_size(t::regclass)) FILTER (WHERE t = $2), 0)::bigint FROM unnest($1::text[]) AS t`, tables, feed).Scan(&all, &fed)
	})
	return all, fed, err
}
