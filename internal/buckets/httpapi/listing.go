package httpapi

import "holdfast/internal/buckets"

const (
	// entryMemory is charged per batch entry, without its texts.
	entryMemory = 512

	// batchMemory is charged per batch entry until its size is known.
	batchMemory = entryMemory + buckets.MaxObjectName + mostMetadata

	// textMemory is charged per byte of text. It covers the text and its JSON, in which a byte may become \u0001.
	textMemory = 7

	metadataSlice = 16 // entries per slice with metadata

	// sliceMemory is charged for a slice and the JSON of one entry.
	sliceMemory = buckets.SliceMemory + textMemory*(buckets.MaxObjectName+mostMetadata)

	// mostSettings is above the largest size of a bucket's settings.
	mostSettings = 64 << 10
)

// listBuckets writes at most limit buckets, slice by slice.
func (x *exchange) listBuckets() error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	q := buckets.BucketQuery{Prefix: x.query.Get("prefix"), After: x.query.Get("marker"), Bytes: buckets.SliceBytes}
	d, more := x.newPage(), false
	err = d.blocks.Slices(sliceMemory+mostSettings, func() (bool, error) {
		q.Limit = min(limit-d.count, buckets.FirstSlice)
		var slice []buckets.Bucket
		if err := d.blocks.Read(func() (err error) {
			slice, more, err = x.Service.Buckets(x.ctx(), x.owner, q)
			return err
		}); err != nil {
			return false, err
		}
		for i := range slice {
			if err := d.add(ofBucket(&slice[i])); err != nil {
				return false, err
			}
			q.After = slice[i].Name
		}
		return more && d.count < limit, nil
	})
	if err != nil {
		return err
	}
	return d.finishPage(more, q.After)
}

// listObjects writes slice by slice. Slices with metadata are small, because metadata is large.
func (x *exchange) listObjects() error {
	limit, metadata, err := x.objectLimit()
	if err != nil {
		return err
	}
	q := buckets.Query{Metadata: metadata, Prefix: x.query.Get("prefix"), Delimiter: x.query.Get("delimiter"), Bytes: buckets.SliceBytes}
	q = q.Starting(x.query.Get("marker"))
	memory := int64(sliceMemory)
	if metadata { // read after the slice ends
		memory += metadataSlice * mostMetadata
	}
	d := x.newPage()
	last, page, sliceSize := "", buckets.Page{}, buckets.FirstSlice
	err = d.blocks.Slices(memory, func() (bool, error) {
		if metadata {
			sliceSize = metadataSlice
		}
		q.Limit = min(limit-d.count, sliceSize)
		if err := d.blocks.Read(func() (err error) {
			page, err = x.Service.List(x.ctx(), x.owner, x.bucket.ID, q)
			return err
		}); err != nil {
			return false, err
		}
		if len(page.Entries) == 0 {
			return false, nil
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if err := d.add(ofEntry(e, metadata)); err != nil {
				return false, err
			}
			last = e.Name()
		}
		q.Start, sliceSize = page.Next, page.PerSlice()
		page.Entries = nil
		return page.More && d.count < limit, nil
	})
	if err != nil {
		return err
	}
	return d.finishPage(page.More, last)
}

const (
	metadataPage = 100
	mostMetadata = 2*maxHeaders + maxRoles*36 + buckets.MaxExtra // bytes per object
)

// objectLimit returns the page size, which is smaller with metadata.
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

// ofEntry converts an entry.
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
