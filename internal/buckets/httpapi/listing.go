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
	limit, metadata, err := x.objectLimit()
	if err != nil {
		return err
	}
	entry := int64(entryMemory)
	if metadata {
		entry += mostMetadata
	}
	if err := web.ChargeMemory(x.out, x.in, int64(limit)*entry); err != nil {
		return err
	}
	q := buckets.Query{Metadata: metadata, Prefix: x.query.Get("prefix"), Delimiter: x.query.Get("delimiter"), Limit: limit}
	p, err := x.Service.Store.List(x.ctx(), x.owner, x.bucket.ID, q.Starting(x.query.Get("marker")))
	if err != nil {
		return err
	}
	items, names := make([]entryJSON, len(p.Entries)), 0
	for i := range p.Entries {
		items[i] = ofEntry(&p.Entries[i], metadata)
		names += len(items[i].Name)
		if o := p.Entries[i].Object; o != nil && metadata {
			names += metadataBytes(o)
		}
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

// Limits of a page with metadata.
const (
	metadataPage = 100
	mostMetadata = 2*maxHeaders + maxRoles*36 + buckets.MaxExtra // bytes of an object's
)

// objectLimit reads the parameters limit and metadata.
func (x *exchange) objectLimit() (limit int, metadata bool, err error) {
	switch x.query.Get("metadata") {
	case "", "false":
		limit, err = x.limit()
		return limit, false, err
	case "true":
	default:
		return 0, false, invalid("metadata must be true or false")
	}
	if !x.query.Has("limit") {
		return metadataPage, true, nil
	}
	if limit, err = x.limit(); err == nil && limit > metadataPage {
		err = errMetadataLimit
	}
	return limit, true, err
}

func ofEntry(e *buckets.Entry, metadata bool) entryJSON {
	if e.Group != "" {
		return entryJSON{Type: "group", Name: e.Group}
	}
	v := ofVersion(e.Object)
	item := entryJSON{Type: "object", Name: e.Object.Name, versionJSON: &v}
	if o := e.Object; metadata {
		all := metadataOf(o)
		item.metadataJSON = &all
	}
	return item
}
