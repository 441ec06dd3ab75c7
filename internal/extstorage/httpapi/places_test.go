package httpapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
)

// keywordCase is as in internal/jsonschema/schema_test.go.
type keywordCase struct {
	Schema, Good, Bad json.RawMessage
	At                string
	Missing           *string
}

func keywordCases(t *testing.T) (all []keywordCase) {
	t.Helper()
	text, err := os.ReadFile("../../jsonschema/testdata/keywords.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// schemaOfMember returns a schema for objects whose member v the case's schema describes. The $id keeps the references of
// the case within it.
func (k *keywordCase) schemaOfMember() string {
	text := string(k.Schema)
	var members map[string]json.RawMessage
	if json.Unmarshal(k.Schema, &members) == nil && members["$id"] == nil {
		text = `{"$id":"case",` + text[1:]
	}
	return `{"properties":{"v":` + text + `}}`
}

// placed is a request that the schema of a case refuses, and where.
type placed struct {
	name    string
	send    func(body string) *answer
	body    string
	pointer string
}

// TestPlacesOfEveryKeyword writes the invalid value of every keyword's case in every way. Each failure must be located in
// the value, and its pointer must be in the request.
func TestPlacesOfEveryKeyword(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	walked := map[string]int{}
	for _, k := range keywordCases(t) {
		if k.Bad == nil {
			continue
		}
		c := s.install(t)
		c.placeCase(&k, walked)
		if t.Failed() {
			t.Fatalf("%s on %s", k.Schema, k.Bad)
		}
	}
	for _, name := range []string{"put", "runner put", "bulk", "runner bulk", "batch", "import", "patch", "runner patch", "patch elsewhere", "increment elsewhere", "batch increment", "increment"} {
		if walked[name] == 0 {
			t.Errorf("nothing was refused by: %s", name)
		}
	}
	t.Log(walked)
}

// placeCase stores records under the case's schema and sends the requests.
func (c *client) placeCase(k *keywordCase, walked map[string]int) {
	c.t.Helper()
	good, bad := `{"v":`+string(k.Good)+`,"n":1}`, `{"v":`+string(k.Bad)+`,"n":1}`
	c.put("old", `{"value":`+bad+`}`).is(http.StatusCreated)
	c.put("bare", `{"value":{"n":1}}`).is(http.StatusCreated)
	c.put("zero", `{"value":{"v":0,"n":1}}`).is(http.StatusCreated)
	c.post("/namespaces/a/schemas", `{"schema":`+k.schemaOfMember()+`}`).is(http.StatusCreated)
	c.patch("/namespaces/a/schemas/1", `{"status":"active"}`, "Content-Type: application/json").is(http.StatusOK)
	r := c.runner()
	post := func(target string, headers ...string) func(string) *answer {
		return func(body string) *answer { return c.post(target, body, headers...) }
	}
	put := func(key string) func(string) *answer { return func(body string) *answer { return c.put(key, body) } }
	patch := func(key string) func(string) *answer {
		return func(body string) *answer { return c.patch(records+"/"+key, body) }
	}
	ask := func(body string) *answer { return r.ask(body) }
	value := mustParse(c.t, bad)
	sent := []placed{
		{"put", put("x"), `{"value":` + bad + `}`, "/value/v" + k.At},
		{"runner put", ask, `{"operation":"put","namespace":"a","key":"x","value":` + bad + `}`, "/value/v" + k.At},
		{"bulk", post(records), `{"items":[{"key":"x","value":` + good + `},{"key":"y","value":` + bad + `}]}`, "/items/1/value/v" + k.At},
		{"runner bulk", ask, `{"operation":"bulkPut","namespace":"a","items":[{"key":"y","value":` + bad + `}]}`, "/items/0/value/v" + k.At},
		{"batch", post("/batch"), `{"ops":[{"op":"put","namespace":"a","key":"x","value":` + bad + `}]}`, "/ops/0/value/v" + k.At},
		{"import", post("/import", lines), `{"namespace":"a","key":"x","value":` + bad + `}`, "/value/v" + k.At},
		{"patch elsewhere", patch("old"), `{"n":2}`, ""},
		{"runner patch elsewhere", ask, `{"operation":"patch","namespace":"a","key":"old","patch":{"n":2}}`, "/patch"},
		{"increment elsewhere", post(records + "/old/increment"), `{"pointer":"/n","by":1}`, "/pointer"},
		{"batch increment", post("/batch"), `{"ops":[{"op":"increment","namespace":"a","key":"old","pointer":"/n","by":1}]}`, "/ops/0/pointer"},
	}
	if merged, err := mustParse(c.t, `{"n":1}`).Merge(mustParse(c.t, `{"v":`+string(k.Bad)+`}`), 1<<16); err == nil && merged == value { // no null was removed
		sent = append(sent,
			placed{"patch", patch("bare"), `{"v":` + string(k.Bad) + `}`, "/v" + k.At},
			placed{"runner patch", ask, `{"operation":"patch","namespace":"a","key":"bare","patch":{"v":` + string(k.Bad) + `}}`, "/patch/v" + k.At})
	}
	if _, err := canonjson.ParseNumber(k.Bad); err == nil {
		sent = append(sent, placed{"increment", post(records + "/zero/increment"), `{"pointer":"/v","by":` + string(k.Bad) + `}`, "/by"})
	}
	for i := range sent {
		walked[sent[i].name]++
		sent[i].check(c.t, k, value)
	}
}

func mustParse(t testing.TB, text string) canonjson.Value {
	t.Helper()
	v, err := canonjson.Parse([]byte(text), 1<<20)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// check sends the request. value is the value that the schema refuses, apart from n.
func (p *placed) check(t testing.TB, k *keywordCase, value canonjson.Value) {
	t.Helper()
	a := p.send(p.body)
	var e struct {
		Error struct {
			Pointer  *string
			Failures []struct {
				Pointer, Location string
				Missing           *string
			}
		}
	}
	a.is(http.StatusBadRequest).into(&e)
	if len(e.Error.Failures) == 0 || e.Error.Pointer == nil || *e.Error.Pointer != e.Error.Failures[0].Pointer {
		t.Fatalf("%s: %s", p.name, a.body)
	}
	first := e.Error.Failures[0]
	if first.Pointer != p.pointer || first.Location != "/v"+k.At || (first.Missing == nil) != (k.Missing == nil) || k.Missing != nil && *first.Missing != *k.Missing {
		t.Errorf("%s: %s, want pointer %q, location %q", p.name, a.body, p.pointer, "/v"+k.At)
	}
	for _, f := range e.Error.Failures {
		contains(t, p.name+": pointer", mustParse(t, p.body), f.Pointer)
		contains(t, p.name+": location", value, f.Location)
	}
}

// contains checks that a pointer resolves.
func contains(t testing.TB, what string, in canonjson.Value, pointer string) {
	t.Helper()
	way, err := canonjson.ParsePointer(pointer)
	if _, found := in.Lookup(way); err != nil || !found {
		t.Errorf("%s: %s contains no %q: %v", what, in, pointer, err)
	}
}

// TestPlacesOfIncrements checks an increment that creates a member which the schema does not allow, and one whose value
// becomes too large elsewhere.
func TestPlacesOfIncrements(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for schema, pointer := range map[string]string{
		`{"additionalProperties":false}`:                       "/pointer",
		`{"unevaluatedProperties":false}`:                      "/pointer",
		`{"propertyNames":{"maxLength":1}}`:                    "/pointer",
		`{"properties":{"new":false}}`:                         "/pointer",
		`{"patternProperties":{"^n":false}}`:                   "/pointer",
		`{"maxProperties":0}`:                                  "/pointer",
		`{"dependentRequired":{"new":["other"]}}`:              "/pointer",
		`{"additionalProperties":{"maximum":0}}`:               "/by",
		`{"properties":{"new":{"type":"string"}}}`:             "/by",
		`{"properties":{"new":{"not":{"type":"integer"}}}}`:    "/by",
		`{"patternProperties":{"^n":{"anyOf":[{"const":2}]}}}`: "/by",
	} {
		c := s.install(t)
		c.post("/namespaces/a/schemas", `{"schema":`+schema+`}`).is(http.StatusCreated)
		c.patch("/namespaces/a/schemas/1", `{"status":"active"}`, "Content-Type: application/json").is(http.StatusOK)
		if a := c.post(records+"/k/increment", `{"pointer":"/new","by":1,"create":true}`).fails(400, "VALIDATION_FAILED"); !strings.Contains(a.body, `"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %s, want %s", schema, a.body, pointer)
		}
	}
	c := s.install(t)
	c.put("large", `{"value":{"n":0,"text":"`+strings.Repeat("x", 65_515)+`"}}`).is(http.StatusCreated)
	c.post(records+"/large/increment", `{"pointer":"/n","by":123456789}`).fails(413, "LIMIT_EXCEEDED", "pointer ")
	c.put("zeros", `{"value":{"n":0,"list":[`+strings.Repeat("1e300,", 1_771)+`1]}}`).is(http.StatusCreated)
	c.post(records+"/zeros/increment", `{"pointer":"/n","by":1e300}`).fails(413, "LIMIT_EXCEEDED", "pointer ")
}
