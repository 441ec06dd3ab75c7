// Package openapi makes a service's OpenAPI 3.1 entries from its operations.
package openapi

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
)

const inJSON = "application/json"

//go:embed admin.json
var admin string

// Document returns the API description of a service whose API consists only of operations. service is as for
// adminapi.New.
func Document(service string, all []operate.Operation) ([]byte, error) {
	return Update([]byte(strings.ReplaceAll(admin, "SERVICE", cmp.Or(service, "server"))), service, all)
}

// Update returns the document with the operations' entries replaced. Entries for other paths stay as they are written,
// byte for byte. It fails if the document is not formatted like the descriptions in this repository. Entries refer to
// the responses and schemas in the document by name, so those must exist.
func Update(document []byte, service string, all []operate.Operation) ([]byte, error) {
	const begin, end = "\n  \"paths\": {", "\n  },\n"
	head, rest, ok := bytes.Cut(document, []byte(begin))
	paths, tail, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return nil, fmt.Errorf("expected %q and %q in the API description, as its other parts are written", begin, end)
	}
	api := adminapi.New(service, all)
	var entries [][]byte
	for entry := range bytes.SplitSeq(bytes.TrimPrefix(paths, []byte("\n")), []byte(",\n    \"/")) {
		entry = bytes.TrimPrefix(entry, []byte("    \"/"))
		path, _, _ := bytes.Cut(entry, []byte(`"`))
		if len(entry) > 0 && !api.Owns("/"+string(path)) {
			entries = append(entries, entry)
		}
	}
	for _, p := range entriesOf(service, all) {
		var b bytes.Buffer
		write(&b, p.value, "    ")
		entries = append(entries, []byte(strings.TrimPrefix(p.name, "/")+`": `+b.String()))
	}
	paths = append([]byte("\n    \"/"), bytes.Join(entries, []byte(",\n    \"/"))...)
	return slices.Concat(head, []byte(begin), paths, []byte(end), tail), nil
}

// entriesOf returns the members in "paths". Operations with the same path share an entry.
func entriesOf(service string, all []operate.Operation) (paths object) {
	routes := adminapi.New(service, all).Routes()
	for i := range all {
		o := &all[i]
		path := template(routes[i].Path)
		at := slices.IndexFunc(paths, func(m member) bool { return m.name == path })
		if at < 0 {
			at = len(paths)
			item := object{{"servers", []any{object{{"url", "/"}, {"description", "The admin listener (server.admin_listen)."}}}}}
			var subjects []any
			for _, s := range o.Subjects() {
				subjects = append(subjects, parameter(&s, "path"))
			}
			if subjects != nil {
				item = append(item, member{"parameters", subjects})
			}
			paths = append(paths, member{path, item})
		}
		item, _ := paths[at].value.(object)
		paths[at].value = append(item, member{strings.ToLower(routes[i].Method), entry(o)})
	}
	return paths
}

var value = regexp.MustCompile(`/[A-Z][A-Z-]*`)

// template returns a path as OpenAPI writes it: /keys/{key} for /keys/KEY.
func template(path string) string {
	return value.ReplaceAllStringFunc(path, func(s string) string { return "/{" + strings.ToLower(s[1:]) + "}" })
}

// entry describes an operation: its inputs and its responses.
func entry(o *operate.Operation) object {
	e := object{{"operationId", operate.Camel(o.Verb() + "-" + o.Noun())}, {"tags", []any{"admin"}}, {"summary", o.Doc}}
	if o.More != "" {
		e = append(e, member{"description", strings.ReplaceAll(o.More, "\n", " ")})
	}
	e = append(e, member{"security", []any{object{{"admin", []any{}}}}})
	others := slices.DeleteFunc(slices.Clone(o.Others()), func(in operate.Input) bool { return in.Local })
	switch {
	case len(others) == 0:
	case adminapi.HasBody(o):
		body := object{}
		for _, in := range others {
			body = append(body, member{in.Member(), inputSchema(&in, true)})
		}
		e = append(e, member{"requestBody", content(inJSON, object{{"type", "object"}, {"additionalProperties", false}, {"properties", body}})})
	default:
		var query []any
		for _, in := range others {
			query = append(query, parameter(&in, "query"))
		}
		e = append(e, member{"parameters", query})
	}
	if o.Kind == operate.Upload {
		e = append(e, member{"requestBody", append(object{{"required", true}}, file(o.Media)...)})
	}
	return append(e, member{"responses", responses(o, o.Kind == operate.Upload || o.Kind.Changes() && len(others) > 0)})
}

// content describes a body with a single media type.
func content(media string, schema object) object {
	return object{{"content", object{{media, object{{"schema", schema}}}}}}
}

// file describes a file in a body.
func file(media string) object {
	switch {
	case media == operate.Lines:
		return object{{"content", object{{media, object{{"schema", object{{"type", "string"}}}, {"x-lines", object{}}}}}}}
	case strings.HasSuffix(media, "json"):
		return content(media, object{})
	}
	return content(media, object{{"type", "string"}})
}

// responses describes the answers that the operation can get. hasBody says that a request body can be too slow or too
// large.
func responses(o *operate.Operation, hasBody bool) object {
	headers, description := object{{"X-Request-Id", object{{"$ref", "#/components/headers/RequestId"}}}}, "The result."
	if o.Background {
		description = "Job started."
		headers = append(headers, member{"Location", object{{"description", "The job's progress, and its result once it has ended."}, {"schema", object{{"type", "string"}, {"format", "uri-reference"}}}}})
	}
	result := content(inJSON, resultSchema(o))
	if o.Kind == operate.Download {
		description, result = "The file.", file(o.Media)
		text := member{"schema", object{{"type", "string"}}}
		headers = append(
			headers, member{"Content-Disposition", object{{"description", "File name."}, text}},
			member{"Content-Security-Policy", object{{"description", "A browser runs nothing in the file."}, text}},
			member{"X-Content-Type-Options", object{{"description", "A browser takes the content type as it is."}, text}},
		)
	}
	all := object{{strconv.Itoa(adminapi.Status(o)), append(object{{"description", description}, {"headers", headers}}, result...)}}
	refer := func(is bool, status int, name string) {
		if is {
			all = append(all, member{strconv.Itoa(status), object{{"$ref", "#/components/responses/" + name}}})
		}
	}
	refer(o.Kind.Changes(), http.StatusBadRequest, "Invalid")
	refer(true, http.StatusUnauthorized, "AdminToken")
	refer(o.Subject() != nil, http.StatusNotFound, "NotFound")
	refer(hasBody, http.StatusRequestTimeout, "Timeout")
	refer(o.Kind.Changes(), http.StatusConflict, "AdminConflict")
	refer(hasBody, http.StatusRequestEntityTooLarge, "TooLarge")
	refer(true, http.StatusUnprocessableEntity, "AdminInvalid")
	refer(true, http.StatusTooManyRequests, "TooManyTokens")
	refer(true, http.StatusInternalServerError, "InternalError")
	refer(true, http.StatusServiceUnavailable, "Unavailable")
	return all
}

// parameter describes an input in the path or the query (where).
func parameter(in *operate.Input, where string) object {
	p := object{{"name", in.Member()}, {"in", where}}
	if where == "path" {
		p = append(p, member{"required", true})
	}
	p = append(p, member{"description", sentence(in.Doc)}, member{"schema", inputSchema(in, false)})
	switch {
	case in.Example != "" && in.IsNumber():
		p = append(p, member{"example", json.Number(in.Example)})
	case in.Example != "":
		p = append(p, member{"example", in.Example})
	}
	return p
}

// sentence makes a whole sentence from a help text.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
