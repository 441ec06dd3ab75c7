package httpapi

import (
	"net/http"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
	"holdfast/internal/web"
)

// export sends everything that the bearer may read, page by page. Behind each
// page stands a cursor by which another request goes on; only what ends with the
// line of completion is complete; an export that goes on counts the records of all
// parts in it. Each page is a read of the rate, for which an export waits when it
// has begun.
func (x *exchange) export() error {
	cursor := x.query.text("cursor")
	for {
		page, err := x.exportPage(cursor)
		if err != nil {
			return err
		}
		x.out.Header().Set("Content-Type", typeLines) // the first time; later it has no effect
		if err := x.sendPage(&page); err != nil {
			return fault.Wrap(fault.Unavailable, "the client stopped reading the export", err)
		}
		if page.Next == "" {
			return nil
		}
		x.keep(0) // while it waits
		if err := x.wait(read); err != nil {
			return err
		}
		cursor = page.Next
	}
}

// exportPage reads a page, for which there is memory.
func (x *exchange) exportPage(cursor string) (page ext.ExportPage, err error) {
	if err := x.await(exportBytes); err != nil {
		return page, err
	}
	if err := web.AcquireSlot(x.out, x.in); err != nil {
		return page, err
	}
	defer web.ReleaseSlot(x.out)
	err = x.within(x.timeout, func() (err error) {
		page, err = x.service.Export(x.ctx(), x.ask, cursor, ext.MaxPage)
		return err
	})
	size := sizeOf(page.Records) + sizeOfSchemas(page.Schemas)
	x.keep(size + min(size, 2*flushAt))
	return page, err
}

// flushAt is how much of a page is encoded before it is sent on.
const flushAt = 256 << 10

// AppendHeader appends the line that begins an export.
func AppendHeader(b []byte, h *ext.ExportHeader) []byte {
	b = appendInt(key(append(b, `{"export":1`...), "records"), h.Records)
	return append(appendInt(key(b, "lastChange"), h.LastChange), "}\n"...)
}

// AppendSchema appends the line of a schema, its end included.
func AppendSchema(b []byte, sc *ext.Schema) []byte { return append(appendSchema(b, sc), '\n') }

// AppendLine appends the line of a record, its end included.
func AppendLine(b []byte, rec *ext.Record) []byte { return append(appendRecord(b, rec), '\n') }

// AppendComplete appends the line that ends an export with its last page.
func AppendComplete(b []byte, last *ext.ExportPage) []byte {
	b = appendInt(append(b, `{"complete":true,"records":`...), last.Total)
	return append(appendInt(key(b, "schemas"), last.TotalSchemas), "}\n"...)
}

// sendPage sends a page on its way, and then the cursor of the next page, or that
// it was the last and how many records there were.
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
