package web_test

import (
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/web"
)

// TestUndeclaredConditionsAreRefused checks that a service that declares nothing never gets a write with a condition,
// whatever its method and value.
func TestUndeclaredConditionsAreRefused(t *testing.T) {
	t.Parallel()
	served := 0
	s := service(func(http.ResponseWriter, *http.Request, web.Address) error { served++; return nil })
	var refused error
	s.Error = func(w http.ResponseWriter, _ *http.Request, err error) {
		refused = err
		w.WriteHeader(http.StatusBadRequest)
	}
	unlisted := []string{"If-Phase-Of-The-Moon", "X-If-Sunny", "X-Amz-If-Late", "X-Amz-Copy-Source-If-Late", "X-Goog-If-Generation-Match"}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "MERGE"} {
		for _, name := range slices.Concat(web.ConditionHeaders, unlisted) {
			for _, value := range []string{"", " ", "*", `"1"`, "garbage"} {
				served = 0
				got := ask(s.Handler(web.Options{Log: slog.New(slog.DiscardHandler)}), method, "/", map[string]string{name: value})
				if got.Code != http.StatusBadRequest || served != 0 {
					t.Errorf("%s with %s: %q: status %d, served %d times", method, name, value, got.Code, served)
				}
				want := name + " is not supported by this request: "
				if slices.Contains(unlisted, name) {
					want = "an unknown condition header is not supported by this request: "
				}
				if cause, ok := errors.AsType[*web.ConditionError](refused); !ok || !strings.HasPrefix(cause.Error(), want) {
					t.Errorf("%s with %s: %v", method, name, refused)
				}
			}
		}
	}
	served = 0
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		for _, name := range web.ConditionHeaders {
			ask(s.Handler(web.Options{Log: slog.New(slog.DiscardHandler)}), method, "/", map[string]string{name: "*"})
		}
	}
	if served != 3*len(web.ConditionHeaders) {
		t.Errorf("%d of %d reads are served", served, 3*len(web.ConditionHeaders))
	}
	for _, name := range []string{"Iffy", "X-Amz-Meta-If-Match", "X-Iffy", "Idempotency-Key"} {
		if got := ask(s.Handler(web.Options{Log: slog.New(slog.DiscardHandler)}), "PUT", "/", map[string]string{name: "*"}); got.Code != http.StatusOK {
			t.Errorf("%s is no condition, but it is refused", name)
		}
	}
}

func TestDeclaredConditionsAreServed(t *testing.T) {
	t.Parallel()
	var declared web.Conditions
	s := service(func(http.ResponseWriter, *http.Request, web.Address) error { return nil })
	s.Error = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	s.Conditions = func(*http.Request, web.Address) web.Conditions { return declared }
	for _, c := range []struct {
		declared web.Conditions
		header   string
		status   int
		message  string
	}{
		{web.Conditions{}, "If-Match", 400, "If-Match is not supported by this request: send the request without a condition"},
		{web.Conditions{Applied: []string{"If-Match", "If-None-Match"}}, "If-Match", 200, ""},
		{web.Conditions{Applied: []string{"If-Match", "If-None-Match"}}, "If-Range", 400, "If-Range is not supported by this request: use If-Match or If-None-Match"},
		{web.Conditions{Instead: "use revisions"}, "If-Range", 400, "use revisions"},
		{web.CheckedByHandler(nil, web.Address{}), "If-Range", 200, ""},
		{web.CheckedByHandler(nil, web.Address{}), "If-Late", 200, ""},
	} {
		declared = c.declared
		got := ask(s.Handler(web.Options{Log: slog.New(slog.DiscardHandler)}), "PUT", "/", map[string]string{c.header: "*"})
		if got.Code != c.status || !strings.Contains(got.Body.String(), c.message) {
			t.Errorf("%+v with %s: %d %s", c.declared, c.header, got.Code, got.Body)
		}
	}
}

// TestConditionsOfMissingRoutes checks that the handler answers paths and methods that are not in Routes, whatever
// condition they have.
func TestConditionsOfMissingRoutes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		routes []web.Route
		status int
	}{
		"unknown":      {nil, http.StatusBadRequest},
		"none":         {web.NoRoutes, http.StatusOK},
		"other path":   {[]web.Route{{Label: "other", Method: "PUT"}}, http.StatusOK},
		"other method": {[]web.Route{{Label: "route", Method: "POST"}}, http.StatusOK},
		"this route":   {[]web.Route{{Label: "route", Method: "PUT"}}, http.StatusBadRequest},
	} {
		s := service(func(http.ResponseWriter, *http.Request, web.Address) error { return nil })
		s.Route, s.Routes = func(string) string { return "route" }, c.routes
		s.Error = func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		if got := ask(s.Handler(web.Options{Log: slog.New(slog.DiscardHandler)}), "PUT", "/", map[string]string{"If-Match": "*"}); got.Code != c.status {
			t.Errorf("%s: status %d, want %d", name, got.Code, c.status)
		}
	}
}

func TestParseEntityTags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines []string
		want  *web.EntityTags // nil: refused
	}{
		{[]string{`"a"`}, &web.EntityTags{Strong: []string{"a"}}},
		{[]string{` "a" , W/"b",,"c,d" ,`}, &web.EntityTags{Strong: []string{"a", "c,d"}, Weak: []string{"b"}}},
		{[]string{`"a"`, `W/"b"`}, &web.EntityTags{Strong: []string{"a"}, Weak: []string{"b"}}},
		{[]string{`,"a"`}, &web.EntityTags{Strong: []string{"a"}}},
		{[]string{`""`}, &web.EntityTags{Strong: []string{""}}},
		{[]string{`"ü"`}, &web.EntityTags{Strong: []string{"ü"}}},
		{[]string{" *\t"}, &web.EntityTags{Any: true}},
		{[]string{""}, nil}, {[]string{" "}, nil}, {[]string{","}, nil}, {[]string{" , ,"}, nil}, {[]string{"", ""}, nil},
		{[]string{"a"}, nil}, {[]string{`"a`}, nil}, {[]string{`a"`}, nil}, {[]string{`"`}, nil}, {[]string{`"a""b"`}, nil}, {[]string{`"a" "b"`}, nil},
		{[]string{`w/"a"`}, nil}, {[]string{`W/a`}, nil}, {[]string{`W/`}, nil}, {[]string{`"a b"`}, nil}, {[]string{"\"a\x7f\""}, nil},
		{[]string{`*, "a"`}, nil}, {[]string{`"a", *`}, nil}, {[]string{"*", "*"}, nil}, {[]string{`"a"`, "*"}, nil}, {[]string{"*,"}, nil}, {[]string{`"*`}, nil},
	} {
		got, err := web.ParseEntityTags(http.Header{"If-Match": c.lines}, "If-Match")
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %+v, %v, want %+v", c.lines, got, err, c.want)
		}
	}
	if got, err := web.ParseEntityTags(http.Header{}, "If-Match"); got != nil || err != nil {
		t.Errorf("absent: %+v, %v", got, err)
	}
	tags := web.EntityTags{Strong: []string{"a"}, Weak: []string{"b"}}
	for tag, want := range map[string][2]bool{"a": {true, true}, "b": {false, true}, "c": {false, false}} {
		if got := [2]bool{tags.MatchesStrong(tag), tags.MatchesWeak(tag)}; got != want {
			t.Errorf("%s matches %v, want %v", tag, got, want)
		}
	}
}
