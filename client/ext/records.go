package ext

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdfast/client/internal/utf8check"
)

// Precondition is a condition on a record. If it is not met, nothing is written, and the error contains the code
// REVISION_MISMATCH and the current revision.
type Precondition func(*preconditions)

type preconditions struct {
	revision         *int64
	match, noneMatch string
}

// IfRevision requires that the record has this revision; 0 means that the record does not exist.
func IfRevision(revision int64) Precondition {
	return func(g *preconditions) { g.revision = &revision }
}

// IfAbsent requires that the record does not exist.
func IfAbsent() Precondition { return IfRevision(0) }

// IfMatch requires that the record has this ETag, with quotes as in responses. Unlike revisions, ETags are never
// reused after a delete.
func IfMatch(etag string) Precondition { return func(g *preconditions) { g.match = etag } }

// IfPresent requires that the record exists.
func IfPresent() Precondition { return IfMatch("*") }

// IfNoneMatch requires that the record has another ETag. Only requests for a single record support it.
func IfNoneMatch(etag string) Precondition { return func(g *preconditions) { g.noneMatch = etag } }

// collect joins preconditions. The last of a kind wins.
func collect(list []Precondition) (g preconditions) {
	for _, precondition := range list {
		precondition(&g)
	}
	return g
}

// any reports whether a condition is set.
func (g *preconditions) any() bool { return *g != preconditions{} }

// header returns the conditions that requests for a single record send as headers.
func (g *preconditions) header() http.Header {
	h := http.Header{}
	if g.match != "" {
		h.Set("If-Match", g.match)
	}
	if g.noneMatch != "" {
		h.Set("If-None-Match", g.noneMatch)
	}
	return h
}

// query returns the condition that such requests send as a parameter.
func (g *preconditions) query() url.Values {
	if g.revision == nil {
		return nil
	}
	return url.Values{"ifRevision": {strconv.FormatInt(*g.revision, 10)}}
}

// inBody returns the conditions for an item in a body.
func (g *preconditions) inBody() (revision *int64, match *string, err error) {
	if g.noneMatch != "" {
		return nil, nil, errors.New("IfNoneMatch is not supported in a list or a batch")
	}
	if g.match != "" {
		match = &g.match
	}
	return g.revision, match, nil
}

// Records gives access to the records and schemas of a namespace.
type Records struct {
	client    *Client
	install   Install
	namespace string
	path      string
}

// at returns the record's path.
func (r Records) at(key string) string { return r.path + "/records/" + url.PathEscape(key) }

// Put is a record to write.
type Put struct {
	Value    any           // encoded by encoding/json unless it is a json.RawMessage
	Metadata any           // an object, encoded like Value; nil for {}
	TTL      time.Duration // whole seconds; 0 if the record never expires

	// SchemaVersion, unless 0, must be the active version.
	SchemaVersion int32
}

// request encodes the record. Fractions of a second in TTL are cut off.
func (p *Put) request() (r PutRequest, err error) {
	if r.Value, err = encode(p.Value); err != nil {
		return r, err
	}
	if p.Metadata != nil {
		if r.Metadata, err = encode(p.Metadata); err != nil {
			return r, err
		}
	}
	if p.TTL != 0 {
		seconds := int64(p.TTL / time.Second)
		r.TTLSeconds = &seconds
	}
	if p.SchemaVersion != 0 {
		r.SchemaVersion = &p.SchemaVersion
	}
	return r, nil
}

// Put creates or replaces a record with its metadata and TTL.
func (r Records) Put(ctx context.Context, key string, p Put, precondition ...Precondition) (meta RecordMeta, err error) {
	request, err := p.request()
	if err != nil {
		return meta, err
	}
	g := collect(precondition)
	request.IfRevision = g.revision
	// Without a precondition, repeating a put is safe.
	_, err = r.client.sendJSON(ctx, call{method: http.MethodPut, path: r.at(key), header: g.header(), idempotent: !g.any()}, request, &meta)
	return meta, err
}

// Get reads a record with its value. It returns an *Error with CodeNotFound for a missing or expired record, and
// ErrNotModified if it still has the ETag in IfNoneMatch.
func (r Records) Get(ctx context.Context, key string, precondition ...Precondition) (rec Record, err error) {
	g := collect(precondition)
	header := g.header()
	if g.revision != nil {
		header.Set("If-Revision-Match", strconv.FormatInt(*g.revision, 10))
	}
	_, err = r.client.send(ctx, call{method: http.MethodGet, path: r.at(key), header: header, idempotent: true}, &rec)
	return rec, err
}

// Delete deletes a record. Without a precondition, a missing record is no error.
func (r Records) Delete(ctx context.Context, key string, precondition ...Precondition) error {
	g := collect(precondition)
	_, err := r.client.send(ctx, call{method: http.MethodDelete, path: r.at(key), query: g.query(), header: g.header(), idempotent: !g.any()}, nil)
	return err
}

