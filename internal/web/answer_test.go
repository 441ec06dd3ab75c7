package web_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

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
