package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
	"holdfast/internal/web"
)

// maxLine is how long a line of an import may be in bytes.
const maxLine = recordBody

// The members of the lines of an export. What the last four of a record say is
// made anew.
var (
	lineNames     = []string{"namespace", "key", "value", "metadata", "ttlExpiresAt", "revision", "etag", "createdAt", "updatedAt"}
	cursorNames   = []string{"cursor"}
	completeNames = []string{"complete", "records"}

	anyLine = slices.Concat(lineNames, cursorNames, completeNames)
)

// errImports refuses an import while too many requests wait for their clients.
var errImports = fault.New(fault.Unavailable, "too many imports and waiting requests of this install are under way: try again later")

// Imported counts what came of the lines of an import.
type Imported struct {
	Lines   int // that were read
	Records int // among them
	ext.Imported
}

// importFailure is an error that ended an import, and what was done before.
type importFailure struct {
	err  error
	done Imported
}

func (e *importFailure) Error() string { return e.err.Error() }
func (e *importFailure) Unwrap() error { return e.err }

// importer puts the lines of a body, step by step.
type importer struct {
	x     *exchange
	done  Imported
	steps int // taken

	complete bool  // the line that ends an export was read
	counted  int64 // the records that it counts

	records []ext.Record // of the step
	at      []int        // their lines
	bytes   int          // of their values and metadata
	charged int64        // for them
	long    bool         // a longer line than the reader's buffer was charged
	keys    map[ext.Position]bool
}

// imports puts the records of an export. Each step is all or nothing, and a
// write of the rate, for which an import waits. What came before a failure stays,
// and since a record that is there already is left as it is, the same file may
// come again.
func (x *exchange) imports() error {
	im := &importer{x: x, keys: map[ext.Position]bool{}}
	leave, ok := x.service.EnterWait(x.ask.Grant.Owner)
	if !ok {
		return errImports
	}
	defer leave()
	if err := im.read(x.in.Body); err != nil {
		return &importFailure{err, im.done}
	}
	return x.answer(http.StatusOK, im.done.appendTo(nil))
}

func (d *Imported) appendTo(b []byte) []byte {
	b = appendInt(append(b, `{"lines":`...), d.Lines)
	b = appendInt(key(b, "records"), d.Records)
	b = appendInt(key(b, "written"), d.Written)
	b = appendInt(key(b, "same"), d.Same)
	return append(appendInt(key(b, "expired"), d.Expired), '}')
}

// Import does for an operator what a request does with the lines of an export,
// at once. What was done before an error is done; an *ext.ItemError has the line
// it is about, from 0.
func Import(ctx context.Context, s *ext.Service, r ext.Request, lines io.Reader) (Imported, error) {
	in := &http.Request{}
	im := &importer{x: &exchange{in: in.WithContext(ctx), service: s, ask: r}, keys: map[ext.Position]bool{}}
	err := im.read(lines)
	return im.done, err
}

// AppendLine appends the line of a record in an export, its end included.
func AppendLine(b []byte, rec *ext.Record) []byte { return append(appendRecord(b, rec), '\n') }

// AppendComplete appends the line that ends an export.
func AppendComplete(b []byte, records int64) []byte {
	return append(appendInt(append(b, `{"complete":true,"records":`...), records), "}\n"...)
}

// read takes all lines. What came before a cut is put, too.
func (im *importer) read(lines io.Reader) error {
	if err := web.ChargeMemory(im.x.out, im.x.in, importBytes); err != nil {
		return err
	}
	body := bufio.NewReaderSize(lines, importBytes)
	for {
		line, err := im.readLine(body)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = im.add(line)
		}
		if errors.Is(err, canonjson.ErrTooLarge) {
			err = &ext.ItemError{Index: im.done.Lines, Err: canonjson.ErrTooLarge}
		}
		if err != nil {
			return err
		}
		im.done.Lines++
	}
	if err := im.step(); err != nil {
		return err
	}
	return im.checkComplete()
}

// checkComplete refuses lines that are not all of an export.
func (im *importer) checkComplete() error {
	const format = "the import is incomplete: %d records came, and %s: send all lines of the export"
	switch n := int64(im.done.Records); {
	case !im.complete:
		return incomplete(fmt.Sprintf(format, n, "the line with complete is missing"))
	case n != im.counted:
		return incomplete(fmt.Sprintf(format, n, fmt.Sprintf("the line with complete counts %d", im.counted)))
	}
	return nil
}

func incomplete(reason string) error {
	return &refusal{http.StatusBadRequest, "IMPORT_INCOMPLETE", "", reason, fault.Invalid}
}

// readLine reads up to the end of a line, without it: io.EOF when there is none,
// canonjson.ErrTooLarge over maxLine. The line is good until the next call.
func (im *importer) readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		if !im.long {
			if err := im.charge(longLineBytes); err != nil {
				return nil, err
			}
			im.long = true
		}
		whole := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(whole) <= maxLine {
			line, err = r.ReadSlice('\n')
			whole = append(whole, line...)
		}
		line = whole
	}
	switch {
	case len(line) > maxLine:
		return nil, canonjson.ErrTooLarge
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, bodyErrors.Of(err)
	}
	return line, err
}