// Merge applies a merge patch (RFC 7396) to the value: members of the patch replace members of the value, and null
// removes a member. Metadata and TTL do not change.
func (r Records) Merge(ctx context.Context, key string, patch any, precondition ...Precondition) (meta RecordMeta, err error) {
	body, err := encode(patch)
	if err != nil {
		return meta, err
	}
	g := collect(precondition)
	_, err = r.client.send(ctx, call{
		method: http.MethodPatch, path: r.at(key), query: g.query(), header: g.header(), media: "application/merge-patch+json", body: body,
	}, &meta)
	return meta, err
}

// Increment describes an addition to a number in a value.
type Increment struct {
	Pointer  string      // JSON pointer; "" for the whole value
	By       json.Number // exact decimal
	Min, Max json.Number // bounds for the sum; "" for no bound
	Create   bool        // create a missing record and enclosing objects, starting at 0
}

// request encodes the addition.
func (in *Increment) request() IncrementRequest {
	r := IncrementRequest{Pointer: in.Pointer, By: in.By}
	if in.Min != "" {
		r.Min = &in.Min
	}
	if in.Max != "" {
		r.Max = &in.Max
	}
	if in.Create {
		r.Create = &in.Create
	}
	return r
}

// Increment adds to a number in a record. The request carries an idempotency key, so it is retried.
func (r Records) Increment(ctx context.Context, key string, in Increment, precondition ...Precondition) (result IncrementResult, err error) {
	if in.By == "" {
		return result, errors.New("Increment.By is empty: expected the number to add")
	}
	g := collect(precondition)
	request := in.request()
	request.IfRevision = g.revision
	_, err = r.client.sendOnce(ctx, call{method: http.MethodPost, path: r.at(key) + "/increment", header: g.header()}, request, &result)
	return result, err
}

// Item returns an item for BulkPut.
func (r Records) Item(key string, p Put, precondition ...Precondition) (item PutItem, err error) {
	request, err := p.request()
	if err != nil {
		return item, err
	}
	g := collect(precondition)
	item = PutItem{Key: key, Value: request.Value, Metadata: request.Metadata, TTLSeconds: request.TTLSeconds, SchemaVersion: request.SchemaVersion}
	item.IfRevision, item.IfMatch, err = g.inBody()
	return item, err
}

// BulkPut writes all records and returns them in order. If an item fails, none is written, and the *Error contains
// its Index.
func (r Records) BulkPut(ctx context.Context, items ...PutItem) ([]BulkPutItem, error) {
	idempotent := true
	for i := range items {
		idempotent = idempotent && items[i].IfRevision == nil && items[i].IfMatch == nil
	}
	var result BulkPutResult
	_, err := r.client.sendJSON(ctx, call{method: http.MethodPost, path: r.path + "/records", idempotent: idempotent}, BulkPutRequest{Items: items}, &result)
	return result.Items, err
}

// List selects records and which parts of them are returned.
type List struct {
	Prefix   string // key prefix
	Reverse  bool   // in descending order
	Values   bool
	Metadata bool
	Page     int // records per request, at most 100; 0 for the server's default, 25
}

// query returns the parameters.
func (l *List) query(cursor string) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"prefix": l.Prefix, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, wanted := range map[string]bool{"reverse": l.Reverse, "values": l.Values, "metadata": l.Metadata} {
		if wanted {
			q.Set(name, "true")
		}
	}
	if l.Page > 0 {
		q.Set("limit", strconv.Itoa(l.Page))
	}
	return q
}

// ListPage returns a page of records. cursor is the NextCursor of the previous page, or "".
func (r Records) ListPage(ctx context.Context, l List, cursor string) (page RecordList, err error) {
	_, err = r.client.send(ctx, call{method: http.MethodGet, path: r.path + "/records", query: l.query(cursor), idempotent: true}, &page)
	return page, err
}

// List yields all records in key order. It stops after an error.
func (r Records) List(ctx context.Context, l List) iter.Seq2[ListItem, error] {
	return func(yield func(ListItem, error) bool) {
		for cursor := ""; ; {
			page, err := r.ListPage(ctx, l, cursor)
			if err != nil {
				yield(ListItem{}, fmt.Errorf("list: %w", err))
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextCursor == nil {
				return
			}
			cursor = *page.NextCursor
		}
	}
}

const typeJSON = "application/json"

// encode encodes v without escaping <. With \u003c, a value of maximum size would exceed the server's limit. It refuses
// text that is not valid UTF-8, which encoding/json would change.
func encode(v any) (json.RawMessage, error) {
	if err := utf8check.Check(v); err != nil {
		return nil, fmt.Errorf("holdfast: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// sendJSON sends request as JSON.
func (c *Client) sendJSON(ctx context.Context, r call, request, into any) (http.Header, error) {
	body, err := encode(request)
	if err != nil {
		return nil, err
	}
	r.media, r.body = typeJSON, body
	return c.send(ctx, r, into)
}

// sendOnce sends an idempotency key, so that the request is safe to retry.
func (c *Client) sendOnce(ctx context.Context, r call, request, into any) (http.Header, error) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set("Idempotency-Key", rand.Text())
	r.idempotent = true
	return c.sendJSON(ctx, r, request, into)
}
