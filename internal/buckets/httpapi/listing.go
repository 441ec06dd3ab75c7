package httpapi

import (
	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// entryMemory is charged for an entry of a page besides its name.
const entryMemory = 512

// nameMemory is charged for each byte of a name: for the name, for its JSON, and for
// the buffer of the JSON.
const nameMemory = 4

func (x *exchange) listBuckets() error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.out, x.in, int64(limit)*entryMemory); err != nil {
		return err
	}
	q := buckets.BucketQuery{Prefix: x.query.Get("prefix"), After: x.query.Get("marker"), Limit: limit}
	all, more, err := x.Service.Store.Buckets(x.ctx(), x.owner, q)
	if err != nil {
		return err
	}
	items, last := make([]bucketJSON, len(all)), ""
	for i := range all {
		items[i], last = ofBucket(&all[i]), all[i].Name
	}
	return sendPage(x, items, more, last)
}

func (x *exchange) listObjects() error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.out, x.in, int64(limit)*entryMemory); err != nil {
		return err
	}
	q := buckets.Query{Prefix: x.query.Get("prefix"), Delimiter: x.query.Get("delimiter"), Limit: limit}
	p, err := x.Service.Store.List(x.ctx(), x.owner, x.bucket.ID, q.Starting(x.query.Get("marker")))
	if err != nil {
		return err
	}
	items, names := make([]entryJSON, len(p.Entries)), 0
	for i := range p.Entries {
		items[i] = ofEntry(&p.Entries[i])
		names += len(items[i].Name)
	}
	if err := web.ChargeMemory(x.out, x.in, int64(names)*nameMemory); err != nil {
		return err
	}
	last := ""
	if len(items) > 0 {
		last = items[len(items)-1].Name
	}
	return sendPage(x, items, p.More, last)
}

func ofEntry(e *buckets.Entry) entryJSON {
	if e.Group != "" {
		return entryJSON{Type: "group", Name: e.Group}
	}
	v := ofVersion(e.Object)
	return entryJSON{Type: "object", Name: e.Object.Name, versionJSON: &v}
}
