package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
)

// keyedRequest is a request with an idempotency key. again is the same request, spelled differently, and other is another
// request.
type keyedRequest struct {
	listener, path     string
	body, again, other string
	againPath          string // "": path
	otherHeader        http.Header
	refused            string // other's status and code; "": the key was reused
}

const (
	keyedRecord  = "/ext/v1/installs/" + someInstall + "/namespaces/a/records/001"
	keyedService = "/internal/ext-storage/install/" + someInstall
	keyedWish    = "22222222-2222-4222-8222-000000000001"
	keyedMember  = `"namespace":"a","key":"001"`
	consumeRoute = "POST /internal/handoff/bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7B/consume"
)

// keyedRequests are in an order in which they succeed. Described routes are named as in conditionWalk.described.
func keyedRequests(userToken string) (names []string, all map[string]keyedRequest) {
	all = map[string]keyedRequest{}
	add := func(name string, r keyedRequest) {
		names = append(names, name)
		if r.path == "" {
			_, r.path, _ = strings.Cut(name, " ")
		}
		if r.listener == "" {
			r.listener = service.Main
		}
		all[name] = r
	}
	add("POST "+keyedRecord+"/increment", keyedRequest{
		body: `{"pointer":"","by":1,"max":1000}`, again: " {\"max\":1e3,\n\"by\" : 1.0,\t\"\\u0070ointer\":\"\"}", other: `{"pointer":"","by":2,"max":1000}`,
		againPath: strings.Replace(keyedRecord, "001", "%3001", 1) + "/increment",
	})
	add("POST /ext/v1/installs/"+someInstall+"/batch", keyedRequest{
		body:  `{"ops":[{"op":"increment",` + keyedMember + `,"pointer":"","by":1},{"op":"put","namespace":"a","key":"k","value":{"a":1,"b":["ü/"]}}]}`,
		again: `{ "ops" : [{"by":10e-1,"pointer":"",` + keyedMember + `,"op":"increment"},{"op":"put","namespace":"a","key":"\u006b","value":{"b":["\u00FC\/"],"a":1.0}}]}`,
		other: `{"ops":[{"op":"increment",` + keyedMember + `,"pointer":"","by":1},{"op":"put","namespace":"a","key":"k","value":{"a":1,"b":["u/"]}}]}`,
	})
	add("increment of a service", keyedRequest{
		listener: service.Internal, path: keyedService,
		body: `{"operation":"increment",` + keyedMember + `,"pointer":"","by":1}`, again: `{"by":1e0,` + keyedMember + `,"pointer":"", "operation":"in\u0063rement"}`,
		other: `{"operation":"increment",` + keyedMember + `,"pointer":"","by":-1}`,
	})
	add("batch of a service", keyedRequest{
		listener: service.Internal, path: keyedService,
		body:  `{"operation":"batch","ops":[{"op":"increment",` + keyedMember + `,"pointer":"","by":1}]}`,
		again: `{"ops":[ {"by":1,"op":"increment",` + keyedMember + `,"pointer":""} ],"operation":"batch"}`,
		other: `{"operation":"batch","ops":[{"op":"increment",` + keyedMember + `,"pointer":"","by":1},{"op":"check",` + keyedMember + `,"ifRevision":0}]}`,
	})
	const api = "/bff/consumer/v1"
	add("POST "+api+"/wishlist", keyedRequest{
		body:  `{"tenantId":"` + someTenant + `","propertyId":"` + keyedWish + `","source":"list","note":"ü"}`,
		again: `{"note":"\u00fc", "source":"li\u0073t","propertyId":"` + keyedWish + `","tenantId":"` + someTenant + `"}`,
		other: `{"tenantId":"` + someTenant + `","propertyId":"` + keyedWish + `","source":"list","note":"u"}`,
	})
	add("PATCH "+api+"/wishlist/"+keyedWish, keyedRequest{
		body: `{"note":"a\nb"}`, again: ` {"note":"a\u000ab"}`, other: `{"note":"a b"}`, againPath: api + "/wishlist/%32" + keyedWish[1:],
	})
	add("POST "+api+"/handoff/"+someTenant+"/"+keyedWish, keyedRequest{
		path:  api + "/handoff/" + someTenant + "/22222222-2222-4333-8444-555555555555", // in the built-in catalogue
		body:  `{"checkIn":"2036-12-30","checkOut":"2037-01-02","adults":2,"children":1}`,
		again: `{"children":1.0,"adults":20e-1,"checkOut":"2037\u002d01-02","checkIn":"2036-12-30"}`,
		other: `{"checkIn":"2036-12-30","checkOut":"2037-01-02","adults":2,"children":2}`,
	})
	// A handoff has a single token, so another request cannot have the same key; the described guest is not part of the attempt.
	add(consumeRoute, keyedRequest{listener: service.Internal, body: `{"token":"TOKEN"}`, again: `{"\u0074oken" : "TOKEN"}`, other: `{"token":"TOKENx"}`, refused: "403 token-invalid"})
	add("POST "+api+"/telemetry/page-view", keyedRequest{
		body: `{"items":[{"page":"home"},{"page":"list"}]}`, again: `{"items":[{"page":"h\u006fme"} , {"page":"list"}]}`, other: `{"items":[{"page":"list"},{"page":"home"}]}`,
	})
	add("POST "+api+"/telemetry/funnel", keyedRequest{body: `{"items":[{"step":"search"}]}`, again: `{"items" : [{"step":"\u0073earch"}]}`, other: `{"items":[{"step":"detail"}]}`})
	match := http.Header{"If-Match": {"*"}}
	add("DELETE "+api+"/wishlist/"+keyedWish, keyedRequest{againPath: api + "/wishlist/%32" + keyedWish[1:], otherHeader: match})
	add("POST "+api+"/session/clear", keyedRequest{otherHeader: match})
	add("POST "+api+"/session/link", keyedRequest{body: `{"token":"` + userToken + `"}`, again: `{ "\u0074oken":"` + userToken + `"}`, other: `{"token":"x"}`})
	return names, all
}

