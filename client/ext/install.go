package ext

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Install is an install of an extension.
type Install struct {
	client *Client
	path   string
}

// Records are the records of a namespace. It is made by its first record.
func (i Install) Records(namespace string) Records {
	return Records{client: i.client, namespace: namespace, path: i.path + "/namespaces/" + url.PathEscape(namespace)}
}

// Op is one operation of a batch: Records has functions that make them.
type Op struct {
	fields opFields
	err    error
}

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

// MarshalJSON implements json.Marshaler. It fails when the operation could not
// be made: its value is no JSON, or a precondition is not for batches.
func (o Op) MarshalJSON() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return encode(o.fields)
}

func (r Records) op(kind, key string, precondition []Precondition) Op {
	g := collect(precondition)
	o := Op{fields: opFields{Op: kind, Namespace: r.namespace, Key: key}}
	o.fields.IfRevision, o.fields.IfMatch, o.err = g.inBody()
	return o
}

// PutOp is Put in a batch.
func (r Records) PutOp(key string, p Put, precondition ...Precondition) Op {
	o := r.op("put", key, precondition)
	request, err := p.request()
	if err != nil {
		o.err = err
	}
	o.fields.Value, o.fields.Metadata, o.fields.TTLSeconds, o.fields.SchemaVersion = request.Value, request.Metadata, request.TTLSeconds, request.SchemaVersion
	return o
}

// DeleteOp is Delete in a batch.
func (r Records) DeleteOp(key string, precondition ...Precondition) Op {
	return r.op("delete", key, precondition)
}

// CheckOp holds a precondition, which it must have, and changes nothing.
func (r Records) CheckOp(key string, precondition ...Precondition) Op {
	return r.op("check", key, precondition)
}

// IncrementOp is Increment in a batch.
func (r Records) IncrementOp(key string, in Increment, precondition ...Precondition) Op {
	o, request := r.op("increment", key, precondition), in.request()
	o.fields.Pointer, o.fields.By, o.fields.Min, o.fields.Max, o.fields.Create = &request.Pointer, request.By, request.Min, request.Max, request.Create
	return o
}

// OpResult is what an operation of a batch came to. What its kind has no use for
// is empty.
type OpResult struct {
	Op        string `json:"op"` // put, delete, check or increment
	Namespace string `json:"namespace"`
	Key       string `json:"key"`

	Existed bool `json:"existed"` // of a delete: there was a record

	Revision     int64       `json:"revision"` // of a check 0: there is no record
	Etag         string      `json:"etag"`
	Created      bool        `json:"created"` // there was no record before
	TTLExpiresAt *time.Time  `json:"ttlExpiresAt"`
	CreatedAt    time.Time   `json:"createdAt"`
	UpdatedAt    time.Time   `json:"updatedAt"`
	Sum          json.Number `json:"sum"` // of an increment
}

// Batch does operations in their order, in any namespaces of the install: all or
// none, and once, as Increment does. The *Error of one has its Index.
func (i Install) Batch(ctx context.Context, ops ...Op) ([]OpResult, error) {
	var result BatchResult
	_, err := i.client.sendOnce(ctx, call{method: http.MethodPost, path: i.path + "/batch"}, BatchRequest{Ops: ops}, &result)
	return result.Results, err
}

// Usage reads what the install has and may have.
func (i Install) Usage(ctx context.Context) (u Usage, err error) {
	err = i.get(ctx, "/usage", nil, &u)
	return u, err
}

// Namespaces lists the namespaces that have records.
func (i Install) Namespaces(ctx context.Context) ([]NamespaceUsage, error) {
	var list NamespaceList
	err := i.get(ctx, "/namespaces", nil, &list)
	return list.Namespaces, err
}

func (i Install) get(ctx context.Context, path string, query url.Values, into any) error {
	_, err := i.client.send(ctx, call{method: http.MethodGet, path: i.path + path, query: query, again: true}, into)
	return err
}

// ChangesQuery is a question for changes.
type ChangesQuery struct {
	Since int64         // the NextSince of the answer before; 0: from the first
	Wait  time.Duration // for a change, if there is none; in whole seconds, at most a minute
	Limit int           // changes of the answer, at most 1000; 0: the server's 100
}

// Changes reads what has changed, oldest first. The error has the code
// CHANGES_EXPIRED when the changes are not kept any more: then everything has to
// be read anew.
func (i Install) Changes(ctx context.Context, q ChangesQuery) (list ChangeList, err error) {
	query := url.Values{"since": {strconv.FormatInt(q.Since, 10)}}
	if q.Wait > 0 {
		query.Set("wait", strconv.Itoa(int(q.Wait/time.Second)))
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	err = i.get(ctx, "/changes", query, &list)
	return list, err
}

// Latest is the number of the newest change: where to watch from, when
// everything is read after it was asked for.
func (i Install) Latest(ctx context.Context) (int64, error) {
	var list ChangeList
	err := i.get(ctx, "/changes", url.Values{"since": {"0"}, "limit": {"0"}}, &list)
	return list.NextSince, err
}

// watchWait is how long one question of Watch waits: less than proxies do.
const watchWait = 30 * time.Second

// Watch goes through the changes after a number, and waits for those to come,
// until ctx ends. It goes on through troubles of the server and of the network:
// whoever has seen a change may begin again with its Seq. Other errors end it,
// as CHANGES_EXPIRED does, and that of ctx.
func (i Install) Watch(ctx context.Context, since int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for failed := 0; ; {
			began := time.Now()
			list, err := i.Changes(ctx, ChangesQuery{Since: since, Wait: watchWait})
			if err != nil {
				if ctx.Err() == nil && isTrouble(err) && i.client.rest(ctx, failed, err) {
					failed++
					continue
				}
				yield(Change{}, errors.Join(err, ctx.Err()))
				return
			}
			if list.NextSince == since && time.Since(began) < watchWait/2 {
				// The server shuts down, or has no room for one more who waits.
				i.client.rest(ctx, failed, nil)
				failed++
				continue
			}
			failed = 0
			for _, change := range list.Changes {
				if !yield(change, nil) {
					return
				}
			}
			since = list.NextSince
		}
	}
}
