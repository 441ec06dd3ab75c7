package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

const maxLine = recordBody

// These are the members of each kind of line in an export. The last four in lineNames are replaced unless the import
// preserves them.
var (
	headerNames   = []string{"export", "records", "lastChange"}
	schemaNames   = []string{"namespace", "version", "status", "schema", "createdAt", "updatedAt", "createdBy"}
	lineNames     = []string{"namespace", "key", "value", "metadata", "ttlExpiresAt", "revision", "etag", "createdAt", "updatedAt"}
	cursorNames   = []string{"cursor"}
	completeNames = []string{"complete", "records", "schemas"}

	anyLine = slices.Concat(lineNames, schemaNames, cursorNames, completeNames, headerNames)
)

var errImports = errcode.New(errcode.Unavailable, "too many imports and long polls are running: retry later")

type Imported struct {
	Lines   int
	Records int
	Schemas int
	ext.Imported
}

// importFailure is an error with the counts so far, which the answer contains.
type importFailure struct {
	err  error
	done Imported
}

func (e *importFailure) Error() string { return e.err.Error() }
func (e *importFailure) Unwrap() error { return e.err }

// importer reads an export's lines and imports records in steps.
type importer struct {
	x     *exchange
	as    ext.Import
	done  Imported
	steps int

	header   *ext.ExportHeader
	complete bool
	// records and schemas according to the last line
	counted [2]int64

	// collected for the next step
	records []ext.Record
	// their lines
	at      []int
	bytes   int
	charged int64
	long    bool // charged memory for a line beyond the reader's buffer
	keys    map[ext.Position]bool
}

// imports answers a public import. Few imports may run at a time.
func (x *exchange) imports() error {
	im := newImporter(x)
	leave, ok := x.service.EnterWait(x.ask.Grant.Owner)
	if !ok {
		return errImports
	}
	defer leave()
	web.StreamBody(x.in)
	if err := im.read(x.in.Body); err != nil {
		return &importFailure{err, im.done}
	}
	return x.answer(http.StatusOK, im.done.appendTo(nil))
}

// appendTo appends the counts.
func (d *Imported) appendTo(b []byte) []byte {
	b = appendInt(append(b, `{"lines":`...), d.Lines)
	b = appendInt(key(b, "records"), d.Records)
	b = appendInt(key(b, "written"), d.Written)
	b = appendInt(key(b, "unchanged"), d.Unchanged)
	b = appendInt(key(b, "expired"), d.Expired)
	return append(appendInt(key(b, "schemas"), d.Schemas), '}')
}

// Import imports an export for operators, without rate limits. The index of an *ext.ItemError is the line, from 0.
func Import(ctx context.Context, s *ext.Service, r ext.Request, preserve bool, lines io.Reader) (Imported, error) {
	in := &http.Request{}
	im := newImporter(&exchange{in: in.WithContext(ctx), service: s, ask: r})
	im.as.Preserve = preserve
	err := im.read(lines)
	return im.done, err
}

func newImporter(x *exchange) *importer { return &importer{x: x, keys: map[ext.Position]bool{}} }

