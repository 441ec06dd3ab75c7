package httpapi

import (
	"errors"
	"math"
	"net/http"
	"slices"

	ext "holdfast/internal/extstorage"
)

var itemNames = append([]string{"key", "ifMatch"}, putNames...)

// postBulk answers a public bulk put.
func (x *exchange) postBulk() error { return x.bulk(parseFields(x.body, "items")) }

// bulk puts many records in a namespace. f is the object with the list, from a body or an envelope.
func (x *exchange) bulk(f *fields) error {
	tasks, err := x.items(f, "items", func(raw []byte) (ext.Task, error) {
		item := parseFields(raw, itemNames...)
		item.need("key")
		t := ext.Task{Namespace: x.route.namespace, Key: ext.Key(item.text("key"))}
		readPrecondition(item, &t.Precondition)
		x.readPut(item, &t)
		return t, item.err
	})
	if err != nil {
		return err
	}
	results, err := x.service.BulkPut(x.ctx(), x.ask, tasks)
	if err != nil {
		return inList("/items", withoutItem(err))
	}
	b := append(make([]byte, 0, 128+256*len(results)), '{')
	b = appendString(key(b, "namespace"), x.route.namespace)
	b = appendList(key(b, "items"), results, func(b []byte, r *ext.Result) []byte {
		b = appendString(key(append(b, '{'), "key"), r.Key)
		return append(appendPut(b, r), '}')
	})
	return x.answer(http.StatusOK, append(b, '}'))
}

// withoutItem drops the item's index from an error that concerns the whole request.
func withoutItem(err error) error {
	_, denied := errors.AsType[*ext.NamespaceDeniedError](err)
	if item, ok := errors.AsType[*ext.ItemError](err); ok && (denied || errors.Is(err, ext.ErrAccess)) {
		return item.Err
	}
	return err
}

// items reads a required list with read. Errors point into the list.
func (x *exchange) items(f *fields, name string, read func([]byte) (ext.Task, error)) ([]ext.Task, error) {
	maxItems := x.service.Limits().Items
	list := f.list(name, maxItems)
	switch {
	case f.err != nil:
		return nil, f.err
	case len(list) == 0:
		return nil, invalid("/"+name, "must not be empty")
	}
	tasks := make([]ext.Task, len(list))
	for i, raw := range list {
		var err error
		if tasks[i], err = read(raw); err != nil {
			return nil, inList("/"+name, &ext.ItemError{Index: i, Err: err})
		}
	}
	return tasks, nil
}

// readPrecondition reads an item's ifRevision and ifMatch.
func readPrecondition(f *fields, g *ext.Precondition) {
	revision := f.integer("ifRevision", 0, math.MaxInt64)
	g.Revision = ext.Optional[ext.Revision]{Value: ext.Revision(revision.Value), Set: revision.Set}
	if !f.has("ifMatch") {
		return
	}
	var err error
	if g.Match, err = ext.ParseIfMatch(f.text("ifMatch")); err != nil {
		f.note(under("/ifMatch", err))
	}
}

// appendPut appends the members that the answers to puts and increments share, without braces.
func appendPut(b []byte, r *ext.Result) []byte {
	b = appendInt(key(b, "revision"), r.Revision)
	b = appendString(key(b, "etag"), r.Seq.ETag())
	b = appendFlag(key(b, "created"), r.Created)
	return appendTimes(b, r.ExpiresAt, r.CreatedAt, r.UpdatedAt)
}

var opNames = map[string][]string{
	"put":       append([]string{"op", "namespace"}, itemNames...),
	"delete":    {"op", "namespace", "key", "ifRevision", "ifMatch"},
	"check":     {"op", "namespace", "key", "ifRevision", "ifMatch"},
	"increment": append([]string{"op", "namespace", "key", "ifMatch"}, incrementNames...),
}

var anyOp = slices.Concat(opNames["put"], opNames["increment"])

// postBatch answers a public batch.
func (x *exchange) postBatch() error { return x.batch(parseFields(x.body, "ops")) }

// batch runs operations of several kinds in a transaction.
func (x *exchange) batch(f *fields) error {
	var words []string
	tasks, err := x.items(f, "ops", func(raw []byte) (ext.Task, error) {
		word, t, err := x.readOp(raw)
		words = append(words, word)
		return t, err
	})
	if err != nil {
		return err
	}
	if x.ask.IdempotencyKey, err = x.idempotencyKey(); err != nil {
		return err
	}
	results, err := x.service.Batch(x.ctx(), x.ask, tasks)
	if err != nil {
		return inList("/ops", err)
	}
	x.replayed(results[0].Replayed)
	b := append(make([]byte, 0, 64+320*len(results)), `{"results":[`...)
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOp(b, words[i], &results[i])
	}
	return x.answer(http.StatusOK, append(b, "]}"...))
}

// readOp reads an operation; word is its kind as the client wrote it.
func (x *exchange) readOp(raw []byte) (word string, t ext.Task, err error) {
	f := parseFields(raw, anyOp...)
	word = f.text("op")
	switch f.only(opNames[word]); {
	case !f.has("op"):
		f.lack("op", "put, delete, check or increment")
	case opNames[word] == nil:
		f.fail("op", "must be put, delete, check or increment")
	}
	f.need("namespace", "key")
	t.Namespace, t.Key = ext.Namespace(f.text("namespace")), ext.Key(f.text("key"))
	readPrecondition(f, &t.Precondition)
	switch word {
	case "put":
		x.readPut(f, &t)
	case "delete":
		t.Kind = ext.DeleteTask
	case "check":
		if t.Kind = ext.CheckTask; f.err == nil && !t.Precondition.IsSet() {
			f.lack("ifRevision", "a check requires it, or ifMatch")
		}
	case "increment":
		readIncrement(f, &t)
	}
	return word, t, f.err
}

// appendOp appends an element of the answer to a batch. Its members depend on the operation, which word names.
func appendOp(b []byte, word string, r *ext.Result) []byte {
	b = appendString(append(b, `{"op":`...), word)
	b = appendPlace(b, r.Namespace, r.Key)
	switch word {
	case "delete":
		return append(appendFlag(key(b, "existed"), r.Existed), '}')
	case "check":
		b = appendInt(key(b, "revision"), r.Revision)
		if b = key(b, "etag"); r.Revision == 0 {
			return append(b, "null}"...)
		}
		return append(appendString(b, r.Seq.ETag()), '}')
	}
	if b = appendPut(b, r); word == "increment" {
		b = append(key(b, "sum"), r.Sum...)
	}
	return append(b, '}')
}
