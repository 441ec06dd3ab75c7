package syncstorage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// ImportOptions are the choices for an import.
type ImportOptions struct {
	// Preserve keeps times, so that browsers recognize the state. Otherwise browsers read all records again.
	Preserve bool

	// Merge allows existing records. With Preserve the record with the later stamp wins; without it, the imported
	// record wins.
	Merge bool
}

// Imported counts an import.
type Imported struct {
	Collections, Records int64
	Written              int64 // stored here
	Expired              int64
	Newer                int64 // skipped because the record here has a later time
}

// Errors that end an import.
var (
	ErrNotEmpty error = errcode.New(errcode.Conflict, "the user has records here: import with --merge, or export them first and then delete them")
	// ErrImportRace means that another client wrote during the import.
	ErrImportRace error = errcode.New(errcode.Conflict, "another client wrote during the import: keep the account's browsers away (holdfast tokenserver access deny), then import again with --merge")
)

// These are limits per step, i.e. per transaction. A single record may exceed them.
const (
	stepRecords = 100
	stepBytes   = 1 << 20
)

// Import reads an export line by line. Memory is limited to a step.
type Import struct {
	Header ExportHeader

	lines *bufio.Reader
	at    int64 // line number
	done  Imported

	collection CollectionStamp // current
	open       bool            // no step was written yet
	id         string          // last record ID, to check the order
	records    []BSO
	bytes      int
	complete   bool
	counted    [2]int64 // collections and records according to the last line

	service *Service
	owner   Owner
	opts    ImportOptions
	clock   clock.Clock
	stamps  map[string]Timestamp // last stamp per collection, to detect other writers
	last    Timestamp
}

// NewImport reads the header. It returns errcode.Invalid for anything but an export.
func (s *Service) NewImport(from io.Reader, c clock.Clock) (*Import, error) {
	im := &Import{service: s, clock: c, lines: bufio.NewReaderSize(from, 64<<10)}
	line, err := im.line()
	if errors.Is(err, io.EOF) {
		return nil, errcode.New(errcode.Invalid, "the file is empty: expected an export")
	}
	if err != nil {
		return nil, err
	}
	if err := decodeLine(line, &im.Header); err != nil || im.Header.Version != exportVersion {
		return nil, im.wrong("expected the first line of an export, with \"export\":1")
	}
	return im, nil
}

// Run imports all records and returns the counts, even after an error. Call it once. It returns ErrNotEmpty,
// ErrImportRace, or errcode.Invalid with the line number.
func (im *Import) Run(ctx context.Context, o Owner, opts ImportOptions) (Imported, error) {
	im.owner, im.opts, im.stamps = o, opts, map[string]Timestamp{}
	here, err := im.service.store.Collections(ctx, o)
	if err != nil {
		return im.done, err
	}
	if len(here.Stamps) > 0 && !opts.Merge {
		return im.done, ErrNotEmpty
	}
	im.last = here.Modified
	for _, c := range here.Stamps {
		im.stamps[c.Name] = c.Modified
	}
	seen := map[string]bool{}
	for {
		line, err := im.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = im.add(ctx, line, seen)
		}
		if errors.Is(err, errCut) {
			break
		}
		if err != nil {
			return im.done, err
		}
	}
	if err := im.step(ctx); err != nil {
		return im.done, err
	}
	return im.done, im.checkComplete()
}

var errCut error = errcode.New(errcode.Invalid, "the last line was cut off")

// checkComplete compares the counts with the last line, which a truncated file lacks.
func (im *Import) checkComplete() error {
	switch {
	case !im.complete:
		return errcode.Newf(errcode.Invalid, "the export ends early: %d of %d records received, and the line with complete is missing", im.done.Records, im.Header.Records)
	case im.counted != [2]int64{im.done.Collections, im.done.Records}:
		return errcode.Newf(errcode.Invalid, "the export is damaged: %d collections and %d records came, and its last line counts %d and %d",
			im.done.Collections, im.done.Records, im.counted[0], im.counted[1])
	}
	return nil
}

// wrong is an error for the current line.
func (im *Import) wrong(format string, args ...any) error {
	return errcode.Newf(errcode.Invalid, "line %d: "+format, append([]any{im.at}, args...)...)
}

// line returns the next line, which must not be longer than a record can be. The slice is valid until the next call.
func (im *Import) line() ([]byte, error) {
	im.at++
	maxBytes := 6*im.service.conf.Load().Limits.largestPayload() + 4096 // up to six characters per byte
	var whole []byte
	for {
		part, err := im.lines.ReadSlice('\n')
		switch {
		case int64(len(whole)+len(part)) > maxBytes:
			return nil, im.wrong("is longer than %d bytes", maxBytes)
		case errors.Is(err, bufio.ErrBufferFull):
			whole = append(whole, part...)
			continue
		case errors.Is(err, io.EOF) && len(whole)+len(part) > 0:
			if whole = append(whole, part...); !json.Valid(whole) {
				return nil, errCut
			}
			return whole, nil
		case err != nil:
			return nil, err
		case whole == nil:
			return part, nil
		}
		return append(whole, part...), nil
	}
}

// largestPayload returns the greatest limit in any collection.
func (l Limits) largestPayload() int64 {
	maxBytes := l.MaxRecordPayloadBytes
	for _, c := range l.Collections {
		maxBytes = max(maxBytes, c.MaxRecordPayloadBytes)
	}
	return maxBytes
}

// decodeLine rejects unknown members, because they could be from a later format.
func decodeLine(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than an object")
	}
	return nil
}

