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

func (x *exchange) place(kind ext.TaskKind, revision ext.Optional[int64]) (ext.Task, error) {
	g, err := x.precondition(revision)
	return ext.Task{Kind: kind, Namespace: x.route.namespace, Key: x.route.key, Precondition: g}, err
}

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

func (x *exchange) readPut(f *fields, t *ext.Task) {
	limits := x.service.Limits()
	t.Kind = ext.PutTask
	t.Value = f.value("value", limits.Value)
	t.Metadata = f.value("metadata", limits.Metadata)
	t.TTL = f.integer("ttlSeconds", int64(limits.MinTTL/time.Second), int64(limits.MaxTTL/time.Second))
	version := f.integer("schemaVersion", 1, maxVersion)
	t.Schema = ext.Optional[ext.SchemaVersion]{Value: ext.SchemaVersion(version.Value), Set: version.Set}
}

const maxVersion = 1<<31 - 1

func (x *exchange) putRecord() error { return x.put(parseFields(x.body, putNames...)) }

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

func (x *exchange) deleteRecord() error { return x.delete(x.query) }

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

func (x *exchange) patch(a arguments, patch canonjson.Value, at string) error {
	t, err := x.place(ext.PatchTask, a.integer("ifRevision", 0, math.MaxInt64))
	if err = cmp.Or(a.fault(), err); err != nil {
		return err
	}
	t.Value = patch
	return under(at, x.do(&t))
}

var incrementNames = []string{"pointer", "by", "min", "max", "create", "ifRevision"}

func readIncrement(f *fields, t *ext.Task) {
	t.Kind = ext.IncrementTask
	if !f.has("pointer") {
		f.fail("pointer", "is required: a JSON pointer to a number")
	}
	pointer, err := canonjson.ParsePointer(f.text("pointer"))
	if err != nil {
		f.note(under("/pointer", err))
	}
	t.Increment = canonjson.Increment{Pointer: pointer, By: f.number("by"), Min: f.number("min"), Max: f.number("max"), Create: f.flag("create")}
}

func (x *exchange) postIncrement() error {
	return x.increment(parseFields(x.body, incrementNames...))
}

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

func (x *exchange) recordPath() string {
	if x.route.resource == increment {
		return strings.TrimSuffix(x.target, "/increment")
	}
	return x.target
}

func (x *exchange) replayed(yes bool) {
	if yes {
		x.out.Header().Set("Idempotency-Replayed", "true")
	}
}
