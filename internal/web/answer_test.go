package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast/internal/web"
)

func TestSendJSONLine(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{}`: "{}\n", "{}\n": "{}\n", `0`: "0\n"} {
		w := httptest.NewRecorder()
		web.SendJSONLine(w, http.StatusAccepted, []byte(body))
		if w.Code != http.StatusAccepted || w.Body.String() != want || w.Header().Get("Content-Length") != strconv.Itoa(len(want)) ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%q: %d %q %v", body, w.Code, w.Body, w.Header())
		}
	}
}

// TestBodyErrorsUnset checks that a protocol that declares no error for a failed read does not get part of a body.
func TestBodyErrorsUnset(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
	}{
		"announced":  {strings.NewReader("more than four"), 14},
		"too large":  {strings.NewReader("more than four"), -1},
		"too slow":   {iotest.ErrReader(os.ErrDeadlineExceeded), -1},
		"cut":        {io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(io.ErrUnexpectedEOF)), 4},
		"cut itself": {iotest.ErrReader(io.ErrUnexpectedEOF), 0},
	} {
		r := httptest.NewRequest(http.MethodPut, "/", c.body)
		r.ContentLength = c.length
		if b, err := web.ReadBody(httptest.NewRecorder(), r, 4, &web.BodyErrors{}); err == nil || b != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
