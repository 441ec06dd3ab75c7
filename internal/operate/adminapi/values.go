package adminapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

// maxBody is the largest JSON body in bytes. Inputs are names, numbers and short texts; files are uploads.
const maxBody = 16 << 10

var bodyErrors = problem.BodyErrors(maxBody)

// values returns the inputs by name, from the path, the query and the body.
func (o *route) values(w http.ResponseWriter, r *http.Request, path string) (map[string]string, error) {
	all := map[string]string{}
	others, parts := o.Others(), strings.Split(path, "/")
	for i, s := range o.Subjects() {
		value, err := url.PathUnescape(parts[o.first+i])
		if err != nil {
			return nil, errPath
		}
		all[s.Name] = value
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errQuery
	}
	if !HasBody(o.Operation) {
		return all, addParameters(all, query, others)
	}
	if err := addParameters(all, query, nil); err != nil || len(others) == 0 {
		return all, err
	}
	body, err := web.ReadBody(w, r, maxBody, bodyErrors)
	if err != nil || len(body) == 0 {
		return all, err
	}
	return all, addMembers(all, body, others)
}

// addParameters rejects unknown parameters, because a typo must not change the request's effect.
func addParameters(all map[string]string, query url.Values, inputs []operate.Input) error {
	for _, in := range inputs {
		if in.Local {
			continue
		}
		name := in.Member()
		given, ok := query[name]
		delete(query, name)
		switch {
		case !ok:
			continue
		case len(given) > 1:
			return wrongParameter(name, "occurs twice")
		case given[0] == "" && in.Kind != reflect.String:
			return wrongParameter(name, "expected "+in.Expected())
		}
		all[in.Name] = given[0]
		if n, err := strconv.Atoi(given[0]); in.Name == "limit" && err == nil && n > operate.MaxLimit {
			return wrongParameter(name, fmt.Sprintf("must be at most %d", operate.MaxLimit))
		}
	}
	for name := range query {
		return wrongParameter(name, "unknown parameter")
	}
	return nil
}

// addMembers takes inputs from the JSON object in the body. A member that is null counts as missing. Unknown members
// and wrong types are refused.
func addMembers(all map[string]string, body []byte, inputs []operate.Input) error {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || object == nil || d.More() {
		return errcode.New(errcode.Invalid, "the body is malformed: expected a JSON object")
	}
	for _, in := range inputs {
		if in.Local {
			continue
		}
		v, ok := object[in.Member()]
		delete(object, in.Member())
		if !ok || v == nil {
			continue
		}
		isType := false
		switch v := v.(type) {
		case bool:
			isType = in.IsBool()
		case json.Number:
			isType = in.IsNumber()
		case string:
			isType = in.Kind == reflect.String
		case []any:
			if words, ok := join(v); ok && in.IsWords() {
				all[in.Name] = words
				continue
			}
		}
		if !isType {
			return &operate.InputError{Input: in.Name, Reason: "expected " + in.Expected()}
		}
		all[in.Name] = fmt.Sprint(v)
	}
	for name := range object {
		return &operate.InputError{Input: name, Reason: "unknown member"}
	}
	return nil
}

// join returns a list of words as operate takes them: joined by spaces. ok is false if an item is not a single word.
func join(list []any) (words string, ok bool) {
	var all []string
	for _, v := range list {
		word, isText := v.(string)
		if !isText || len(strings.Fields(word)) != 1 || strings.TrimSpace(word) != word {
			return "", false
		}
		all = append(all, word)
	}
	return strings.Join(all, " "), true
}
