package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	ext "holdfast/internal/extstorage"
	workload "holdfast/internal/workload/ext"
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
	kind   int // as in ext_apply_v1
	ns     string
	key    string
	value  string
	schema int
	match  string // If-Match; may be ""
	counts bool
}

const (
	extPut   = 0
	extCheck = 2
)

// extWork is an operation of a client, and of the limit.
type extWork struct {
	name   string
	method string
	path   func(i int) string
	body   []byte
	finds  int // expected number of records with revisions
	goals  map[string]goal
	attack bool

	// The limit runs these operations, or reads a record or a list page. With turn, the operation uses the keys in turn. An
	// increment comes last.
	ops    []extOp
	turn   bool
	values bool // of a list page
}

func (w *extWork) writes() bool { return w.method != http.MethodGet }

// op returns the operations of a caller's i-th request.
func (w *extWork) op(i int) []extOp {
	if !w.turn {
		return w.ops
	}
	one := w.ops[0]
	one.key = id(i % extKeys)
	return []extOp{one}
}

// do sends the i-th request. It checks the first answer only, because counting costs CPU time.
func (w *extWork) do(ctx context.Context, c *caller, i int) error {
	answer, err := c.send(ctx, w.method, w.path(i), w.body)
	if found := bytes.Count(answer, []byte(`"revision":`)); err == nil && i == 0 && found != w.finds {
		err = fmt.Errorf("%d records, want %d, in %.200s", found, w.finds, answer)
	}
	return err
}

// extWorks returns the works, with the goals of the specification.
func extWorks() []extWork {
	record := func(ns string) func(int) string {
		return func(i int) string { return workload.RecordKey{Namespace: ns, Key: id(i % extKeys)}.Path() }
	}
	fixed := func(path string) func(int) string { return func(int) string { return path } }
	put := func(ns string, n int, schema int) (ops []extOp) {
		for i := range n {
			ops = append(ops, extOp{kind: extPut, ns: ns, key: id(i), value: extValue, schema: schema})
		}
		return ops
	}
	goals := func(ratio float64, cpu time.Duration) map[string]goal {
		return map[string]goal{"postgres": {ratio, cpu}}
	}
	body := []byte(`{"value":` + extValue + `}`)
	counter := extOp{kind: extPut, ns: extCounterNamespace, key: id(0), value: extCounter, counts: true}
	batch := append(append(put(extBatchNamespace, 5, 0), put(extOtherNamespace, 3, 0)...),
		extOp{kind: extCheck, ns: extBatchNamespace, key: id(0), match: "*"}, counter)
	page := "/namespaces/" + extListNamespace + "/records?limit=100"
	return []extWork{
		{
			name: workExtPut, method: http.MethodPut, path: record(extPutNamespace), body: body, finds: 1,
			goals: goals(0.50, 150*time.Microsecond), ops: put(extPutNamespace, 1, 0), turn: true,
		},
		{
			name: "ext put 500 B, 1 KB schema", method: http.MethodPut, path: record(extSchemaNamespace), body: body, finds: 1,
			goals: goals(0.40, 300*time.Microsecond), ops: put(extSchemaNamespace, 1, 1), turn: true,
		},
		{name: workExtGet, method: http.MethodGet, path: record(extListNamespace), finds: 1},
		{name: workExtList, method: http.MethodGet, path: fixed(page + "&values=true"), finds: extKeys, values: true, attack: true},
		{name: "ext list 100, keys", method: http.MethodGet, path: fixed(page), finds: extKeys},
		{
			name: "ext bulk put 20 × 500 B", method: http.MethodPost, path: fixed("/namespaces/" + extBulkNamespace + "/records"),
			body: extItems(0, extValue), finds: extBulk, ops: put(extBulkNamespace, extBulk, 0), attack: true,
		},
		{name: "ext batch, 10 operations", method: http.MethodPost, path: fixed("/batch"), body: extBatch(batch), finds: len(batch), ops: batch},
		{
			name: "ext increment", method: http.MethodPost, path: func(i int) string { return record(extCounterNamespace)(i) + "/increment" },
			body: []byte(`{"pointer":"/n","by":1}`), finds: 1, ops: []extOp{counter}, turn: true,
		},
	}
}

// extItems returns the body of a bulk put of records with the same value.
func extItems(from int, value string) []byte {
	items := each(ids(from, extBulk), func(key string) string { return fmt.Sprintf(`{"key":%q,"value":%s}`, key, value) })
	return []byte(`{"items":[` + strings.Join(items, ",") + `]}`)
}

// extBatch returns the body of a batch.
func extBatch(ops []extOp) []byte {
	all := each(ops, func(op extOp) string {
		at := fmt.Sprintf(`"namespace":%q,"key":%q`, op.ns, op.key)
		switch {
		case op.counts:
			return fmt.Sprintf(`{"op":"increment",%s,"pointer":"/n","by":1}`, at)
		case op.kind == extCheck:
			return fmt.Sprintf(`{"op":"check",%s,"ifMatch":%q}`, at, op.match)
		}
		return fmt.Sprintf(`{"op":"put",%s,"value":%s}`, at, op.value)
	})
	return []byte(`{"ops":[` + strings.Join(all, ",") + `]}`)
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

// operations returns a client's works. Works that write wait for the relay, so their CPU
// time includes publishing the audit events. The limit only stores events.
func (extLoad) operations() (all []operation) {
	for _, work := range extWorks() {
		op := operation{
			name: work.name, goals: work.goals, attack: work.attack, most: 16,
			do: work.do, limit: work.limit(), prepareLimit: extEmpty,
		}
		if work.writes() {
			op.settle = extPublished
		}
		all = append(all, op)
	}
	return all
}

// fill registers a schema for one namespace, and puts extKeys records into every namespace.
func (extLoad) fill(ctx context.Context, _ *server, installs []credentials) error {
	return fillEach(ctx, installs, func(ctx context.Context, c *caller) error {
		const schemas = "/namespaces/" + extSchemaNamespace + "/schemas"
		if _, err := c.send(ctx, http.MethodPost, schemas, []byte(`{"schema":`+extSchema+`}`)); err != nil {
			return err
		}
		if _, err := c.send(ctx, http.MethodPatch, schemas+"/1", []byte(`{"status":"active"}`)); err != nil {
			return err
		}
		for _, ns := range extNamespaces {
			value := extValue
			if ns == extCounterNamespace {
				value = extCounter
			}
			for from := 0; from < extKeys; from += extBulk {
				if _, err := c.send(ctx, http.MethodPost, "/namespaces/"+ns+"/records", extItems(from, value)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// extPublished waits until the relay has published all audit events, which would disturb the next measurement.
func extPublished(ctx context.Context, s *server) error {
	return s.engine.reading(ctx, s.file(extFile), func(text reader) error {
		return s.until(ctx, 10*time.Millisecond, func() error {
			waiting, err := text(`SELECT CAST(count(*) AS text) FROM (SELECT 1 FROM ext_storage_outbox LIMIT 1) AS o`)
			if err == nil && waiting != "0" {
				err = errors.New("events are not published")
			}
			return err
		})
	})
}
