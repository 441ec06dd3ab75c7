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
			return fault.Wrap(fault.Unavailable, "the client does not take the export", err)
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

// exportPage reads a page, which it reads again when it has to wait for the memory.
func (x *exchange) exportPage(cursor string) (page ext.ExportPage, err error) {
	if err := web.AcquireSlot(x.out, x.in); err != nil {
		return page, err
	}
	defer web.ReleaseSlot(x.out)
	for {
		err := x.within(x.timeout, func() (err error) {
			page, err = x.service.Export(x.ctx(), x.ask, cursor, ext.MaxPage)
			return err
		})
		if err != nil {
			return page, err
		}
		size := sizeOf(page.Records)
		if size += min(size, 2*flushAt); x.fits(size) {
			return page, nil
		}
		page = ext.ExportPage{}
		if err := x.await(size); err != nil {
			return page, err
		}
	}
}

// flushAt is how much of a page is encoded before it is sent on.
const flushAt = 256 << 10

// sendPage sends a page on its way, and then the cursor of the next page, or that
// it was the last and how many records there were.
func (x *exchange) sendPage(page *ext.ExportPage) error {
	var b []byte
	for i := range page.Records {
		if b = AppendLine(b, &page.Records[i]); len(b) < flushAt {
			continue
		}
		if _, err := x.out.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	if page.Next == "" {
		_, err := x.out.Write(AppendComplete(b, page.Total))
		return err
	}
	if _, err := x.out.Write(append(appendString(append(b, `{"cursor":`...), page.Next), "}\n"...)); err != nil {
		return err
	}
	return http.NewResponseController(x.out).Flush()
}
