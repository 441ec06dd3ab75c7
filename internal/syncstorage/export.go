package syncstorage

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// ExportHeader is an export's first line. The optional account fields identify the owner on another server.
type ExportHeader struct {
	Version    int       `json:"export"` // 1
	Account    string    `json:"account,omitempty"`
	Keys       string    `json:"keys,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Label      string    `json:"label,omitempty"`
	Records    int64     `json:"records"` // may change while the export runs
	At         Timestamp `json:"exportedAt"`
}

const exportVersion = 1

// exportLine is any line after the header: a collection, a record, or the last line with Complete.
type exportLine struct {
	Collection string    `json:"collection,omitempty"`
	ID         *string   `json:"id,omitempty"`
	SortIndex  *int64    `json:"sortindex,omitempty"`
	Modified   Timestamp `json:"modified,omitempty"`
	Expiry     Timestamp `json:"expiry,omitempty"`
	Payload    *string   `json:"payload,omitempty"`
	Binary     []byte    `json:"payloadBase64,omitempty"` // replaces Payload if that is not UTF-8

	Complete    bool   `json:"complete,omitempty"`
	Collections *int64 `json:"collections,omitempty"`
	Records     *int64 `json:"records,omitempty"`
}

// lineOf returns a record's line.
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

// WriteExport writes a snapshot: the header, each collection followed by its records, and a completion line. progress,
// which must not be nil, gets the number of records written so far, after each record.
func (s *Service) WriteExport(ctx context.Context, o Owner, h ExportHeader, to io.Writer, progress func(records int64)) (records int64, err error) {
	usage, err := s.store.Usage(ctx, o, h.At)
	if err != nil {
		return 0, err
	}
	h.Version, h.Records = exportVersion, 0
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
	for e, err := range s.store.Export(ctx, o, h.At) {
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
