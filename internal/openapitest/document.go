// Package openapitest validates HTTP exchanges against an OpenAPI 3.1 document, for tests. A response must be
// described down to the last member and header; so must a successful request, so that the document does not promise
// less than the server does.
//
// Two extensions: x-lines is the schema of each line in a JSON Lines body, and x-codes lists the possible error.code
// values.
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

type Document struct {
	root     map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
}

type Route struct {
	Method string
	Path   string
	ID     string
}

const base = "openapi:///openapi.json"

// Load parses a document and compiles its schemas.
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

type place struct {
	pointer string
	members map[string]any
}

func (p place) child(name string) place {
	members, _ := p.members[name].(map[string]any)
	return place{p.pointer + "/" + escape(name), members}
}

func (p place) names() []string { return slices.Sorted(maps.Keys(p.members)) }

func (d *Document) there(p place, name string) place {
	found, err := d.follow(p.child(name))
	if err != nil {
		return place{}
	}
	return found
}

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
