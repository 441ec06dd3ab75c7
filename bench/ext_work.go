package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	load "holdfast/internal/workload/ext"
)

const (
	workExtPut       = "ext put 500 B"
	workExtPutSchema = "ext put 500 B, 1 KB schema"
	workExtGet       = "ext get 500 B"
	workExtList      = "ext list 100, values"
	workExtKeys      = "ext list 100, keys"
	workExtBulk      = "ext bulk put 20 × 500 B"
	workExtBatch     = "ext batch, 10 operations"
	workExtIncrement = "ext increment"
)

// The namespaces for puts, counters and lists contain extKeys records each.
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

type extWork struct {
	name   string
	method string
	path   func(i int) string
	body   []byte
	finds  int // expected number of records with revisions
	goals  map[string]goal

	// The limit runs these operations. With turn, each operation uses the keys in turn; otherwise it uses a list page or
	// a record. An increment comes last, after its record is read.
	ops    []extOp
	turn   bool
	reads  *extOp
	page   bool
	values bool
}

func (w *extWork) writes() bool { return w.method != http.MethodGet }

func (w *extWork) op(i int) []extOp {
	if !w.turn {
		return w.ops
	}
	one := w.ops[0]
	one.key = id(i % extKeys)
	return []extOp{one}
}

func extGoals(ratio float64, cpu time.Duration) map[string]goal {
	return map[string]goal{"postgres": {ratio, cpu}}
}

func extWorks() []extWork {
	record := func(ns string) func(int) string {
		return func(i int) string { return load.Place{Namespace: ns, Key: id(i % extKeys)}.Path() }
	}
	fixed := func(path string) func(int) string { return func(int) string { return path } }
	put := func(ns string, n int, schema int) (ops []extOp) {
		for i := range n {
			ops = append(ops, extOp{kind: extPut, ns: ns, key: id(i), value: extValue, schema: schema})
		}
		return ops
	}
	body := []byte(`{"value":` + extValue + `}`)
	counter := extOp{kind: extPut, ns: extCounterNamespace, key: id(0), value: extCounter, counts: true}
	inBatch := extOp{kind: extPut, ns: extBatchNamespace, key: "counter", value: extCounter, counts: true}
	batch := append(append(put(extBatchNamespace, 5, 0), put(extOtherNamespace, 3, 0)...),
		extOp{kind: extCheck, ns: extBatchNamespace, key: id(0), match: "*"}, inBatch)
	page := "/namespaces/" + extListNamespace + "/records?limit=100"
	return []extWork{
		{
			name: workExtPut, method: http.MethodPut, path: record(extPutNamespace), body: body, finds: 1,
			goals: extGoals(0.50, 150*time.Microsecond), ops: put(extPutNamespace, 1, 0), turn: true,
		},
		{
			name: workExtPutSchema, method: http.MethodPut, path: record(extSchemaNamespace), body: body, finds: 1,
			goals: extGoals(0.40, 300*time.Microsecond), ops: put(extSchemaNamespace, 1, 1), turn: true,
		},
		{name: workExtGet, method: http.MethodGet, path: record(extListNamespace), finds: 1},
		{name: workExtList, method: http.MethodGet, path: fixed(page + "&values=true"), finds: extKeys, page: true, values: true},
		{name: workExtKeys, method: http.MethodGet, path: fixed(page), finds: extKeys, page: true},
		{
			name: workExtBulk, method: http.MethodPost, path: fixed("/namespaces/" + extBulkNamespace + "/records"),
			body: extItems(0, extBulk), finds: extBulk, ops: put(extBulkNamespace, extBulk, 0),
		},
		{name: workExtBatch, method: http.MethodPost, path: fixed("/batch"), body: extBatch(batch), finds: len(batch), ops: batch, reads: &inBatch},
		{
			name: workExtIncrement, method: http.MethodPost, path: func(i int) string { return record(extCounterNamespace)(i) + "/increment" },
			body: []byte(`{"pointer":"/n","by":1}`), finds: 1, ops: []extOp{counter}, turn: true, reads: &counter,
		},
	}
}

func extItems(from, n int) []byte {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"key":%q,"value":%s}`, id(from+i), extValue)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func extBatch(ops []extOp) []byte {
	var b strings.Builder
	b.WriteString(`{"ops":[`)
	for i, op := range ops {
		if i > 0 {
			b.WriteByte(',')
		}
		at := fmt.Sprintf(`"namespace":%q,"key":%q`, op.ns, op.key)
		switch {
		case op.counts:
			fmt.Fprintf(&b, `{"op":"increment",%s,"pointer":"/n","by":1}`, at)
		case op.kind == extCheck:
			fmt.Fprintf(&b, `{"op":"check",%s,"ifMatch":%q}`, at, op.match)
		default:
			fmt.Fprintf(&b, `{"op":"put",%s,"value":%s}`, at, op.value)
		}
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}
