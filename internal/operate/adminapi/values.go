package adminapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"holdfast/internal/fault"
	"holdfast/internal/operate"
	"holdfast/internal/web"
)

// maxBody is the size of the largest body in bytes.
const maxBody = 16 << 10

var bodyErrors = func() *web.BodyErrors {
	large := web.Refuse(http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("the body is larger than %d bytes", maxBody))
	return &web.BodyErrors{
		Announced: large, TooLarge: large,
		TooSlow: web.Refuse(http.StatusRequestTimeout, "timeout", "the body was sent too slowly"),
		Cut:     web.Refuse(http.StatusBadRequest, "invalid", "the body ended early or its encoding is malformed"),
	}
}()

// values returns the inputs of a request by name.
func (o *route) values(w http.ResponseWriter, r *http.Request, path string) (map[string]string, error) {
	all := map[string]string{}
	others := o.Inputs
	if s := o.Subject(); s != nil {
		part := strings.Split(path, "/")[3]
		name, err := url.PathUnescape(part)
		if err != nil {
			return nil, errPath
		}
		all[s.Name], others = name, others[1:]
	}
	if len(others) == 0 {
		return all, nil
	}
	if o.Kind == operate.List {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the query is malformed")
		}
		for _, in := range others {
			all[in.Name] = query.Get(in.Name)
		}
		return all, nil
	}
	body, err := web.ReadBody(w, r, maxBody, bodyErrors)
	if err != nil || len(body) == 0 {
		return all, err
	}
	return all, addMembers(all, body, others)
}

// addMembers adds the members of a JSON object as text.
func addMembers(all map[string]string, body []byte, inputs []operate.Input) error {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || object == nil || d.More() {
		return fault.New(fault.Invalid, "the body is malformed: expected a JSON object")
	}
	for _, in := range inputs {
		v, ok := object[in.Name]
		delete(object, in.Name)
		if !ok || v == nil {
			continue
		}
		wanted := map[reflect.Kind]string{reflect.Bool: "bool", reflect.Int: "json.Number", reflect.String: "string"}[in.Kind]
		if fmt.Sprintf("%T", v) != wanted {
			return &operate.InputError{Input: in.Name, Reason: "expected " + in.Expected()}
		}
		all[in.Name] = fmt.Sprint(v)
	}
	for name := range object {
		return &operate.InputError{Input: name, Reason: "unknown member"}
	}
	return nil
}
