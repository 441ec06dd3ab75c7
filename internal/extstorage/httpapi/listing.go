package httpapi

import (
	"net/http"

	ext "holdfast/internal/extstorage"
)

// defaultLimit is how many records a page has unless the client wants another
// number.
const defaultLimit = 25

// listingNames are the arguments of a listing.
var listingNames = []string{"prefix", "cursor", "limit", "reverse", "values", "metadata"}

func (x *exchange) getList() error { return x.list(x.query) }

func (x *exchange) list(a arguments) error {
	l := ext.Listing{
		Namespace: x.route.namespace, Prefix: a.text("prefix"), Cursor: a.text("cursor"), Limit: defaultLimit,
		Reverse: a.flag("reverse"), Values: a.flag("values"), Metadata: a.flag("metadata"),
	}
	if limit := a.integer("limit", 1); limit.Set {
		l.Limit = int(min(limit.Value, ext.MaxPage+1)) // which the service refuses
	}
	if err := a.fault(); err != nil {
		return err
	}
	page, next, err := x.service.ListRecords(x.ctx(), x.ask, l)
	if err != nil {
		return err
	}
	size := 64
	for i := range page {
		size += 256 + len(page[i].Value) + len(page[i].Metadata)
	}
	b := append(make([]byte, 0, size), `{"items":`...)
	b = appendList(b, page, func(b []byte, rec *ext.Record) []byte {
		b = appendString(key(append(b, '{'), "key"), rec.Key)
		b = appendHeader(b, rec.Revision, rec.Seq, rec.ExpiresAt, rec.CreatedAt, rec.UpdatedAt)
		if l.Values {
			b = append(key(b, "value"), rec.Value...)
		}
		if l.Metadata {
			b = append(key(b, "metadata"), rec.Metadata...)
		}
		return append(b, '}')
	})
	b = key(b, "nextCursor")
	if next == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, next)
	}
	return x.answer(http.StatusOK, append(b, '}'))
}
