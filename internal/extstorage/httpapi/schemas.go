package httpapi

import (
	"math"
	"net/http"
	"strconv"

	ext "holdfast/internal/extstorage"
)

var schemasNames = []string{"cursor", "limit"}

// getSchemas answers a public list.
func (x *exchange) getSchemas() error { return x.listSchemas(x.query) }

// listSchemas lists a namespace's schema versions.
func (x *exchange) listSchemas(a arguments) error {
	cursor, limit := a.text("cursor"), pageLimit(a)
	if err := a.fault(); err != nil {
		return err
	}
	page, next, err := x.service.Schemas(x.ctx(), x.ask, x.route.namespace, cursor, limit)
	if err != nil {
		return err
	}
	size := sizeOfSchemas(page)
	for !x.fits(2 * size) {
		if err := x.await(2 * size); err != nil {
			return err
		}
		if page, next, err = x.service.Schemas(x.ctx(), x.ask, x.route.namespace, cursor, limit); err != nil {
			return err
		}
		size = sizeOfSchemas(page)
	}
	b := appendList(append(make([]byte, 0, size), `{"schemas":`...), page, appendSchema)
	b = append(appendNext(b, next), '}')
	x.keep(cap(b))
	return x.answer(http.StatusOK, b)
}

// version reads the version in the path.
func (x *exchange) version() (ext.SchemaVersion, error) {
	n, err := strconv.ParseInt(x.route.version, 10, 32)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != x.route.version {
		return 0, invalid("/version", notInteger(1, maxVersion))
	}
	return ext.SchemaVersion(n), nil
}

// getSchema answers a public read.
func (x *exchange) getSchema() error {
	version, err := x.version()
	if err != nil {
		return err
	}
	sc, err := x.service.Schema(x.ctx(), x.ask, x.route.namespace, version)
	if err != nil {
		return err
	}
	size := sizeOfSchema(&sc)
	for !x.fits(2 * size) {
		sc = ext.Schema{}
		if err := x.await(2 * size); err != nil {
			return err
		}
		if sc, err = x.service.Schema(x.ctx(), x.ask, x.route.namespace, version); err != nil {
			return err
		}
		size = sizeOfSchema(&sc)
	}
	b := appendSchema(make([]byte, 0, size), &sc)
	x.keep(cap(b))
	return x.answer(http.StatusOK, b)
}

// postSchema answers a public registration.
func (x *exchange) postSchema() error { return x.registerSchema(parseFields(x.body, "schema")) }

// registerSchema adds a version.
func (x *exchange) registerSchema(f *fields) error {
	raw, ok := f.find("schema")
	if !ok {
		f.lack("schema", "a JSON Schema document")
	}
	if f.err != nil {
		return f.err
	}
	sc, err := x.service.RegisterSchema(x.ctx(), x.ask, x.route.namespace, raw)
	if err != nil {
		return under("/schema", err)
	}
	if x.target != "" {
		x.out.Header().Set("Location", x.target+"/"+strconv.Itoa(int(sc.Version)))
	}
	return x.answer(http.StatusCreated, appendSchema(nil, &sc))
}

// setSchema answers a public change of status.
func (x *exchange) setSchema() error {
	version, err := x.version()
	if err != nil {
		return err
	}
	f := parseFields(x.body, "status")
	f.need("status")
	return x.setStatus(version, f.text("status"), f.err)
}

// setSchemaOf answers a change of status in an envelope.
func (x *exchange) setSchemaOf(f *fields) error {
	version := f.integer("version", 1, maxVersion)
	f.need("status")
	if !version.Set {
		f.lack("version", "")
	}
	return x.setStatus(ext.SchemaVersion(version.Value), f.text("status"), f.err)
}

// setStatus changes a version's status. err is an error in the request.
func (x *exchange) setStatus(version ext.SchemaVersion, status string, err error) error {
	if err != nil {
		return err
	}
	if err := x.await(2 * (rowBytes + ext.MaxSchemaBytes)); err != nil {
		return err
	}
	sc, err := x.service.SetSchema(x.ctx(), x.ask, x.route.namespace, version, ext.SchemaStatus(status))
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, appendSchema(nil, &sc))
}

// appendSchema appends a version, without a line end.
func appendSchema(b []byte, sc *ext.Schema) []byte {
	b = appendString(key(append(b, '{'), "namespace"), sc.Namespace)
	b = appendInt(key(b, "version"), sc.Version)
	b = appendString(key(b, "status"), sc.Status)
	b = append(key(b, "schema"), sc.Document...)
	b = appendMoment(key(b, "createdAt"), sc.CreatedAt)
	b = appendMoment(key(b, "updatedAt"), sc.UpdatedAt)
	if b = key(b, "createdBy"); sc.CreatedBy == "" {
		return append(b, "null}"...)
	}
	return append(appendString(b, sc.CreatedBy), '}')
}

// checkSchema tries a schema on the stored records, without registering it.
func (x *exchange) checkSchema() (err error) {
	f := parseFields(x.body, "schema", "version", "cursor")
	raw, isDocument := f.find("schema")
	version := f.integer("version", 1, math.MaxInt64)
	cursor := ""
	if _, resumed := f.find("cursor"); resumed {
		if cursor = f.text("cursor"); cursor == "" {
			f.fail("cursor", "must be a non-empty string")
		}
	}
	switch {
	case isDocument && version.Set:
		f.fail("schema", "must not be combined with version")
	case !isDocument && !version.Set:
		f.lack("schema", "a JSON Schema document, or version")
	case version.Value > maxVersion:
		return ext.ErrNoSchema
	}
	if f.err != nil {
		return f.err
	}
	var report ext.SchemaReport
	if isDocument {
		report, err = x.service.CheckSchema(x.ctx(), x.ask, x.route.namespace, raw, cursor)
	} else {
		report, err = x.service.CheckVersion(x.ctx(), x.ask, x.route.namespace, ext.SchemaVersion(version.Value), cursor)
	}
	if err != nil {
		return err
	}
	return x.answerRead(appendReport(nil, &report))
}

// appendReport appends the result of a check.
func appendReport(b []byte, r *ext.SchemaReport) []byte {
	b = append(b, `{"activeVersion":`...)
	if r.Active == 0 {
		b = append(b, "null"...)
	} else {
		b = appendInt(b, r.Active)
	}
	b = appendString(append(key(b, "compatibility"), `{"effect":`...), r.Compatibility.Effect)
	b = appendList(key(b, "changes"), r.Compatibility.Changes, func(b []byte, c *ext.SchemaChange) []byte {
		b = appendString(key(append(b, '{'), "pointer"), c.Pointer)
		b = appendString(key(b, "change"), c.Change)
		return append(appendString(key(b, "effect"), c.Effect), '}')
	})
	b = append(b, '}')
	b = appendInt(append(key(b, "records"), `{"checked":`...), int64(r.DryRun.Checked))
	b = appendInt(key(b, "failed"), int64(r.DryRun.Failed))
	b = appendList(key(b, "firstFailures"), r.DryRun.First, func(b []byte, d *ext.DryFailure) []byte {
		b = appendString(key(append(b, '{'), "key"), d.Key)
		b = appendInt(key(b, "revision"), d.Revision)
		b = appendString(key(b, "pointer"), d.Pointer)
		return append(appendString(key(b, "reason"), d.Reason), '}')
	})
	if b = key(b, "nextCursor"); r.DryRun.Next == "" {
		return append(b, "null}}"...)
	}
	return append(appendString(b, r.DryRun.Next), "}}"...)
}