// wantSame checks the answers to other spellings of a request, and to another request, with the same key. send sends
// them.
func wantSame(t *testing.T, name string, r keyedRequest, first *httptest.ResponseRecorder, send func(path, body string, more http.Header) *httptest.ResponseRecorder) {
	t.Helper()
	if first.Code >= http.StatusMultipleChoices || first.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("%s: %d %v %s", name, first.Code, first.Header(), first.Body)
		return
	}
	for _, again := range []struct{ path, body string }{{r.path, r.again}, {r.againPath, r.body}} {
		if again.path != "" {
			wantRepeated(t, name+" repeated as "+again.path+" "+again.body, first, send(again.path, again.body, nil), name == consumeRoute)
		}
	}
	other := send(r.path, r.other, r.otherHeader)
	status, code, _ := strings.Cut(cmp.Or(r.refused, "422 idempotency-key-reused"), " ")
	if text := strings.ToLower(strings.ReplaceAll(other.Body.String(), "_", "-")); strconv.Itoa(other.Code) != status || !strings.Contains(text, `"`+code+`"`) {
		t.Errorf("%s with another request: %d %s", name, other.Code, other.Body)
	}
}

// TestSameRequestOfAKey repeats every request that takes an idempotency key in another spelling, which gets the first
// answer again, and sends another request with the key, which is refused.
func TestSameRequestOfAKey(t *testing.T) {
	t.Parallel()
	userKey := strings.Repeat("u", 32)
	w := openConditions(t, "[guest.profiles.hotel]\nuser_keys = [\""+userKey+"\"]\n")
	w.readDescriptions()
	ring, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{Alg: bearer.HS256, Text: userKey}}})
	if err != nil {
		t.Fatal(err)
	}
	userToken, err := ring.Sign(map[string]any{"sub": "u-1", "aud": "holdfast-guest"}, clock.System(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	names, all := keyedRequests(userToken)
	w.wantKeyed(all)
	var minted struct{ HandoffID, Token string }
	keys := map[string]http.Header{}
	for i, name := range names {
		r := all[name]
		if name == consumeRoute {
			r.path = "/internal/handoff/" + minted.HandoffID + "/consume"
			for _, body := range []*string{&r.body, &r.again, &r.other} {
				*body = strings.Replace(*body, "TOKEN", minted.Token, 1)
			}
		}
		method, _, isRoute := strings.Cut(name, " ")
		if _, described := w.described[name]; !described || !isRoute {
			method = http.MethodPost
		}
		key := http.Header{"Idempotency-Key": {"same-" + string(rune('a'+i))}}
		keys[name] = key
		send := func(path, body string, more http.Header) *httptest.ResponseRecorder {
			return w.sendKeyed(&route{listener: r.listener, method: method, path: path, body: body, media: jsonMedia}, key, more)
		}
		first := send(r.path, r.body, nil)
		if strings.Contains(name, "/handoff/"+someTenant) && json.Unmarshal(first.Body.Bytes(), &minted) != nil {
			t.Fatalf("%s: %s", name, first.Body)
		}
		wantSame(t, name, r, first, send)
	}
	w.revokeInstall()
	for _, name := range names {
		r := all[name]
		if !strings.Contains(r.path, someInstall) {
			continue // guest/httpapi.TestRepeatedGrants ends the grants of guests' answers
		}
		a := w.sendKeyed(&route{listener: r.listener, method: http.MethodPost, path: r.path, body: r.body, media: jsonMedia}, keys[name])
		if a.Code < http.StatusBadRequest || a.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("%s repeated after the install lost its access: %d %s", name, a.Code, a.Body)
		}
	}
}

