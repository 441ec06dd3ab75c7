package httpapi

import (
	"net/http"

	ext "holdfast/internal/extstorage"
)

const defaultLimit = 25

var listingNames = []string{"prefix", "cursor", "limit", "reverse", "values", "metadata"}

// getList answers a public list.
func (x *exchange) getList() error { return x.list(x.query) }

// list lists a namespace. a holds the query's or an envelope's parameters.
func (x *exchange) list(a arguments) error {
	l := ext.Listing{
		Namespace: x.route.namespace, Prefix: a.text("prefix"), Cursor: a.text("cursor"), Limit: pageLimit(a),
		Reverse: a.flag("reverse"), Values: a.flag("values"), Metadata: a.flag("metadata"),
	}
	if err := a.fault(); err != nil {
		return err
	}
	page, next, err := x.service.ListRecords(x.ctx(), x.ask, l)
	if err != nil {
		return err
	}
	size := sizeOf(page)
	for !x.fits(2 * size) {
		if err := x.await(2 * size); err != nil {
			return err
		}
		if page, next, err = x.service.ListRecords(x.ctx(), x.ask, l); err != nil {
			return err
		}
		size = sizeOf(page)
	}
	b := append(make([]byte, 0, size), `{"items":`...)
	b = appendList(b, page, func(b []byte, rec *ext.Record) []byte {
		b = appendString(key(append(b, '{'), "key"), rec.Key)
		b = appendTimes(appendVersion(b, rec.Revision, rec.Seq), rec.ExpiresAt, rec.CreatedAt, rec.UpdatedAt)
		if l.Values {
			b = append(key(b, "value"), rec.Value...)
		}
		if l.Metadata {
			b = append(key(b, "metadata"), rec.Metadata...)
		}
		return append(b, '}')
	})
	b = append(appendNext(b, next), '}')
	x.keep(cap(b))
	return x.answer(http.StatusOK, b)
}

// pageLimit reads the parameter limit.
func pageLimit(a arguments) int {
	if limit := a.integer("limit", 1, ext.MaxPage); limit.Set {
		return int(limit.Value)
	}
	return defaultLimit
}

// appendNext appends the next page's cursor, null after the last page.
func appendNext(b []byte, next string) []byte {
	if b = key(b, "nextCursor"); next == "" {
		return append(b, "null"...)
	}
	return appendString(b, next)
}
