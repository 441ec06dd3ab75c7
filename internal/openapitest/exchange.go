package openapitest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

type Exchange struct {
	Method string
	Target string
	Header http.Header
	Body   []byte

	Status       int
	AnswerHeader http.Header
	AnswerBody   []byte
}

type Transport struct {
	Document *Document
	Next     http.RoundTripper
	Report   func(error)
}

func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := Exchange{Method: r.Method, Target: r.URL.RequestURI(), Header: r.Header.Clone()}
	sent := func() {}
	if r.Body != nil {
		body := &observed{ReadCloser: r.Body}
		r = r.Clone(r.Context())
		r.Body = body
		sent = func() { x.Body = body.bytes() }
	}
	resp, err := t.Next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.Status, x.AnswerHeader = resp.StatusCode, resp.Header
	check := func(answer []byte) {
		sent()
		x.AnswerBody = answer
		if err := t.Document.Check(&x); err != nil {
			t.Report(err)
		}
	}
	body := &observed{ReadCloser: resp.Body, done: check}
	resp.Body = body
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		whole, err := io.ReadAll(body)
		resp.Body = &again{io.MultiReader(bytes.NewReader(whole), failing{err}), body}
	}
	return resp, nil
}

// observed is safe for concurrent use, because bodies may be read concurrently.
type observed struct {
	io.ReadCloser
	done func([]byte)

	mu   sync.Mutex
	read bytes.Buffer
}

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.mu.Lock()
	o.read.Write(p[:n])
	done := o.done
	if errors.Is(err, io.EOF) {
		o.done = nil
	}
	o.mu.Unlock()
	if errors.Is(err, io.EOF) && done != nil {
		done(o.bytes())
	}
	return n, err
}

func (o *observed) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.read.Bytes())
}

type again struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

func (d *Document) Check(x *Exchange) error {
	path, query, _ := strings.Cut(x.Target, "?")
	item, params := d.find(path)
	op := d.there(item, strings.ToLower(x.Method))
	response := d.there(d.there(op, "responses"), strconv.Itoa(x.Status))
	common := place{"", d.root}.child("components").child("responses")
	for what, is := range map[string]bool{
		"NotFound":         item.members == nil && x.Status == http.StatusNotFound,
		"MethodNotAllowed": op.members == nil && item.members != nil && x.Status == http.StatusMethodNotAllowed,
		"Preflight":        op.members == nil && x.Method == http.MethodOptions && x.Status == http.StatusNoContent,
	} {
		if is {
			response = d.there(common, what)
		}
	}
	errs := []error{d.answer(x, response)}
	if x.Status/100 == 2 && op.members != nil {
		errs = append(errs, d.parameters(x, item, op, params, query))
		if body := d.there(op, "requestBody"); len(x.Body) > 0 || body.members["required"] == true {
			errs = append(errs, d.body(body, x.Header, x.Body))
		}
	}
	if err := errors.Join(errs...); err != nil {
		id, _ := op.members["operationId"].(string)
		return fmt.Errorf("%s %s (%s): %d: %w\nrequest: %s\nanswer: %s", x.Method, x.Target, id, x.Status, err, clip(x.Body), clip(x.AnswerBody))
	}
	return nil
}

func clip(b []byte) []byte { return b[:min(len(b), 2000)] }

func (d *Document) find(path string) (item place, params map[string]string) {
	paths := place{"", d.root}.child("paths")
	for _, template := range paths.names() {
		this := d.there(paths, template)
		if here, ok := match(template, path, this.members["x-rest"] == true); ok && (params == nil || len(here) < len(params)) {
			item, params = this, here
		}
	}
	return item, params
}

func match(template, path string, rest bool) (map[string]string, bool) {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if rest {
		have = strings.SplitN(path, "/", len(want))
	}
	if len(want) != len(have) {
		return nil, false
	}
	params := map[string]string{}
	for i := range want {
		plain, err := url.PathUnescape(have[i])
		name, isParam := strings.CutPrefix(want[i], "{")
		switch {
		case err != nil, !isParam && want[i] != plain:
			return nil, false
		case isParam:
			params[strings.TrimSuffix(name, "}")] = plain
		}
	}
	return params, true
}

