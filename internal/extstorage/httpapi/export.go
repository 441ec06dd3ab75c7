package httpapi

import (
	"net/http"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// export sends everything readable, page by page, each followed by a cursor. An export is complete only with the
// completion line.
func (x *exchange) export() error {
	cursor := x.query.text("cursor")
	for {
		page, err := x.exportPage(cursor)
		if err != nil {
			return err
		}
		x.out.Header().Set("Content-Type", typeLines)
		if err := x.sendPage(&page); err != nil {
			return errcode.Wrap(errcode.Unavailable, "the client stopped reading the export", err)
		}
		if page.Next == "" {
			return nil
		}
		x.keep(0) // hold no memory while waiting
		if err := x.wait(read); err != nil {
			return err
		}
		cursor = page.Next
	}
}

// exportPage reads a page. It holds a slot only while it reads, not while the client receives.
func (x *exchange) exportPage(cursor string) (page ext.ExportPage, err error) {
	if err := x.await(exportBytes); err != nil {
		return page, err
	}
	if err := web.AcquireSlot(x.in); err != nil {
		return page, err
	}
	defer web.ReleaseSlot(x.in)
	err = x.within(x.timeout, func() (err error) {
		page, err = x.service.Export(x.ctx(), x.ask, cursor, ext.MaxPage)
		return err
	})
	size := sizeOf(page.Records) + sizeOfSchemas(page.Schemas)
	x.keep(size + min(size, 2*flushAt))
	return page, err
}

const flushAt = 256 << 10

// AppendHeader appends an export's first line.
func AppendHeader(b []byte, h *ext.ExportHeader) []byte {
	b = appendInt(key(append(b, `{"export":1`...), "records"), h.Records)
	return append(appendInt(key(b, "lastChange"), h.LastChange), "}\n"...)
}

// AppendSchema appends a schema's line.
func AppendSchema(b []byte, sc *ext.Schema) []byte { return append(appendSchema(b, sc), '\n') }

// AppendLine appends a record's line.
func AppendLine(b []byte, rec *ext.Record) []byte { return append(appendRecord(b, rec), '\n') }

// AppendComplete appends the last line, which says how many records and schemas came before.
func AppendComplete(b []byte, last *ext.ExportPage) []byte {
	b = appendInt(append(b, `{"complete":true,"records":`...), last.Total)
	return append(appendInt(key(b, "schemas"), last.TotalSchemas), "}\n"...)
}

// sendPage sends a page's lines in pieces.
func (x *exchange) sendPage(page *ext.ExportPage) error {
	var b []byte
	if page.Header != nil {
		b = AppendHeader(b, page.Header)
	}
	for i := range len(page.Schemas) + len(page.Records) {
		if n := i - len(page.Schemas); n < 0 {
			b = AppendSchema(b, &page.Schemas[i])
		} else {
			b = AppendLine(b, &page.Records[n])
		}
		if len(b) < flushAt {
			continue
		}
		if _, err := x.out.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	if page.Next == "" {
		_, err := x.out.Write(AppendComplete(b, page))
		return err
	}
	if _, err := x.out.Write(append(appendString(append(b, `{"cursor":`...), page.Next), "}\n"...)); err != nil {
		return err
	}
	return http.NewResponseController(x.out).Flush()
}
