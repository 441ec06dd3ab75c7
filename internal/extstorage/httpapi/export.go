package httpapi

import (
	"net/http"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// export sends everything that the bearer may read, page by page. Behind each
// page stands a cursor by which another request goes on; only what ends with the
// line of completion is complete. Each page is a read of the rate, for which an
// export waits when it has begun.
func (x *exchange) export() error {
	cursor, sent, count := x.query.text("cursor"), false, 0
	flush := http.NewResponseController(x.out).Flush
	for {
		var page []ext.Record
		var next string
		err := x.within(x.timeout, func() (err error) {
			page, next, err = x.service.Export(x.ctx(), x.ask, cursor, ext.MaxPage)
			return err
		})
		if err != nil {
			return err
		}
		size := 128
		for i := range page {
			size += 256 + len(page[i].Value) + len(page[i].Metadata)
		}
		b := make([]byte, 0, size)
		for i := range page {
			b = AppendLine(b, &page[i])
		}
		count += len(page)
		if next == "" {
			b = AppendComplete(b, int64(count))
		} else {
			b = append(appendString(append(b, `{"cursor":`...), next), "}\n"...)
		}
		if !sent {
			x.out.Header().Set("Content-Type", typeLines)
			sent = true
		}
		if _, err := x.out.Write(b); err != nil {
			return fault.Wrap(fault.Unavailable, "the client does not take the export", err)
		}
		if next == "" {
			return nil
		}
		if err := flush(); err != nil {
			return fault.Wrap(fault.Unavailable, "the client does not take the export", err)
		}
		cursor = next
		if err := x.wait(read); err != nil {
			return err
		}
	}
}
