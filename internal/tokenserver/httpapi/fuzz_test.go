package httpapi_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"testing"

	"holdfast/internal/tokenserver/httpapi"
	"holdfast/internal/web"
)

// FuzzSignIn checks that any headers get a protocol response and never a server error.
func FuzzSignIn(f *testing.F) {
	f.Add("Bearer "+token("alice", 7), "5-qqo", "aaaa", "12")
	f.Add("Bearer eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.AAAA", "5-qqo", "", "")
	f.Add("Bearer eyJhbGciOiJub25lIn0.e30.", "1234", "", "x")
	f.Add(`Bearer {"user":"a\u0000b","scope":"https://identity.mozilla.com/apps/oldsync"}`, "0--_-_", "bbbb", "")
	f.Add(`Bearer {"user":1,"scope":[[]]}`, "\xff", "\x00", "-1")
	f.Add("Basic abc", "-", "-", "")
	s := newServer(f, nil)
	h := &httpapi.Handler{Service: s.service, Clock: s.hands.Now}
	at := web.Address{Origin: web.Origin{Scheme: "http", Host: "h", Port: 80}, Path: "/1.0/sync/1.5"}
	f.Fuzz(func(t *testing.T, authorization, keyID, clientState, duration string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/1.0/sync/1.5?"+url.Values{"duration": {duration}}.Encode(), nil)
		r.Header["Authorization"] = []string{authorization}
		r.Header["X-Keyid"] = []string{keyID}
		if clientState != "" {
			r.Header["X-Client-State"] = []string{clientState}
		}
		w := httptest.NewRecorder()
		if err := h.Serve(w, r, at); err != nil {
			httpapi.WriteError(w, r, err)
		}
		switch w.Code {
		case 200, 400, 401:
		case 503: // the stub's response is the token, which was not valid
		default:
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the body is not JSON: %s", w.Body)
		}
	})
}