// add takes a line. seen has the collections so far, each of which must be in one piece.
func (im *Import) add(ctx context.Context, line []byte, seen map[string]bool) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var l exportLine
	switch err := decodeLine(line, &l); {
	case im.complete:
		return im.wrong("follows the line with complete, which is the last")
	case err != nil:
		return im.wrong("expected a JSON object that is a collection, a record, or complete")
	case l.Complete:
		if l.Collections == nil || l.Records == nil || l.Collection != "" || l.ID != nil {
			return im.wrong("complete must have collections and records")
		}
		im.complete, im.counted = true, [2]int64{*l.Collections, *l.Records}
		return nil
	case !ValidCollection(l.Collection):
		return im.wrong("collection must be 1 to %d characters from A-Z a-z 0-9 . _ -", MaxCollectionName)
	case l.ID != nil:
		return im.record(ctx, &l)
	case seen[l.Collection]:
		return im.wrong("collection %s came before", l.Collection)
	}
	if err := im.step(ctx); err != nil {
		return err
	}
	if err := checkStamp(l.Modified, At(im.clock())); err != nil {
		return im.wrong("%s", errcode.Message(err))
	}
	seen[l.Collection] = true
	im.collection, im.open, im.id = CollectionStamp{l.Collection, l.Modified}, true, ""
	im.done.Collections++
	return nil
}

// record adds a record to the step, and writes the step first if it is full. Expired records are counted and left out.
func (im *Import) record(ctx context.Context, l *exportLine) error {
	b := BSO{ID: *l.ID, Payload: l.Binary, Modified: l.Modified, Expiry: l.Expiry}
	if l.SortIndex != nil {
		b.SortIndex = Some(*l.SortIndex)
	}
	if l.Payload != nil {
		b.Payload = []byte(*l.Payload)
	}
	now := At(im.clock())
	maxBytes := im.service.Limits(l.Collection).MaxRecordPayloadBytes
	switch err := b.CheckExported(now); {
	case l.Collection != im.collection.Name:
		return im.wrong("a record in %s must follow its collection's line", l.Collection)
	case err != nil:
		return im.wrong("%s", errcode.Message(err))
	case b.ID <= im.id:
		return im.wrong("records must be in the order of their ids, each once")
	case b.Modified > im.collection.Modified:
		return im.wrong("modified is later than the collection's")
	case (l.Payload == nil) == (l.Binary == nil):
		return im.wrong("expected either payload or payloadBase64")
	case int64(len(b.Payload)) > maxBytes:
		return im.wrong("the payload is %d bytes; this server accepts %d (syncstorage.limits.max_record_payload_bytes)", len(b.Payload), maxBytes)
	}
	im.id = b.ID
	im.done.Records++
	if !b.Live(now) {
		im.done.Expired++
		return nil
	}
	records, size := im.stepLimits()
	if len(im.records) == records || len(im.records) > 0 && im.bytes+len(b.Payload) > size {
		if err := im.step(ctx); err != nil {
			return err
		}
	}
	im.records, im.bytes = append(im.records, b), im.bytes+len(b.Payload)
	return nil
}

// stepLimits returns the limits for a step, at most those for a POST.
func (im *Import) stepLimits() (records, size int) {
	l := im.service.Limits(im.collection.Name)
	return int(min(stepRecords, l.MaxPostRecords)), int(min(stepBytes, l.MaxPostBytes))
}

// step writes the records so far. A collection without records is still created.
func (im *Import) step(ctx context.Context) (err error) {
	if len(im.records) == 0 && !im.open {
		return nil
	}
	if im.opts.Preserve {
		err = im.restore(ctx)
	} else {
		err = im.post(ctx)
	}
	if _, lost := errors.AsType[*PreconditionError](err); lost {
		err = ErrImportRace
	}
	if err != nil {
		return fmt.Errorf("collection %s, up to line %d: %w", im.collection.Name, im.at, err)
	}
	im.open, im.records, im.bytes = false, im.records[:0], 0
	return nil
}

// restore fails if another client writes concurrently, because that client would miss the records.
func (im *Import) restore(ctx context.Context) error {
	restored, err := im.service.Restore(ctx, im.owner, Request{
		Collection: im.collection.Name, Now: At(im.clock()),
		// Require exactly the last stamp, because DeleteAll resets it.
		If: Precondition{UnmodifiedSince: Some(im.last), ModifiedSince: Some(im.last - Tick)},
	}, Restore{Modified: im.collection.Modified, Records: im.records})
	if err != nil {
		return err
	}
	im.last = restored.User
	im.done.Newer += int64(restored.Newer)
	im.done.Written += int64(len(im.records) - restored.Newer)
	return nil
}

// post writes with new stamps, under the precondition that nobody else wrote to the collection.
func (im *Import) post(ctx context.Context) error {
	now := At(im.clock())
	items := make([]Item, 0, len(im.records))
	for i := range im.records {
		b := &im.records[i]
		u := Update{ID: b.ID, SortIndex: b.SortIndex, Payload: Some(b.Payload)}
		if b.Expiry != 0 {
			u.TTL = Some(min((max(int64(b.Expiry-now), 0)+999)/1000, MaxTTL))
		}
		items = append(items, Item{Update: u})
	}
	name := im.collection.Name
	posted, err := im.service.Post(ctx, im.owner, Request{
		Collection: name, Now: now, If: Precondition{UnmodifiedSince: Some(im.stamps[name])},
	}, BatchQuery{}, items)
	if err != nil {
		return err
	}
	im.stamps[name] = posted.Modified
	im.done.Written += int64(len(posted.Success))
	if len(posted.Failed) > 0 {
		return errcode.Newf(errcode.Invalid, "record %s was refused: %s", posted.Failed[0].ID, posted.Failed[0].Reason)
	}
	return nil
}