// read imports all lines. If the body is cut off, the lines before it still count.
func (im *importer) read(lines io.Reader) error {
	if err := web.ChargeMemory(im.x.in, importBytes); err != nil {
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
		if large, ok := err.(*ext.LimitError); ok { //nolint:errorlint // as in ext.Under: those of steps are of another line
			err = &ext.ItemError{Index: im.done.Lines, Err: large}
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

// checkComplete returns an error unless the last line came, and as many records and schemas as it counts.
func (im *importer) checkComplete() error {
	came := "incomplete import: received " + count(int64(im.done.Records), "record", "records")
	const hint = ": send every line of the export"
	switch {
	case !im.complete && im.header != nil:
		return incomplete(fmt.Sprintf("%s of %d and no last line with complete%s", came, im.header.Records, hint))
	case !im.complete:
		return incomplete(came + " and no last line with complete" + hint)
	case im.counted != [2]int64{int64(im.done.Records), int64(im.done.Schemas)}:
		return incomplete(fmt.Sprintf("%s and %s, but the last line counts %d and %d%s",
			came, count(int64(im.done.Schemas), "schema", "schemas"), im.counted[0], im.counted[1], hint))
	}
	return nil
}

// count words a number.
func count(n int64, singular, plural string) string {
	if n == 1 {
		return "1 " + singular
	}
	return strconv.FormatInt(n, 10) + " " + plural
}

// incomplete answers 400 with a code of its own: the client may send the whole export again.
func incomplete(reason string) error {
	return &refusal{http.StatusBadRequest, "IMPORT_INCOMPLETE", "", reason, errcode.Invalid}
}

// readLine reads a line, charging memory for a long one.
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
		return nil, &ext.LimitError{Limit: maxLine, Unit: "bytes"}
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, bodyErrors.Of(err)
	}
	return line, err
}

// add imports a line. Empty lines are allowed.
func (im *importer) add(line []byte) error {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	if im.complete {
		return &ext.ItemError{Index: im.done.Lines, Err: invalid("", "follows the line with complete, which must be the last")}
	}
	f := parseFields(line, anyLine...)
	switch {
	case f.has("export"):
		im.begin(f)
	case f.has("cursor"), f.has("complete"):
		im.skip(f)
	case f.has("schema"):
		return im.schema(f)
	default:
		return im.record(f)
	}
	return im.inLine(f.err)
}

// inLine adds the line to a client's error.
func (im *importer) inLine(err error) error {
	if err == nil || isOurs(err) {
		return err
	}
	return &ext.ItemError{Index: im.done.Lines, Err: err}
}

// begin reads the first line.
func (im *importer) begin(f *fields) {
	f.only(headerNames)
	h := ext.ExportHeader{Records: f.integer("records", 0, math.MaxInt64).Value, LastChange: ext.Seq(f.integer("lastChange", 0, math.MaxInt64).Value)}
	switch {
	case f.integer("export", 1, math.MaxInt64).Value != 1:
		f.fail("export", "must be 1, the only format version that this server supports")
	case im.header != nil || im.done.Records+im.done.Schemas > 0:
		f.fail("export", "must be on the first line")
	default:
		f.note(im.as.ImportHeader(h))
		im.header = &h
	}
}

// schema imports a schema version, after the records collected so far.
func (im *importer) schema(f *fields) error {
	f.only(schemaNames)
	f.need("namespace", "version", "status")
	raw, _ := f.find("schema")
	sc := ext.Schema{
		Namespace: ext.Namespace(f.text("namespace")), Status: ext.SchemaStatus(f.text("status")), Document: raw,
		CreatedAt: f.moment("createdAt"), UpdatedAt: f.moment("updatedAt"),
	}
	if _, err := ext.ParseNamespace(string(sc.Namespace)); err != nil {
		f.note(under("/namespace", err))
	}
	sc.Version = ext.SchemaVersion(f.integer("version", 1, maxVersion).Value)
	if raw, _ := f.find("createdBy"); string(raw) != "null" {
		sc.CreatedBy = f.text("createdBy")
	}
	if f.err != nil {
		return im.inLine(f.err)
	}
	im.done.Schemas++
	if err := im.step(); err != nil {
		return err
	}
	need := workCopies * int64(len(raw))
	if err := im.charge(need); err != nil {
		return err
	}
	defer web.ReleaseMemory(im.x.in, need)
	im.steps++
	return im.inLine(im.do(func(x *exchange) error {
		_, err := x.service.ImportSchema(x.ctx(), x.ask, &im.as, sc)
		return err
	}))
}

// record collects a record, after a step if the step is full or already has the key.
func (im *importer) record(f *fields) error {
	rec, err := im.readRecord(f)
	if err != nil {
		return im.inLine(err)
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

// charge reserves n more bytes. If they are unavailable, it first runs the current step, so that imports do not wait
// for each other's memory.
func (im *importer) charge(n int64) error {
	if web.TryChargeMemory(im.x.in, n) {
		return nil
	}
	if len(im.records) > 0 {
		if err := im.step(); err != nil {
			return err
		}
	}
	return web.ChargeMemory(im.x.in, n)
}

// readRecord reads a record's line. In place of a TTL, it takes the time of expiry.
func (im *importer) readRecord(f *fields) (rec ext.Record, err error) {
	f.only(lineNames)
	f.need("namespace", "key")
	limits := im.x.service.Limits()
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
		f.lack("value", "")
	}
	if raw, _ := f.find("ttlExpiresAt"); string(raw) != "null" {
		rec.ExpiresAt = f.moment("ttlExpiresAt")
	}
	rec.Revision = ext.Revision(f.integer("revision", 1, math.MaxInt64).Value)
	f.text("etag")
	rec.CreatedAt, rec.UpdatedAt = f.moment("createdAt"), f.moment("updatedAt")
	return rec, f.err
}

// skip reads a cursor's line, which a page of an export ends with and which has no effect, or the last line.
func (im *importer) skip(f *fields) {
	if f.has("cursor") {
		if f.only(cursorNames); f.text("cursor") == "" {
			f.fail("cursor", "must be a non-empty string")
		}
		return
	}
	if f.only(completeNames); !f.flag("complete") {
		f.fail("complete", "must be true")
	}
	records := f.integer("records", 0, math.MaxInt64)
	if !records.Set {
		f.lack("records", "")
	}
	im.complete, im.counted = true, [2]int64{records.Value, f.integer("schemas", 0, math.MaxInt64).Value}
}

// moment parses an RFC 3339 time. It returns 0 if the member is absent, and 1 for times before 1970.
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

const notMoment = "must be an RFC 3339 time, e.g. 2026-11-21T15:04:05.123Z"

// parseMoment returns at least 1, since 0 means never.
func parseMoment(text string) (ext.Moment, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return max(ext.At(t), 1), err == nil
}

// step imports the collected records, at most a batch, all or nothing. The first step runs even without records: it
// checks whether the client may import.
func (im *importer) step() error {
	if len(im.records) == 0 && im.steps > 0 {
		return nil
	}
	im.steps++
	var done ext.Imported
	err := im.do(func(x *exchange) (err error) {
		done, err = x.service.Import(x.ctx(), x.ask, &im.as, im.records)
		return err
	})
	if item, ok := err.(*ext.ItemError); ok { //nolint:errorlint // as in under
		return &ext.ItemError{Index: im.at[item.Index], Err: item.Err}
	}
	if err != nil {
		return err
	}
	im.done.Add(done)
	web.ReleaseMemory(im.x.in, im.charged)
	clear(im.records)
	im.records, im.at, im.bytes, im.charged = im.records[:0], im.at[:0], 0, 0
	clear(im.keys)
	return nil
}

// do runs a step in a slot of its own, within the rate limit.
func (im *importer) do(fn func(*exchange) error) error {
	x := im.x
	if err := x.wait(write); err != nil {
		return err
	}
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	defer web.ReleaseSlot(x.in)
	return x.within(x.timeout, func() error { return fn(x) })
}
