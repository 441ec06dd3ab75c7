package servicetest

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/openapitest"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// Operator sends operation requests and validates responses against the API description.
type Operator struct {
	Base string

	t      testing.TB
	client *http.Client
}

// NewOperator serves an open service's operations. description is the API description file.
func NewOperator(t testing.TB, s service.Service, description string) *Operator {
	t.Helper()
	text, err := os.ReadFile(description)
	if err != nil {
		t.Fatal(err)
	}
	described, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	api := adminapi.New(s.CommandName(), s.Operations)
	return &Operator{
		t: t, Base: webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{}).URL,
		client: &http.Client{Transport: &openapitest.Transport{Document: described, Next: http.DefaultTransport, Report: func(err error) { t.Error(err) }}},
	}
}

// Answer is a response: its body and the header Location.
type Answer struct{ Text, Location string }

// Send sends a request, fails the test unless the response has this status and contains all parts, and returns it.
func (o *Operator) Send(status int, method, path, body string, parts ...string) Answer {
	o.t.Helper()
	r := webtest.Request(o.t, o.Base, method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return o.do(status, r, parts...)
}

// Upload sends a file, and fails the test unless the response has this status.
func (o *Operator) Upload(status int, path, contentType, file string) Answer {
	o.t.Helper()
	r := webtest.Request(o.t, o.Base, http.MethodPost, path, strings.NewReader(file))
	r.Header.Set("Content-Type", contentType)
	return o.do(status, r)
}

func (o *Operator) do(status int, r *http.Request, parts ...string) Answer {
	o.t.Helper()
	what := r.Method + " " + r.URL.String()
	resp, err := o.client.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		o.t.Fatalf("%s: %d %s %v, want %d", what, resp.StatusCode, text, err, status)
	}
	for _, part := range parts {
		if !strings.Contains(string(text), part) {
			o.t.Fatalf("%s: no %s in %s", what, part, text)
		}
	}
	return Answer{strings.TrimSuffix(string(text), "\n"), resp.Header.Get("Location")}
}
