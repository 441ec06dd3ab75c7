package ext

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Install is an extension install.
type Install struct {
	client *Client
	path   string
}

// Records returns the records of a namespace. The first write creates the namespace.
func (i Install) Records(namespace string) Records {
	return Records{client: i.client, install: i, namespace: namespace, path: i.path + "/namespaces/" + url.PathEscape(namespace)}
}

// Op is an operation of a batch. Methods of Records create it.
type Op struct {
	fields opFields
	err    error
}

// opFields is the operation's JSON, as in openapi.json. Fields that do not apply are omitted.
type opFields struct {
	Op         string  `json:"op"`
	Namespace  string  `json:"namespace"`
	Key        string  `json:"key"`
	IfRevision *int64  `json:"ifRevision,omitempty"`
	IfMatch    *string `json:"ifMatch,omitempty"`

	Value         json.RawMessage `json:"value,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	TTLSeconds    *int64          `json:"ttlSeconds,omitempty"`
	SchemaVersion *int32          `json:"schemaVersion,omitempty"`

	Pointer *string      `json:"pointer,omitempty"`
	By      json.Number  `json:"by,omitempty"`
	Min     *json.Number `json:"min,omitempty"`
	Max     *json.Number `json:"max,omitempty"`
	Create  *bool        `json:"create,omitempty"`
}

// MarshalJSON implements json.Marshaler. It fails for invalid JSON, or a precondition that batches do not support.
func (o Op) MarshalJSON() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return encode(o.fields)
}

// op begins an operation.
func (r Records) op(kind, key string, precondition []Precondition) Op {
	g := collect(precondition)
	o := Op{fields: opFields{Op: kind, Namespace: r.namespace, Key: key}}
	o.fields.IfRevision, o.fields.IfMatch, o.err = g.inBody()
	return o
}

// PutOp returns an operation that creates or replaces a record, like Put. An invalid value fails in Batch.
func (r Records) PutOp(key string, p Put, precondition ...Precondition) Op {
	o := r.op("put", key, precondition)
	request, err := p.request()
	if err != nil {
		o.err = err
	}
	o.fields.Value, o.fields.Metadata, o.fields.TTLSeconds, o.fields.SchemaVersion = request.Value, request.Metadata, request.TTLSeconds, request.SchemaVersion
	return o
}

// DeleteOp returns an operation that deletes a record, like Delete.
func (r Records) DeleteOp(key string, precondition ...Precondition) Op {
	return r.op("delete", key, precondition)
}

// CheckOp returns an operation that only checks a precondition, which is required.
func (r Records) CheckOp(key string, precondition ...Precondition) Op {
	return r.op("check", key, precondition)
}

// IncrementOp returns an operation that adds to a number, like Increment.
func (r Records) IncrementOp(key string, in Increment, precondition ...Precondition) Op {
	o, request := r.op("increment", key, precondition), in.request()
	o.fields.Pointer, o.fields.By, o.fields.Min, o.fields.Max, o.fields.Create = &request.Pointer, request.By, request.Min, request.Max, request.Create
	return o
}

// OpResult is the result of a batch operation. Fields that do not apply are zero.
type OpResult struct {
	Op        string `json:"op"`
	Namespace string `json:"namespace"`
	Key       string `json:"key"`

	Existed bool `json:"existed"` // whether the record existed before a delete

	Revision     int64       `json:"revision"` // after a check, 0 if there is no record
	Etag         string      `json:"etag"`
	Created      bool        `json:"created"` // whether this operation created the record
	TTLExpiresAt *time.Time  `json:"ttlExpiresAt"`
	CreatedAt    time.Time   `json:"createdAt"`
	UpdatedAt    time.Time   `json:"updatedAt"`
	Sum          json.Number `json:"sum"` // result of an increment
}

// Batch applies operations on any namespaces in order. If an operation fails, none is applied, and the *Error
// contains its Index.
func (i Install) Batch(ctx context.Context, ops ...Op) ([]OpResult, error) {
	var result BatchResult
	_, err := i.client.sendOnce(ctx, call{method: http.MethodPost, path: i.path + "/batch"}, BatchRequest{Ops: ops}, &result)
	return result.Results, err
}

// Usage returns counts, sizes in bytes and quotas. Namespaces that the token does not allow are left out.
func (i Install) Usage(ctx context.Context) (u Usage, err error) {
	err = i.get(ctx, "/usage", nil, &u)
	return u, err
}

// Namespaces returns the namespaces that contain records.
func (i Install) Namespaces(ctx context.Context) ([]NamespaceUsage, error) {
	var list NamespaceList
	err := i.get(ctx, "/namespaces", nil, &list)
	return list.Namespaces, err
}

// get reads a resource of the install.
func (i Install) get(ctx context.Context, path string, query url.Values, into any) error {
	_, err := i.client.send(ctx, call{method: http.MethodGet, path: i.path + path, query: query, idempotent: true}, into)
	return err
}

// ChangesQuery selects changes.
type ChangesQuery struct {
	Since int64         // NextSince of the previous response; 0 to read from the start
	Wait  time.Duration // whole seconds, at most a minute
	Limit int           // at most 1000; 0 for the server's default, 100
}

// changes returns the request for changes.
func (i Install) changes(q ChangesQuery) call {
	query := url.Values{"since": {strconv.FormatInt(q.Since, 10)}}
	if q.Wait > 0 {
		query.Set("wait", strconv.Itoa(int(q.Wait/time.Second)))
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	return call{method: http.MethodGet, path: i.path + "/changes", query: query, idempotent: true}
}

// Changes returns changes, oldest first. If the changes after Since were deleted, the error has the code
// CHANGES_EXPIRED; then read all records again.
func (i Install) Changes(ctx context.Context, q ChangesQuery) (list ChangeList, err error) {
	_, err = i.client.send(ctx, i.changes(q), &list)
	return list, err
}

// Latest returns the number of the last change. Call it before reading all records, then pass it to Watch.
func (i Install) Latest(ctx context.Context) (int64, error) {
	var list ChangeList
	err := i.get(ctx, "/changes", url.Values{"since": {"0"}, "limit": {"0"}}, &list)
	return list.NextSince, err
}
