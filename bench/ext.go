package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	ext "holdfast/internal/extstorage"
	workload "holdfast/internal/workload/ext"
	"holdfast/internal/workload/sync"
)

// Works that PocketBase has, too.
const (
	workExtPut  = "ext put 500 B"
	workExtGet  = "ext get 500 B"
	workExtList = "ext list 100, values"
)

// Each namespace contains extKeys records.
const (
	extPutNamespace     = "settings"
	extSchemaNamespace  = "checked"
	extListNamespace    = "pages" // never written
	extBulkNamespace    = "bulk"
	extBatchNamespace   = "batch"
	extOtherNamespace   = "batch-log"
	extCounterNamespace = "counters"

	extKeys = 100
	extBulk = 20
)

var extNamespaces = []string{
	extPutNamespace, extSchemaNamespace, extListNamespace, extBulkNamespace, extBatchNamespace, extOtherNamespace, extCounterNamespace,
}

// extValue is a canonical JSON object with 500 bytes. extSchema is a 1 KB schema that accepts it.
var (
	extValue = extValueHead + strings.Repeat("n", 500-len(extValueHead)-len(extValueTail)) + extValueTail

	extSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
		`"required":["id","theme","locale","columns","refresh"],"additionalProperties":false,"properties":{` +
		`"id":{"type":"integer","minimum":1},` +
		`"tags":{"type":"array","maxItems":16,"uniqueItems":true,"items":{"enum":["alpha","beta","internal","public"]}},` +
		`"notes":{"type":"string","maxLength":2000},` +
		`"theme":{"enum":["dark","light","system"]},` +
		`"locale":{"type":"string","pattern":"^[a-z]{2}(-[A-Z]{2})?$"},` +
		`"columns":{"type":"array","minItems":1,"maxItems":32,"items":{"$ref":"#/$defs/column"}},` +
		`"refresh":{"type":"integer","minimum":5,"maximum":3600}},` +
		`"$defs":{"column":{"type":"object","required":["name","width"],"additionalProperties":false,"properties":{` +
		`"name":{"type":"string","minLength":1,"maxLength":64},"width":{"type":"number","exclusiveMinimum":0},"hidden":{"type":"boolean"}}}},` +
		`"description":"What a user has chosen for the board: which columns there are, how wide they are, and how often the board looks by itself for what others have changed.."}`
)

const (
	extValueHead = `{"id":7,"tags":["beta","internal"],"notes":"`
	extValueTail = `","theme":"dark","locale":"en-GB","columns":[{"name":"title","width":320},` +
		`{"name":"owner","width":120.5},{"name":"changed","width":96,"hidden":true}],"refresh":30}`
	extCounter = `{"n":1}`
)

// extOp is an operation in a batch.
type extOp struct {
	Op        string          `json:"op"` // put, check or increment
	Namespace string          `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value,omitempty"`
	IfMatch   string          `json:"ifMatch,omitempty"`
	Pointer   string          `json:"pointer,omitempty"` // to the number that an increment changes
	By        int             `json:"by,omitempty"`

	schema int // version of the namespace's schema; 0: none
}

const (
	extPut       = "put"
	extCheck     = "check"
	extIncrement = "increment"
)

// extPuts returns operations that put the first n records of a namespace.
func extPuts(ns string, n, schema int) []extOp {
	return each(ids(0, n), func(key string) extOp {
		return extOp{Op: extPut, Namespace: ns, Key: key, Value: json.RawMessage(extValue), schema: schema}
	})
}

// extItems returns the body of a bulk put of records with the same value.
func extItems(from int, value string) []byte {
	type item struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	items := each(ids(from, extBulk), func(key string) item { return item{key, json.RawMessage(value)} })
	return []byte(sync.JSON(map[string][]item{"items": items}))
}

// extRequest is a client's repeated request. The keys of records in the path are used in turn.
type extRequest struct {
	method string
	path   func(i int) string
	body   []byte
	finds  int // expected number of records with revisions
}

// send sends the i-th request. It checks the first answer only, because counting costs CPU time.
func (r *extRequest) send(ctx context.Context, c *caller, i int) error {
	answer, err := c.send(ctx, r.method, r.path(i), r.body)
	if found := bytes.Count(answer, []byte(`"revision":`)); err == nil && i == 0 && found != r.finds {
		err = fmt.Errorf("%d records, want %d, in %.200s", found, r.finds, answer)
	}
	return err
}

// extRecord returns the paths of a namespace's records, for keys in turn.
func extRecord(ns, suffix string) func(int) string {
	return func(i int) string { return workload.RecordKey{Namespace: ns, Key: id(i % extKeys)}.Path() + suffix }
}

func extPath(path string) func(int) string { return func(int) string { return path } }

// extWrite returns an operation whose i-th request runs ops(i). It waits for the relay, so its CPU time includes
// publishing the audit events. The limit only stores events. An increment is the last of ops.
func extWrite(name string, r extRequest, ops func(i int) []extOp) operation {
	return operation{
		name: name, most: 16, do: r.send, settle: extPublished, prepareLimit: extEmpty,
		limit: transactions(func(b *bare, c, i int) tx { return b.extApply(c, ops(i)) }),
	}
}

// inTurn returns op with the keys in turn.
func inTurn(op extOp) func(i int) []extOp {
	return func(i int) []extOp {
		op := op
		op.Key = id(i % extKeys)
		return []extOp{op}
	}
}

// extLoad's owners are installs, each with its own tenant.
type extLoad struct{}

