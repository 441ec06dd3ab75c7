// Package openapitest holds HTTP exchanges against an OpenAPI 3.1 document, for
// tests. An answer must be described to the last member and header; a request
// must be described too when it got what it asked for, lest the document
// promises less than the server does.
//
// Two extensions say what OpenAPI has no words for: x-lines is the schema of
// each line of a body that is lines of JSON, and x-codes lists the error.code
// that a response may have. Two responses of the components are for what no path
// describes: MethodNotAllowed and Preflight; a path that is not there is answered
// with NotFound.
package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is an OpenAPI document. It is safe for concurrent use.
type Document struct {
	root     map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema // by pointer
}

// Route is an operation of a document.
type Route struct {
	Method string // GET
	Path   string // with {parameters}
	ID     string // operationId
}

// where the document stands for the compiler of its schemas.
const base = "openapi:///openapi.json"

// Load reads a document and compiles all of its schemas.
func Load(text []byte) (*Document, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	root, ok := v.(map[string]any)
	if version, _ := root["openapi"].(string); !ok || !strings.HasPrefix(version, "3.1.") {
		return nil, errors.New("not a document of OpenAPI 3.1")
	}
	d := &Document{root: root, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(base, v); err != nil {
		return nil, err
	}
	return d, d.compile("", root)
}

// compile compiles every schema below a place and holds the examples beside them
// against them, so that a test that loads the document knows it to be whole:
// references that lead nowhere are errors.
func (d *Document) compile(at string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if err := d.sound(place{at, v}); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		for name, child := range v {
			here, err := at+"/"+escape(name), error(nil)
			switch {
			case name == "schema", name == "x-lines", at == "/components/schemas":
				_, err = d.schema(here)
			case name != "example":
				err = d.compile(here, child)
			}
			if err != nil {
				return err
			}
		}
	case []any:
		for i, child := range v {
			if err := d.compile(fmt.Sprintf("%s/%d", at, i), child); err != nil {
				return err
			}
		}
	}
	return nil
}

// sound looks at the reference and at the example of an object.
func (d *Document) sound(p place) error {
	if _, err := d.follow(p); err != nil {
		return err
	}
	_, schema := p.members["schema"]
	if example, ok := p.members["example"]; ok && schema {
		return wrap("example", d.validate(p.pointer+"/schema", example))
	}
	return nil
}

// schema is the compiled schema at a pointer.
func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.schemas[pointer]; ok {
		return s, nil
	}
	s, err := d.compiler.Compile(base + "#" + (&url.URL{Path: pointer}).EscapedPath())
	if err == nil {
		d.schemas[pointer] = s
	}
	return s, err
}

// Routes are the operations of the document, by path and method.
func (d *Document) Routes() (routes []Route) {
	paths := place{"", d.root}.child("paths")
	for _, path := range paths.names() {
		item := paths.child(path)
		for _, name := range item.names() {
			if op := item.child(name); slices.Contains(methods, strings.ToUpper(name)) {
				id, _ := op.members["operationId"].(string)
				routes = append(routes, Route{strings.ToUpper(name), path, id})
			}
		}
	}
	return routes
}

var methods = []string{
	http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodPatch, http.MethodTrace,
}

// place is an object of the document and the pointer to it. A place without
// members is not there.
type place struct {
	pointer string
	members map[string]any
}

func (p place) child(name string) place {
	members, _ := p.members[name].(map[string]any)
	return place{p.pointer + "/" + escape(name), members}
}

func (p place) names() []string { return slices.Sorted(maps.Keys(p.members)) }

// there is the child, where references have been followed.
func (d *Document) there(p place, name string) place {
	found, err := d.follow(p.child(name))
	if err != nil {
		return place{}
	}
	return found
}

// each are the items of a list of objects.
func (d *Document) each(p place, name string) (all []place) {
	items, _ := p.members[name].([]any)
	for i, item := range items {
		members, _ := item.(map[string]any)
		if found, err := d.follow(place{fmt.Sprintf("%s/%s/%d", p.pointer, name, i), members}); err == nil {
			all = append(all, found)
		}
	}
	return all
}

// follow goes where references of the document lead.
func (d *Document) follow(p place) (place, error) {
	for range 10 {
		ref, ok := p.members["$ref"].(string)
		if !ok {
			return p, nil
		}
		pointer, ok := strings.CutPrefix(ref, "#/")
		if !ok {
			return place{}, fmt.Errorf("%s leads out of the document", ref)
		}
		p = place{"", d.root}
		for token := range strings.SplitSeq(pointer, "/") {
			p = p.child(unescapes.Replace(token))
		}
		if p.members == nil {
			return place{}, fmt.Errorf("%s leads nowhere", ref)
		}
	}
	return place{}, fmt.Errorf("%s goes in a circle", p.pointer)
}

var (
	escapes   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapes = strings.NewReplacer("~1", "/", "~0", "~")
)

func escape(token string) string { return escapes.Replace(token) }