// add takes one line.
func (im *importer) add(line []byte) error {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	if im.complete {
		return &ext.ItemError{Index: im.done.Lines, Err: invalid("", "follows the line with complete, which is the last of an export")}
	}
	f := parseFields(line, "", anyLine...)
	if f.has("cursor") || f.has("complete") {
		if im.skip(f); f.err != nil {
			return &ext.ItemError{Index: im.done.Lines, Err: f.err}
		}
		return nil
	}
	rec, err := im.x.readRecord(f)
	if err != nil {
		return &ext.ItemError{Index: im.done.Lines, Err: err}
	}
	im.done.Records++
	limits := im.x.service.Limits()
	size, at := len(rec.Value)+len(rec.Metadata), ext.Position{Namespace: rec.Namespace, Key: rec.Key}
	if len(im.records) == limits.Items || im.bytes+size > limits.ItemsBytes || im.keys[at] {
		if err := im.step(); err != nil {
			return err
		}
	}
	need := workCopies * int64(sizeOfRecord(&rec))
	if err := im.charge(need); err != nil {
		return err
	}
	im.charged += need
	im.records, im.at = append(im.records, rec), append(im.at, im.done.Lines)
	im.bytes += size
	im.keys[at] = true
	return nil
}

// charge charges the import for n more bytes. When they are not free, it first puts the
// lines that were gathered, lest imports wait for each other's memory.
func (im *importer) charge(n int64) error {
	if web.TryChargeMemory(im.x.out, n) {
		return nil
	}
	if len(im.records) > 0 {
		if err := im.step(); err != nil {
			return err
		}
	}
	return web.ChargeMemory(im.x.out, im.x.in, n)
}

// readRecord reads the line of a record.
func (x *exchange) readRecord(f *fields) (rec ext.Record, err error) {
	f.only(lineNames)
	limits := x.service.Limits()
	ns, err := ext.ParseNamespace(f.text("namespace"))
	if err != nil {
		f.note(under("/namespace", err))
	}
	k, err := ext.ParseKey(f.text("key"))
	if err != nil {
		f.note(under("/key", err))
	}
	rec = ext.Record{Namespace: ns, Key: k, Value: f.value("value", limits.Value), Metadata: f.value("metadata", limits.Metadata)}
	if rec.Value == "" {
		f.fail("value", "is missing")
	}
	if raw, _ := f.find("ttlExpiresAt"); string(raw) != "null" {
		rec.ExpiresAt = f.moment("ttlExpiresAt")
	}
	f.integer("revision", 1)
	f.text("etag")
	f.moment("createdAt")
	f.moment("updatedAt")
	return rec, f.err
}

// skip reads a line that an export has between records, or at its end.
func (im *importer) skip(f *fields) {
	if f.has("cursor") {
		if f.only(cursorNames); f.text("cursor") == "" {
			f.fail("cursor", "must be a cursor")
		}
		return
	}
	if f.only(completeNames); !f.flag("complete") {
		f.fail("complete", "must be true")
	}
	records := f.integer("records", 0)
	if !records.Set {
		f.fail("records", "is missing")
	}
	im.complete, im.counted = true, records.Value
}

// moment reads a time by RFC 3339, to the millisecond; 0 when it is not there.
// Times before 1970 are its first.
func (f *fields) moment(name string) ext.Moment {
	if !f.has(name) {
		return 0
	}
	m, ok := parseMoment(f.text(name))
	if !ok {
		f.fail(name, notMoment)
	}
	return m
}

const notMoment = "must be a time such as 2026-11-21T15:04:05.123Z"

// parseMoment reads a time by RFC 3339.
func parseMoment(text string) (ext.Moment, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return max(ext.At(t), 1), err == nil // 0 would be never
}

// step puts the lines that were gathered. Also an import of nothing has one, in
// which it turns out whether the bearer may.
func (im *importer) step() error {
	if len(im.records) == 0 && im.steps > 0 {
		return nil
	}
	im.steps++
	x := im.x
	if err := x.wait(write); err != nil {
		return err
	}
	if err := web.AcquireSlot(x.out, x.in); err != nil {
		return err
	}
	defer web.ReleaseSlot(x.out)
	var done ext.Imported
	err := x.within(x.timeout, func() (err error) {
		done, err = x.service.Import(x.ctx(), x.ask, im.records)
		return err
	})
	if item, ok := err.(*ext.ItemError); ok { //nolint:errorlint // as in under
		return &ext.ItemError{Index: im.at[item.Index], Err: item.Err}
	}
	if err != nil {
		return err
	}
	im.done.Written += done.Written
	im.done.Same += done.Same
	im.done.Expired += done.Expired
	web.ReleaseMemory(x.out, im.charged)
	clear(im.records)
	im.records, im.at, im.bytes, im.charged = im.records[:0], im.at[:0], 0, 0
	clear(im.keys)
	return nil
}
