package problem_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
		detail string
	}{
		{errcode.New(errcode.NotFound, "no such wall"), 404, "not-found", "no such wall"},
		{fmt.Errorf("paint: %w", errcode.Wrap(errcode.Invalid, "color: unknown", errors.New("a secret"))), 422, "invalid", "color: unknown"},
		{errcode.New(errcode.Conflict, "it is painted"), 409, "conflict", "it is painted"},
		{errcode.New(errcode.Precondition, "it is painted"), 409, "conflict", "it is painted"},
		{errcode.New(errcode.Denied, "no"), 403, "denied", "no"},
		{errcode.New(errcode.TooLarge, "a large wall"), 413, "too-large", "a large wall"},
		{errcode.New(errcode.Quota, "no paint"), 507, "quota", "no paint"},
		{errcode.New(errcode.Unavailable, "later"), 503, "unavailable", "later"},
		{errors.New("a secret"), 500, "internal", "internal error: the server log has the details under this requestId"},
		{fmt.Errorf("x: %w", web.Refuse(http.StatusTeapot, "teapot", "short and stout")), 418, "teapot", "short and stout"},
	} {
		e := problem.Refusal(c.err)
		if e.Status != c.status || e.Code != c.code || e.Message != c.detail {
			t.Errorf("%v: %d %s %s", c.err, e.Status, e.Code, e.Message)
		}
		if d := problem.New(e, problem.Occurrence{}); d.Status != c.status || d.Title != http.StatusText(c.status) || d.Retriable != (c.status == 503) {
			t.Errorf("%v: %+v", c.err, d)
		}
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/walls/a%2Fb?x", nil)
	w.Header().Set("X-Request-Id", "7")
	e := problem.Refusal(errcode.New(errcode.Unavailable, "later"))
	document := struct {
		problem.Document
		Errors []problem.Field `json:"errors"`
	}{problem.New(e, problem.In(w, r)), []problem.Field{{Parameter: "wall", Code: "invalid", Detail: "x"}}}
	problem.Send(w, e.Status, problem.ContentType, problem.Encode(document))
	const want = `{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"later","instance":"/walls/a%2Fb","code":"unavailable","requestId":"7","retriable":true,` +
		`"errors":[{"pointer":"","parameter":"wall","code":"invalid","detail":"x"}]}` + "\n"
	h := w.Header()
	if w.Code != 503 || w.Body.String() != want || h.Get("Retry-After") != "1" || h.Get("Content-Type") != problem.ContentType || h.Get("Cache-Control") != "private, no-store" {
		t.Errorf("%d %v %s", w.Code, h, w.Body)
	}
}
