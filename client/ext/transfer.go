package ext

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"holdfast/client/internal/retry"
)

// exportLine is any line of an export: the header, a schema, a cursor, a record, or the end.
type exportLine struct {
	Record

	Header   int             `json:"export"`
	Schema   json.RawMessage `json:"schema"`
	Cursor   string          `json:"cursor"`
	Complete bool            `json:"complete"`
}

// errCut means that an export ended before its last line.
var errCut = &retry.NetworkError{Err: fmt.Errorf("the export was cut off: %w", io.ErrUnexpectedEOF)}

// Export yields all records that the token may read, by namespace and key, without schemas. After a lost connection
// it continues at the last cursor. It stops after other errors.
func (i Install) Export(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		e := export{install: i, yield: yield}
		for try := 0; ; try++ {
			before := e.cursor
			err := e.read(ctx)
			if err == nil {
				return
			}
			if e.cursor != before {
				try = 0
			}
			if !i.client.pause(ctx, err, true, try) {
				yield(Record{}, errors.Join(err, ctx.Err()))
				return
			}
		}
	}
}

// export is an export while it runs.
type export struct {
	install Install
	yield   func(Record, error) bool
	cursor  string
	last    *Record // last record since the cursor; a retry repeats the records up to it
}

// read reads from the last cursor to the end. It returns errCut if the connection ended early.
func (e *export) read(ctx context.Context) error {
	var query url.Values
	if e.cursor != "" {
		query = url.Values{"cursor": {e.cursor}}
	}
	resp, err := e.install.client.open(ctx, call{method: http.MethodGet, path: e.install.path + "/export", query: query})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := bufio.NewReader(resp.Body); ; {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return errCut
		}
		if err != nil {
			return &retry.NetworkError{Err: err}
		}
		var line exportLine
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("decode export: %w", err)
		}
		switch {
		case line.Complete:
			return nil
		case line.Header != 0, line.Schema != nil:
		case line.Cursor != "":
			e.cursor, e.last = line.Cursor, nil
		case e.last == nil || before(e.last, &line.Record):
			e.last = &line.Record
			if !e.yield(line.Record, nil) {
				return nil
			}
		}
	}
}

// before reports whether a comes before b in an export.
func before(a, b *Record) bool {
	return a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.Key < b.Key
}

// importLine is a line of an import.
type importLine struct {
	Namespace    string          `json:"namespace"`
	Key          string          `json:"key"`
	Value        json.RawMessage `json:"value"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	TTLExpiresAt *time.Time      `json:"ttlExpiresAt,omitempty"`
}

// Import writes exported records with their value, metadata and expiry, but new revisions. It runs in steps, so after
// an error, which may also come from records, some records may be written. Repeating Import is safe.
func (i Install) Import(ctx context.Context, records iter.Seq2[Record, error]) (result ImportResult, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reader, writer := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		err := writeLines(writer, records)
		if err != nil {
			cancel(err)
		}
		writer.CloseWithError(err)
	}()
	resp, err := i.client.open(ctx, call{method: http.MethodPost, path: i.path + "/import", media: "application/x-ndjson", stream: reader})
	_ = reader.Close()
	<-written
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return result, cause
		}
		return result, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&result); err != nil {
		return result, fmt.Errorf("read response: %w", err)
	}
	return result, nil
}

// writeLines writes the lines for the server. If the server responds early, it stops without an error.
func writeLines(w io.Writer, records iter.Seq2[Record, error]) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false) // see encode
	count := 0
	for rec, err := range records {
		if err != nil {
			return err
		}
		line := importLine{rec.Namespace, rec.Key, rec.Value, rec.Metadata, rec.TTLExpiresAt}
		if err := lines.Encode(line); errors.Is(err, io.ErrClosedPipe) {
			return nil // the server responded
		} else if err != nil {
			return err
		}
		count++
	}
	_, err := fmt.Fprintf(w, "{\"complete\":true,\"records\":%d}\n", count)
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