// revokeInstall ends all access to someInstall.
func (w *conditionWalk) revokeInstall() {
	w.t.Helper()
	a := w.sendKeyed(&route{listener: service.Admin, method: http.MethodPost, path: "/ext/installs/" + someTenant + "/" + someInstall + "/revoke", body: "{}", media: jsonMedia})
	if a.Code != http.StatusOK {
		w.t.Fatalf("revoke: %d %s", a.Code, a.Body)
	}
}

// wantKeyed checks that every described route that takes an idempotency key is in all.
func (w *conditionWalk) wantKeyed(all map[string]keyedRequest) {
	w.t.Helper()
	for name, headers := range w.described {
		if slices.Contains(headers, "Idempotency-Key") && all[name].path == "" {
			w.t.Errorf("%s takes an idempotency key: add it to keyedRequests", name)
		}
	}
}

// wantRepeated compares a repeated request's answer with the first. readsAgain: a consumed handoff is read, not replayed.
func wantRepeated(t *testing.T, what string, first, again *httptest.ResponseRecorder, readsAgain bool) {
	t.Helper()
	if again.Code != first.Code || !bytes.Equal(again.Body.Bytes(), first.Body.Bytes()) {
		t.Errorf("%s: %d %s, want %d %s", what, again.Code, again.Body, first.Code, first.Body)
	}
	if again.Header().Get("Idempotency-Replayed") != "true" && !readsAgain {
		t.Errorf("%s: not replayed", what)
	}
}

// sendKeyed sends a request with these headers.
func (w *conditionWalk) sendKeyed(r *route, headers ...http.Header) *httptest.ResponseRecorder {
	w.t.Helper()
	req := w.request(r, false, nil)
	for _, h := range headers {
		maps.Copy(req.Header, h)
	}
	rec := httptest.NewRecorder()
	w.listeners[r.listener].ServeHTTP(rec, req)
	return rec
}

// TestKeysHaveFingerprints checks that every package that reads an idempotency key compares requests by web.Fingerprint.
func TestKeysHaveFingerprints(t *testing.T) {
	t.Parallel()
	reads, compares := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		in := filepath.Dir(path)
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "//")
			reads[in] = reads[in] || strings.Contains(code, `"Idempotency-Key"`) && (strings.Contains(code, "Header.") || strings.Contains(code, "range"))
		}
		compares[in] = compares[in] || bytes.Contains(text, []byte("web.Fingerprint("))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for in, isReader := range reads {
		if isReader {
			found++
		}
		if isReader && !compares[in] {
			t.Errorf("%s reads an idempotency key, and does not call web.Fingerprint", in)
		}
	}
	if found < 2 {
		t.Errorf("only %d packages read an idempotency key: %v", found, reads)
	}
}