// transport headers need no description.
var transport = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
	"Access-Control-Max-Age", "Cache-Control", "Connection", "Content-Length", "Content-Type", "Date", "Trailer", "Transfer-Encoding", "Vary",
}

func (d *Document) answer(x *Exchange, response place) error {
	if response.members == nil {
		return errors.New("the status is not described")
	}
	var errs []error
	headers := response.child("headers")
	for name, values := range x.AnswerHeader {
		i := slices.IndexFunc(headers.names(), func(n string) bool {
			start, all := strings.CutSuffix(n, "*")
			return http.CanonicalHeaderKey(n) == name || all && strings.HasPrefix(name, http.CanonicalHeaderKey(start))
		})
		if i >= 0 && len(values) != 1 {
			errs = append(errs, fmt.Errorf("header %s is there %d times", name, len(values)))
		}
		if i < 0 && !slices.Contains(transport, name) {
			errs = append(errs, fmt.Errorf("header %s is not described", name))
		}
	}
	for _, name := range headers.names() {
		header, values := d.there(headers, name), x.AnswerHeader.Values(name)
		if len(values) == 0 && header.members["required"] == true {
			errs = append(errs, fmt.Errorf("header %s is missing", name))
		}
		for _, v := range values {
			errs = append(errs, wrap("header "+name, d.parameter(header, v)))
		}
	}
	if x.Method == http.MethodHead {
		if len(x.AnswerBody) > 0 {
			errs = append(errs, errors.New("an answer to HEAD has a body"))
		}
	} else {
		errs = append(errs, d.body(response, x.AnswerHeader, x.AnswerBody), codes(response, x.AnswerBody))
	}
	return errors.Join(errs...)
}

func codes(response place, body []byte) error {
	allowed, ok := response.members["x-codes"].([]any)
	if !ok {
		return nil
	}
	var e struct {
		Code  string `json:"code"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	if code := cmp.Or(e.Error.Code, e.Code); !slices.Contains(allowed, any(code)) {
		return fmt.Errorf("code %s is not of this status", code)
	}
	return nil
}

func (d *Document) body(said place, header http.Header, body []byte) error {
	content := said.child("content")
	if len(content.members) == 0 {
		if len(body) > 0 {
			return errors.New("a body is not described")
		}
		return nil
	}
	if content.child("*/*").members != nil {
		return nil
	}
	name, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("content type: %w", err)
	}
	media := content.child(name)
	if media.members == nil {
		return fmt.Errorf("content type %s is not described", name)
	}
	if name == "application/octet-stream" {
		return nil // any bytes
	}
	if media.members["x-lines"] == nil {
		return wrap("body", d.holds(media.pointer+"/schema", body))
	}
	for i, line := range bytes.Split(body, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := d.holds(media.pointer+"/x-lines", line); err != nil {
			return fmt.Errorf("line %d: %w", i, err)
		}
	}
	return nil
}

func (d *Document) holds(pointer string, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return d.validate(pointer, v)
}

func (d *Document) validate(pointer string, v any) error {
	s, err := d.schema(pointer)
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func (d *Document) parameters(x *Exchange, item, op place, path map[string]string, rawQuery string) error {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return err
	}
	var errs []error
	check := func(p place, what, value string) { errs = append(errs, wrap(what, d.parameter(p, value))) }
	for _, p := range slices.Concat(d.each(item, "parameters"), d.each(op, "parameters")) {
		name, _ := p.members["name"].(string)
		switch p.members["in"] {
		case "path":
			check(p, name, path[name])
		case "header":
			if values := x.Header.Values(name); len(values) > 0 {
				check(p, name, strings.Join(values, ", "))
			}
		case "query":
			for _, value := range query[name] {
				check(p, name, value)
			}
			delete(query, name)
		}
	}
	for name := range query {
		errs = append(errs, fmt.Errorf("parameter %s is not described", name))
	}
	return errors.Join(errs...)
}

func (d *Document) parameter(p place, text string) error {
	schema := d.there(p, "schema")
	var v any = text
	switch schema.members["type"] {
	case "integer", "number":
		v = json.Number(text)
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return errors.New("is not a number")
		}
	case "boolean":
		switch text {
		case "true":
			v = true
		case "false":
			v = false
		}
	}
	return d.validate(p.pointer+"/schema", v)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