const (
	extFile    = "extstorage.db"
	extTenant  = "00000000-0000-4000-8000-"
	extInstall = "00000000-0000-4000-9000-"
)

// extOwner returns the n-th install and its tenant. Both have that number.
func extOwner(n int) (tenant, install string) {
	number := fmt.Sprintf("%012d", n)
	return extTenant + number, extInstall + number
}

// owner signs the install's token itself. The token allows reading and writing all namespaces for a day.
func (extLoad) owner(s *server, n int) (credentials, error) {
	tenant, install := extOwner(n)
	access := map[string]string{}
	for _, ns := range extNamespaces {
		access[ns] = "rw"
	}
	token, err := workload.Token{Tenant: tenant, Install: install, Access: access, Begin: time.Now(), Life: 24 * time.Hour}.
		Sign(bearer.Key{ID: ext.OwnTokenKey(ownSecret), Alg: bearer.HS256, Text: ownSecret})
	return credentials{
		Endpoint: "http://" + s.listen + workload.InstallPath(install),
		sign:     func(req *http.Request) error { req.Header.Set("Authorization", "Bearer "+token); return nil },
	}, err
}

// operations returns a client's requests, with the goals of the specification.
func (extLoad) operations() []operation {
	value := []byte(`{"value":` + extValue + `}`)
	put := extWrite(workExtPut, extRequest{http.MethodPut, extRecord(extPutNamespace, ""), value, 1}, inTurn(extPuts(extPutNamespace, 1, 0)[0]))
	put.goals = map[string]goal{"postgres": {0.50, 150 * time.Microsecond}}

	checked := extWrite("ext put 500 B, 1 KB schema", extRequest{http.MethodPut, extRecord(extSchemaNamespace, ""), value, 1}, inTurn(extPuts(extSchemaNamespace, 1, 1)[0]))
	checked.goals = map[string]goal{"postgres": {0.40, 300 * time.Microsecond}}

	bulkOps := extPuts(extBulkNamespace, extBulk, 0)
	bulkPath := extPath("/namespaces/" + extBulkNamespace + "/records")
	bulk := extWrite("ext bulk put 20 × 500 B", extRequest{http.MethodPost, bulkPath, extItems(0, extValue), extBulk}, func(int) []extOp { return bulkOps })
	bulk.attack = true

	increment := extOp{Op: extIncrement, Namespace: extCounterNamespace, Key: id(0), Pointer: "/n", By: 1}
	batchOps := append(append(extPuts(extBatchNamespace, 5, 0), extPuts(extOtherNamespace, 3, 0)...),
		extOp{Op: extCheck, Namespace: extBatchNamespace, Key: id(0), IfMatch: "*"}, increment)
	batchBody := []byte(sync.JSON(map[string][]extOp{"ops": batchOps}))

	// Reads are from any install, like those of the server's connections.
	get := extRequest{method: http.MethodGet, path: extRecord(extListNamespace, ""), finds: 1}
	list := func(name, query string, values bool) operation {
		r := extRequest{method: http.MethodGet, path: extPath("/namespaces/" + extListNamespace + "/records?limit=100" + query), finds: extKeys}
		return operation{name: name, most: 16, do: r.send, limit: transactions(func(b *bare, _, _ int) tx { return read(b.extList(values)) })}
	}
	listValues := list(workExtList, "&values=true", true)
	listValues.attack = true
	return []operation{
		put,
		checked,
		{
			name: workExtGet, most: 16, do: get.send,
			limit: transactions(func(b *bare, _, i int) tx { return read(b.extGet(b.anyOwner(), extListNamespace, id(i%extKeys))) }),
		},
		listValues,
		list("ext list 100, keys", "", false),
		bulk,
		extWrite("ext batch, 10 operations", extRequest{http.MethodPost, extPath("/batch"), batchBody, len(batchOps)}, func(int) []extOp { return batchOps }),
		extWrite("ext increment", extRequest{http.MethodPost, extRecord(extCounterNamespace, "/increment"), []byte(`{"pointer":"/n","by":1}`), 1}, inTurn(increment)),
	}
}

// fill registers a schema for one namespace, and puts extKeys records into every namespace.
func (extLoad) fill(ctx context.Context, _ *server, installs []credentials) error {
	return fillEach(ctx, installs, func(ctx context.Context, c *caller) error {
		const schemas = "/namespaces/" + extSchemaNamespace + "/schemas"
		if err := c.call(ctx, http.MethodPost, schemas, []byte(`{"schema":`+extSchema+`}`)); err != nil {
			return err
		}
		if err := c.call(ctx, http.MethodPatch, schemas+"/1", []byte(`{"status":"active"}`)); err != nil {
			return err
		}
		for _, ns := range extNamespaces {
			value := extValue
			if ns == extCounterNamespace {
				value = extCounter
			}
			for from := 0; from < extKeys; from += extBulk {
				if err := c.call(ctx, http.MethodPost, "/namespaces/"+ns+"/records", extItems(from, value)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// extPublished waits until the relay has published all audit events, which would disturb the next measurement.
func extPublished(ctx context.Context, s *server) error {
	return connect(ctx, s.engine.address(s.file(extFile)), func(run query) error {
		return s.until(ctx, 10*time.Millisecond, func() error {
			waiting, err := run(`SELECT 'waiting' FROM ext_storage_outbox LIMIT 1`)
			if err == nil && waiting != "" {
				err = errors.New("events are not published")
			}
			return err
		})
	})
}
