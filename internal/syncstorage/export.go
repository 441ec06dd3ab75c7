package syncstorage

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// ExportHeader is the first line of an export. Version is the format's; the account's
// fields say whose records they are, for an import into another server, and may be
// empty.
type ExportHeader struct {
	Version    int       `json:"export"`
	Account    string    `json:"account,omitempty"`    // at the accounts server
	Keys       string    `json:"keys,omitempty"`       // the id of the keys that the records are encrypted with
	Generation int64     `json:"generation,omitempty"` // of the account
	Records    int64     `json:"records"`              // that were there when it began
	At         Timestamp `json:"exportedAt"`
}

// exportVersion is the format that this release writes and reads.
const exportVersion = 1

// exportLine is a line behind the header: a collection, a record of the collection that
// came before it, or the end. Times are milliseconds since 1970.
type exportLine struct {
	Collection string    `json:"collection,omitempty"`
	ID         *string   `json:"id,omitempty"` // nil: the collection itself
	SortIndex  *int64    `json:"sortindex,omitempty"`
	Modified   Timestamp `json:"modified,omitempty"`
	Expiry     Timestamp `json:"expiry,omitempty"` // 0: never
	Payload    *string   `json:"payload,omitempty"`
	Binary     []byte    `json:"payloadBase64,omitempty"` // in the place of Payload: it is not UTF-8

	Complete    bool   `json:"complete,omitempty"`
	Collections *int64 `json:"collections,omitempty"` // before the end
	Records     *int64 `json:"records,omitempty"`     // likewise
}

func lineOf(collection string, b *BSO) exportLine {
	l := exportLine{Collection: collection, ID: &b.ID, Modified: b.Modified, Expiry: b.Expiry}
	if b.SortIndex.Set {
		l.SortIndex = &b.SortIndex.Value
	}
	if text := string(b.Payload); utf8.ValidString(text) {
		l.Payload = &text
	} else {
		l.Binary = b.Payload
	}
	return l
}

// WriteExport writes all of a user, of one snapshot: the header, a line for each
// collection, behind it a line for each of its records, and a line that says that all
// have come. It calls progress with the number of records so far.
func (s *Service) WriteExport(ctx context.Context, o Owner, h ExportHeader, now Timestamp, to io.Writer, progress func(records int64)) (records int64, err error) {
	usage, err := s.store.Usage(ctx, o, now)
	if err != nil {
		return 0, err
	}
	h.Version, h.At, h.Records = exportVersion, now, 0
	for _, c := range usage.Collections {
		h.Records += c.Records
	}
	w := bufio.NewWriterSize(to, 64<<10)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(h); err != nil {
		return 0, err
	}
	var collections int64
	for e, err := range s.store.Export(ctx, o, now) {
		if err != nil {
			return records, err
		}
		line := exportLine{Collection: e.Collection.Name, Modified: e.Collection.Modified}
		if e.BSO == nil {
			collections++
		} else {
			line = lineOf(e.Collection.Name, e.BSO)
			records++
			progress(records)
		}
		if err := lines.Encode(line); err != nil {
			return records, err
		}
	}
	if err := lines.Encode(exportLine{Complete: true, Collections: &collections, Records: &records}); err != nil {
		return records, err
	}
	return records, w.Flush()
}
