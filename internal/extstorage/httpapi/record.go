package httpapi

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"strings"
	"time"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

// place returns a task for the record in the path, with its preconditions.
func (x *exchange) place(kind ext.TaskKind, revision ext.Optional[int64]) (ext.Task, error) {
	g, err := x.precondition(revision)
	return ext.Task{Kind: kind, Namespace: x.route.namespace, Key: x.route.key, Precondition: g}, err
}

// get answers a read of a record.
func (x *exchange) get() error {
	revision, err := revisionHeader(x.in.Header)
	if err != nil {
		return err
	}
	g, err := x.precondition(revision)
	if err != nil {
		return err
	}
	known := ext.Precondition{NoneMatch: g.NoneMatch}
	g.NoneMatch = ext.Tags{}
	rec, err := x.service.GetRecord(x.ctx(), x.ask, x.route.namespace, x.route.key, g)
	if err != nil {
		return err
	}
	size := sizeOfRecord(&rec)
	for !x.fits(2 * size) {
		rec = ext.Record{}
		if err := x.await(2 * size); err != nil {
			return err
		}
		if rec, err = x.service.GetRecord(x.ctx(), x.ask, x.route.namespace, x.route.key, g); err != nil {
			return err
		}
		size = sizeOfRecord(&rec)
	}
	x.out.Header().Set("ETag", rec.Seq.ETag())
	if modified := known.Check(rec.Revision, rec.Seq) == nil; !modified {
		x.out.WriteHeader(http.StatusNotModified)
		return nil
	}
	b := appendRecord(make([]byte, 0, rowBytes+size), &rec)
	x.keep(cap(b))
	return x.answer(http.StatusOK, b)
}

var putNames = []string{"value", "metadata", "ttlSeconds", "ifRevision", "schemaVersion"}

// readPut reads a put's members into t.
func (x *exchange) readPut(f *fields, t *ext.Task) {
	limits := x.service.Limits()
	t.Kind = ext.PutTask
	t.Value = f.value("value", limits.Value)
	t.Metadata = f.value("metadata", limits.Metadata)
	t.TTL = f.integer("ttlSeconds", int64(limits.MinTTL/time.Second), int64(limits.MaxTTL/time.Second))
	version := f.integer("schemaVersion", 1, maxVersion)
	t.Schema = ext.Optional[ext.SchemaVersion]{Value: ext.SchemaVersion(version.Value), Set: version.Set}
}

// Greatest schema version.
const maxVersion = ext.MaxSchemaVersion

// putRecord answers a public put.
func (x *exchange) putRecord() error { return x.put(parseFields(x.body, putNames...)) }

// put stores the record in the path. f is the body or an envelope.
func (x *exchange) put(f *fields) error {
	t, err := x.place(ext.PutTask, f.integer("ifRevision", 0, math.MaxInt64))
	if x.readPut(f, &t); f.err != nil {
		return f.err
	}
	if err != nil {
		return err
	}
	return x.do(&t)
}

// deleteRecord answers a public deletion.
func (x *exchange) deleteRecord() error { return x.delete(x.query) }

// delete deletes the record in the path.
func (x *exchange) delete(a arguments) error {
	t, err := x.place(ext.DeleteTask, a.integer("ifRevision", 0, math.MaxInt64))
	if err = cmp.Or(a.fault(), err); err != nil {
		return err
	}
	if _, err := x.service.Do(x.ctx(), x.ask, t); err != nil {
		return err
	}
	return x.nothing()
}

// patchRecord answers a public patch.
func (x *exchange) patchRecord() error {
	if len(bytes.TrimSpace(x.body)) == 0 {
		return invalid("", "is empty: expected a JSON merge patch")
	}
	patch, err := canonjson.Parse(x.body, x.service.Limits().Value)
	if err != nil {
		return err
	}
	return x.patch(x.query, patch, "")
}

// patch applies a JSON merge patch (RFC 7396). at points to the patch in the request.
func (x *exchange) patch(a arguments, patch canonjson.Value, at string) error {
	t, err := x.place(ext.PatchTask, a.integer("ifRevision", 0, math.MaxInt64))
	if err = cmp.Or(a.fault(), err); err != nil {
		return err
	}
	t.Value = patch
	return under(at, x.do(&t))
}

var incrementNames = []string{"pointer", "by", "min", "max", "create", "ifRevision"}

// readIncrement reads an increment's members into t.
func readIncrement(f *fields, t *ext.Task) {
	t.Kind = ext.IncrementTask
	if !f.has("pointer") {
		f.lack("pointer", "a JSON pointer to a number")
	}
	pointer, err := canonjson.ParsePointer(f.text("pointer"))
	if err != nil {
		f.note(under("/pointer", err))
	}
	t.Increment = canonjson.Increment{Pointer: pointer, By: f.number("by"), Min: f.number("min"), Max: f.number("max"), Create: f.flag("create")}
}

// postIncrement answers a public increment.
func (x *exchange) postIncrement() error {
	return x.increment(parseFields(x.body, incrementNames...))
}

// increment adds to a number in the record's value.
func (x *exchange) increment(f *fields) error {
	t, err := x.place(ext.IncrementTask, f.integer("ifRevision", 0, math.MaxInt64))
	if readIncrement(f, &t); f.err != nil {
		return f.err
	}
	if err != nil {
		return err
	}
	if x.ask.IdempotencyKey, err = x.idempotencyKey(); err != nil {
		return err
	}
	return x.do(&t)
}

// do runs a task and answers with the record's new revision: 201 for a new record.
func (x *exchange) do(t *ext.Task) error {
	r, err := x.service.Do(x.ctx(), x.ask, *t)
	if err != nil {
		return err
	}
	status := http.StatusOK
	h := x.out.Header()
	h.Set("ETag", r.Seq.ETag())
	x.replayed(r.Replayed)
	if r.Created {
		status = http.StatusCreated
		if x.route.resource == record || x.route.resource == increment {
			h.Set("Location", x.recordPath())
		}
	}
	b := appendMeta(append(make([]byte, 0, 512), '{'), &r)
	if t.Kind == ext.IncrementTask {
		b = append(key(b, "sum"), r.Sum...)
	}
	return x.answer(status, append(b, '}'))
}

// recordPath returns the record's path for Location.
func (x *exchange) recordPath() string {
	if x.route.resource == increment {
		return strings.TrimSuffix(x.target, "/increment")
	}
	return x.target
}

// replayed tells the client that this is the answer to its earlier request.
func (x *exchange) replayed(yes bool) {
	if yes {
		x.out.Header().Set("Idempotency-Replayed", "true")
	}
}
