package app

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/buckets"
	"holdfast/internal/app/service"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/auth/tokenlib"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/obs"
)

// unreached are places that no request to this server reaches, with the reason. The key is the place, or the start for several
// places.
var unreached = map[string]string{
	"replica/":                                                                                "about the target of the server's own replica",
	"operate/openapi/openapi.go responses":                                                    "describes an answer",
	"web/refusal.go Refusal.ErrorCode":                                                        "classifies an answer",
	"buckets/s3api/errors.go Error.ErrorCode":                                                 "classifies an answer",
	"buckets/s3api/errors.go Error.because":                                                   "its callers have the reasons",
	"buckets/s3api/errors.go errAccessDenied":                                                 "always has another reason",
	"buckets/s3api/errors.go byFault":                                                         "for errors of other packages; all that reach it have a line above it",
	"app/console/console.go status":                                                           "no operation of the console fails with errcode.Denied",
	"tokenserver/account.go Account.Check":                                                    "the accounts server's tokens have an account ID",
	"buckets/s3api/policy.go because the bucket policy does not allow this":                   "the reasons above it cover all requests",
	"buckets/s3api/policy.go because no action of a bucket policy covers this request":        "every operation has an action",
	"buckets/s3api/handler.go because the account has no bucket with this name, and the name": "a plain name belongs to the signer",
	"syncstorage/owner.go":                                                                    "a token always has a uid",
	"syncstorage/spanner/store.go":                                                            "only on Spanner",
	"syncstorage/collection.go ErrTooManyNames":                                               "answered 400",
	"extstorage/names.go":                                                                     "a token always has an owner",
	"extstorage/inspection/span.go":                                                           "only an operator's request has a span",
	"extstorage/delete.go ErrInstallDeleting":                                                 "only while a deletion runs; same code as ErrInstallDeleted",
	"buckets/names.go ErrNoAccountID":                                                         "a key always has an account",
	"buckets/s3api/errors.go byStore":                                                         "only if the account is deleted during the request",
	"buckets/s3api/handler.go errKeyExpired":                                                  "expires after at least a second; same code as errKeyNetwork",
	"auth/sigv4/errors.go kinds NoCredentials":                                                "unsigned requests are anonymous",
}

// refusedWalk provokes refusals.
type refusedWalk struct {
	*conditionWalk
	secrets map[string]bool // sent by the requests
	reasons []string        // in the log
	named   map[string]bool // places that a case names, because no text shows them
	other   sigv4test.Signer
	jwk     *rsa.PrivateKey
}

const (
	refusedAccount = "00112233445566778899aabbccddeeff"
	refusedUserKey = "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"
	refusedViewer  = "viewer-token-of-a-test-0123456789"
	refusedMaster  = "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
)

// TestReasonOfEveryRefusal provokes 401 and 403 at every place in the code that answers so. It checks that the log for
// refused requests shows the request with a reason in words, and without a secret from the request. A new place needs a case.
func TestReasonOfEveryRefusal(t *testing.T) {
	t.Parallel()
	w := openRefused(t)
	w.refuseSync()
	w.refuseSignIns()
	w.refuseExtensions()
	w.refuseServices()
	w.refuseObjects()
	w.refuseSignatures()
	w.refuseNative()
	w.refuseGuests()
	w.refuseOperators()
	w.wantEveryPlace()
	w.wantTables()
}

func openRefused(t *testing.T) *refusedWalk {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	w := &refusedWalk{secrets: map[string]bool{}, named: map[string]bool{}, jwk: key}
	w.other = sigv4test.Signer{AccessKeyID: "HFOTHER", Secret: strings.Repeat("o", 40), Region: "us-east-1"}
	w.conditionWalk = openConditions(t, fmt.Sprintf(`
[buckets.accounts.other.keys.other]
access_key = "HFOTHER"
secret_key = %q
[syncstorage]
enforce_quota = true
[tokenserver]
allow_new_users = true
[tokenserver.fxa_oauth_primary_jwk]
kty = "RSA"
alg = "RS256"
n = %q
e = "AQAB"
[guest.bots]
headers_weight = 0.5
honeypot_weight = 0.5
honeypot = "offers/archive"
[guest.profiles.hotel]
user_keys = [%q]
`, w.other.Secret, base64.RawURLEncoding.EncodeToString(key.N.Bytes()), refusedUserKey))
	if e := big.NewInt(int64(key.E)).Bytes(); base64.RawURLEncoding.EncodeToString(e) != "AQAB" {
		t.Fatal(e)
	}
	return w
}

// to returns a request with valid credentials, which change may replace.
func (w *refusedWalk) to(listener, method, path, body string, change ...func(*http.Request)) *http.Request {
	w.t.Helper()
	r := w.request(&route{listener: listener, method: method, path: path, body: body, media: jsonMedia}, false, nil)
	for _, c := range change {
		c(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
}

func unsigned(r *http.Request) {
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Content-Sha256", "Cookie"} {
		r.Header.Del(name)
	}
}

var secretValues = regexp.MustCompile(`(?:[?&](?:X-Amz-)?Signature=|Signature=|id="|mac="|hash="|Bearer +|holdfast-console=|gms=|"token":")([^"&, ;]{6,})`)

// refused sends a request to a listener, and checks its status and its line in the log. places are those that no text
// shows.
func (w *refusedWalk) refused(status int, listener string, r *http.Request, places ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r.RequestURI = r.URL.RequestURI() // as after signing
	var text bytes.Buffer
	text.WriteString(r.URL.RequestURI())
	for _, name := range []string{"Authorization", "Cookie"} {
		text.WriteString("\n" + r.Header.Get(name))
	}
	if r.GetBody == nil && r.Body != nil {
		body := new(bytes.Buffer)
		if _, err := body.ReadFrom(r.Body); err != nil {
			w.t.Fatal(err)
		}
		text.WriteString("\n" + body.String())
		r.Body = http.NoBody
		if body.Len() > 0 {
			r.Body = struct {
				*bytes.Reader
				nopCloser
			}{bytes.NewReader(body.Bytes()), nopCloser{}}
		}
	}
	for _, m := range secretValues.FindAllStringSubmatch(text.String(), -1) {
		w.secrets[m[1]] = true
	}
	for _, place := range places {
		w.named[place] = true
	}
	before := map[obs.Line]int{}
	for _, l := range w.lines() {
		before[l]++
	}
	rec := httptest.NewRecorder()
	w.listeners[listener].ServeHTTP(rec, r)
	what := fmt.Sprintf("%s %s %s", listener, r.Method, r.URL.Path)
	if rec.Code != status {
		w.t.Errorf("%s: %d, want %d: %.300s", what, rec.Code, status, rec.Body)
		return rec
	}
	lines := slices.DeleteFunc(w.lines(), func(l obs.Line) bool { before[l]--; return before[l] >= 0 })
	if len(lines) == 0 {
		w.t.Errorf("%s: %d %.200s is not in the log", what, status, rec.Body)
	}
	for _, l := range lines {
		if l.Status != status {
			w.t.Errorf("%s: the log shows the status %d, want %d", what, l.Status, status)
		}
		w.wantWords(what, l.Error)
		w.reasons = append(w.reasons, l.Error)
		for secret := range w.secrets {
			if text := l.Error + l.Attributes; strings.Contains(text, secret) {
				w.t.Errorf("%s: the log shows a secret of the request: %s", what, text)
			}
		}
	}
	return rec
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// lines returns the lines about refused requests.
func (w *refusedWalk) lines() []obs.Line {
	all, _ := w.app.overview.Log.Lines()
	return slices.DeleteFunc(all, func(l obs.Line) bool { return l.Status != http.StatusUnauthorized && l.Status != http.StatusForbidden })
}

var aWord = regexp.MustCompile(`^[("]?[A-Za-z'-]+[,.;:)"]?$`)

// wantWords checks that a reason has words besides the error's code.
func (w *refusedWalk) wantWords(what, reason string) {
	w.t.Helper()
	words := 0
	code, rest, _ := strings.Cut(reason, ": ")
	if strings.Contains(code, " ") {
		rest = reason
	}
	for word := range strings.FieldsSeq(rest) {
		if aWord.MatchString(word) {
			words++
		}
	}
	if words < 3 {
		w.t.Errorf("%s: the reason is not in words: %q", what, reason)
	}
}

// wantEveryPlace checks that the log shows each place's text, or that a case names it.
func (w *refusedWalk) wantEveryPlace() {
	w.t.Helper()
	all, used := refusedPlaces(w.t), map[string]bool{}
	for _, p := range all {
		at := fmt.Sprintf("%s (line %d, %q)", p.id, p.line, p.text)
		isShown := w.named[p.id] || p.text != "" && slices.ContainsFunc(w.reasons, func(reason string) bool { return strings.Contains(reason, p.text) })
		used[p.id] = true
		except := ""
		for key := range unreached {
			if strings.HasPrefix(p.id+" ", key) {
				except = key
			}
		}
		if except != "" {
			used[except] = used[except] || !isShown
		}
		if !isShown && except == "" {
			w.t.Errorf("%s: no case provokes it", at)
		}
	}
	for key := range unreached {
		if !used[key] {
			w.t.Errorf("unreached has %q, which is shown or does not exist", key)
		}
	}
	for id := range w.named {
		if !used[id] {
			w.t.Errorf("a case names %q, which does not exist", id)
		}
	}
	if len(all) < 100 {
		w.t.Errorf("only %d places", len(all))
	}
	w.t.Logf("%d places, %d reasons", len(all), len(w.reasons))
}

// wantTables checks the services' refusals, which also name them in metrics.
func (w *refusedWalk) wantTables() {
	w.t.Helper()
	for _, s := range w.app.opened {
		for _, r := range s.Refusals {
			w.wantWords(s.Name+" "+r.Reason, r.Err.Error())
		}
	}
}

func (w *refusedWalk) hawk(id, key, path, body string, change func(*http.Request), at time.Duration) *http.Request {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPut
	}
	return w.to(service.Main, method, path, body, unsigned, func(r *http.Request) {
		hash := ""
		if body == "" {
			r.Body = http.NoBody
		} else if change != nil {
			hash = hawk.PayloadHash(jsonMedia, []byte("another body"))
		}
		if err := hawk.SignHTTP(r, id, key, time.Now().Add(at), hash); err != nil {
			w.t.Fatal(err)
		}
	})
}

func (w *refusedWalk) refuseSync() {
	const info, record = "/1.5/1/info/collections", "/1.5/1/storage/bookmarks/a"
	const all = "syncstorage/httpapi/errors.go statusOf"
	get := func(path string, change ...func(*http.Request)) *http.Request {
		return w.to(service.Main, http.MethodGet, path, "", change...)
	}
	w.refused(401, service.Main, get(info, header("Authorization", "")), all)
	w.refused(401, service.Main, get(info, header("Authorization", `Hawk id="abcdefgh"`)))
	w.refused(401, service.Main, get("/1.5/2/info/collections"))
	w.refused(401, service.Main, w.hawk(w.hawkID, "wrong-key-of-hawk", info, "", nil, 0))
	w.refused(401, service.Main, w.hawk(w.hawkID[:9]+".", w.hawkKey, info, "", nil, 0))
	w.refused(401, service.Main, w.hawk(w.hawkID, w.hawkKey, info, "", nil, -400*24*time.Hour))
	w.refused(401, service.Main, w.hawk(w.hawkID, w.hawkKey, record, `{"payload":"a"}`, func(*http.Request) {}, 0))
	for master, life := range map[string]time.Duration{strings.Repeat("x", 32): time.Hour, refusedMaster: -time.Hour} {
		ring, err := tokenlib.NewKeyring(master)
		if err != nil {
			w.t.Fatal(err)
		}
		id, key, err := ring.Mint(tokenlib.Claims{UID: 1, Expires: time.Now().Add(life)})
		if err != nil {
			w.t.Fatal(err)
		}
		w.refused(401, service.Main, w.hawk(id, key, "/1.5/1/storage/bookmarks", "", nil, 0))
	}
	w.must(&route{listener: service.Admin, method: http.MethodPost, path: "/tokenserver/users/1/quota", body: `{"quota":"1"}`, media: jsonMedia})
	w.refused(403, service.Main, w.to(service.Main, http.MethodPut, record, `{"payload":"aaaa"}`))
}

// accessToken signs the claims as the accounts server does.
func (w *refusedWalk) accessToken(generation int64) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims, err := json.Marshal(map[string]any{"sub": refusedAccount, "exp": time.Now().Add(time.Hour).Unix(), "scope": "https://identity.mozilla.com/apps/oldsync", "fxa-generation": generation})
	if err != nil {
		w.t.Fatal(err)
	}
	text := encode([]byte(`{"alg":"RS256","typ":"at+jwt"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, w.jwk, crypto.SHA256, sum[:])
	if err != nil {
		w.t.Fatal(err)
	}
	return text + "." + encode(signature)
}

func (w *refusedWalk) refuseSignIns() {
	const path = "/1.0/sync/1.5"
	const at = "tokenserver/httpapi/errors.go "
	state := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	signIn := func(authorization, keyID string, change ...func(*http.Request)) *http.Request {
		return w.to(service.Main, http.MethodGet, path, "", append([]func(*http.Request){header("Authorization", authorization), header("X-KeyID", keyID)}, change...)...)
	}
	valid := func(generation int64) string { return "Bearer " + w.accessToken(generation) }
	w.refused(401, service.Main, signIn("", ""), at+"errNoCredentials", at+"answerTo", at+"answerToRefusal", "tokenserver/refusal.go Refusal.ErrorCode")
	w.refused(401, service.Main, signIn("Hawk abcdefgh", ""), at+"errScheme")
	w.refused(401, service.Main, signIn(valid(1)+"x", ""))
	w.refused(401, service.Main, signIn(valid(1), ""))
	w.refused(401, service.Main, signIn(valid(1), "x"))
	w.refused(401, service.Main, signIn(valid(1), "1-"+strings.Repeat("A", 40)))
	w.refused(401, service.Main, signIn(valid(1), "1-"+state("keys"), header("X-Client-State", "aaaa")))
	w.refused(401, service.Main, w.to(service.Main, http.MethodPost, "/1.0/webhooks/fxa/events", "{}", header("Authorization", "Bearer events-token")))
	rec := httptest.NewRecorder()
	w.listeners[service.Main].ServeHTTP(rec, signIn(valid(10), "10-"+state("keys")))
	var grant struct {
		ID, Key string
		UID     int64
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &grant); err != nil || rec.Code != http.StatusOK {
		w.t.Fatal(rec.Code, rec.Body)
	}
	w.refused(401, service.Main, signIn(valid(9), "10-"+state("keys")))
	w.refused(401, service.Main, signIn(valid(10), "9-"+state("keys")))
	w.refused(401, service.Main, signIn(valid(10), "10-"+state("other")))
	w.refused(401, service.Main, signIn(valid(10), "10-"))
	w.must(&route{listener: service.Admin, method: http.MethodPost, path: "/tokenserver/access/" + refusedAccount + "/deny", body: "{}", media: jsonMedia})
	w.refused(403, service.Main, signIn(valid(10), "10-"+state("keys")))
	for _, s := range w.app.opened {
		if s.Name == "tokenserver" { // reads the revoked tokens first
			stop, err := s.Start(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(func() { _ = stop() })
		}
	}
	w.refused(401, service.Main, w.hawk(grant.ID, grant.Key, fmt.Sprintf("/1.5/%d/info/collections", grant.UID), "", nil, 0))
}

// bearer signs claims with a key. ends is the lifetime.
func (w *refusedWalk) bearer(key bearer.Key, audience string, claims map[string]any, now time.Time, ends time.Duration) func(*http.Request) {
	ring, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{key}, Audience: audience, MaxLifetime: 1000 * 24 * time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	token, err := ring.Sign(claims, now, ends)
	if err != nil {
		w.t.Fatal(err)
	}
	return header("Authorization", "Bearer "+token)
}

func (w *refusedWalk) extKey() bearer.Key {
	return bearer.Key{ID: ext.OwnTokenKey(strings.Repeat("t", 32)), Alg: bearer.HS256, Text: strings.Repeat("t", 32)}
}

func (w *refusedWalk) refuseExtensions() {
	const at, deleted = "/ext/v1/installs/", "99999999-2222-4333-8444-000000000001"
	const errs = "extstorage/httpapi/errors.go statusOf"
	now, key := time.Now(), w.extKey()
	claims := func(install string, ns any) map[string]any {
		return map[string]any{"tenant_id": someTenant, "install_id": install, "ns": ns}
	}
	rw := map[string]string{"a": "rw"}
	send := func(status int, method, path, body string, change func(*http.Request), places ...string) {
		w.t.Helper()
		w.refused(status, service.Main, w.to(service.Main, method, at+path, body, change), places...)
	}
	get := func(change func(*http.Request)) {
		w.t.Helper()
		send(401, http.MethodGet, someInstall+"/usage", "", change)
	}
	get(header("Authorization", ""))
	get(func(r *http.Request) { r.Header.Add("Authorization", "Bearer second-token") })
	get(header("Authorization", "Bearer malformed-token"))
	get(w.bearer(bearer.Key{ID: key.ID, Alg: bearer.HS256, Text: strings.Repeat("x", 32)}, "", claims(someInstall, rw), now, time.Hour))
	get(w.bearer(key, "", claims(someInstall, rw), now.Add(-2*time.Hour), time.Hour))
	get(w.bearer(key, "", claims(someInstall, rw), now.Add(2*time.Hour), time.Hour))
	get(w.bearer(key, "", claims(someInstall, rw), now, 999*24*time.Hour))
	get(w.bearer(key, "", claims(someInstall, "x"), now, time.Hour))
	get(w.bearer(key, "", map[string]any{"tenant_id": someTenant, "service": "walk"}, now, time.Hour))
	same := func(*http.Request) {}
	send(403, http.MethodGet, deleted+"/usage", "", same)
	send(403, http.MethodGet, someInstall+"/namespaces/c/records/k", "", same, "extstorage/grant.go NamespaceDeniedError.ErrorCode", "extstorage/httpapi/auth.go unauthenticated", errs)
	send(403, http.MethodPut, someInstall+"/namespaces/a/records/k", `{"value":1}`, w.bearer(key, "", claims(someInstall, map[string]string{"a": "r"}), now, time.Hour))
	withID := claims(someInstall, rw)
	withID["jti"] = "token-1"
	revoked := w.bearer(key, "", withID, now, time.Hour)
	r := w.to(service.Main, http.MethodGet, at, "", revoked)
	w.must(&route{listener: service.Admin, method: http.MethodPost, path: "/ext/tokens/revoke", body: `{"token":"` + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + `"}`, media: jsonMedia})
	get(revoked)
	w.must(&route{listener: service.Admin, method: http.MethodPost, path: "/ext/installs/" + someTenant + "/" + deleted + "/delete", body: `{"allowMissing":true}`, media: jsonMedia})
	send(403, http.MethodGet, deleted+"/usage", "", w.bearer(key, "", claims(deleted, rw), now, time.Hour))
}

func (w *refusedWalk) refuseServices() {
	const at = "/internal/ext-storage/install/"
	key, now := w.extKey(), time.Now()
	send := func(status int, path, body string, change func(*http.Request)) {
		w.t.Helper()
		w.refused(status, service.Internal, w.to(service.Internal, http.MethodPost, path, body, change, header("Idempotency-Key", `"refused"`)))
	}
	usage := `{"operation":"usage"}`
	send(401, at+someInstall, usage, header("Authorization", ""))
	for _, claims := range []map[string]any{
		{"tenant_id": someTenant, "install_id": someInstall}, {"tenant_id": someTenant, "service": "Walk"}, {"service": "walk"}, {"tenant_id": "x", "service": "walk"},
	} {
		send(401, at+someInstall, usage, w.bearer(key, "", claims, now, time.Hour))
	}
	send(403, at+"x", usage, func(*http.Request) {})
	send(403, at+someInstall, `{"operation":"registerSchema","namespace":"a","schema":{}}`, w.bearer(key, "", map[string]any{"tenant_id": someTenant, "service": "walk"}, now, time.Hour))
	w.revokeInstall()
	w.refused(403, service.Main, w.to(service.Main, http.MethodGet, "/ext/v1/installs/"+someInstall+"/namespaces", ""))

	own, err := bearer.DerivedKeys([]string{someKey}, "guest")
	if err != nil {
		w.t.Fatal(err)
	}
	guest := func(claims map[string]any) func(*http.Request) {
		return w.bearer(own[0], "holdfast guest", claims, now, time.Hour)
	}
	const consume = "/internal/handoff/bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7B/consume"
	send(401, consume, `{"token":"t"}`, header("Authorization", ""))
	send(401, consume, `{"token":"t"}`, w.bearer(own[0], "holdfast buckets", map[string]any{"service": "walk"}, now, time.Hour))
	send(401, consume, `{"token":"t"}`, guest(map[string]any{"service": "Walk!"}))
	send(401, consume, `{"token":"t"}`, guest(map[string]any{"service": "walk", "events": true}))
	send(401, consume, `{"token":"t"}`, guest(map[string]any{"service": "walk", "tenant_id": 1}))
	send(401, consume, `{"token":"t"}`, guest(map[string]any{"service": "walk", "tenant_id": "x"}))
	send(403, consume, `{"token":"forged-token-of-a-handoff"}`, guest(map[string]any{"service": "walk"}))
	send(403, "/internal/events", `{}`, guest(map[string]any{"service": "walk"}))
}

// s3 returns a request that by signs.
func (w *refusedWalk) s3(by *sigv4test.Signer, method, path, body string, change ...func(*http.Request)) *http.Request {
	return w.to(buckets.Listener, method, path, body, func(r *http.Request) {
		unsigned(r)
		for _, c := range change {
			c(r)
		}
		if by != nil {
			by.Sign(r, sigv4test.Unsigned, time.Now())
		}
	})
}

func (w *refusedWalk) admin(path, body string) string {
	w.t.Helper()
	return w.must(&route{listener: service.Admin, method: http.MethodPost, path: path, body: body, media: jsonMedia})
}

// key makes an access key with limits.
func (w *refusedWalk) key(limits string) *sigv4test.Signer {
	w.t.Helper()
	var key struct{ AccessKey, SecretKey string }
	if text := w.admin("/buckets/keys/main/create", limits); json.Unmarshal([]byte(text), &key) != nil || key.SecretKey == "" {
		w.t.Fatal(text)
	}
	return &sigv4test.Signer{AccessKeyID: key.AccessKey, Secret: key.SecretKey, Region: "us-east-1"}
}

// set does a request to a bucket as its owner.
func (w *refusedWalk) set(method, path, body string, change ...func(*http.Request)) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	if w.listeners[buckets.Listener].ServeHTTP(rec, w.s3(&w.known, method, path, body, change...)); rec.Code >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
}

func (w *refusedWalk) refuseObjects() {
	const get, put = http.MethodGet, http.MethodPut
	known := &w.known
	send := func(by *sigv4test.Signer, method, path, body string, change ...func(*http.Request)) {
		w.t.Helper()
		w.refused(403, buckets.Listener, w.s3(by, method, path, body, change...))
	}
	send(nil, get, "/", "")
	send(nil, put, "/photos/a", "x")
	send(nil, get, "/nobucket/a", "")
	send(&w.other, get, "/main:nobucket/a", "")
	send(w.key(`{"bucket":["photos"]}`), get, "/nobucket/a", "")
	send(&w.other, put, "/main:photos/a", "x")
	send(known, put, "/other:new", "")
	send(w.key(`{"bucket":["photos"],"right":["read"]}`), put, "/photos/a", "x")
	send(w.key(`{"network":["10.0.0.0/8"]}`), get, "/photos/tagged", "")
	send(known, get, "/photos/tagged", "", header("X-Amz-Expected-Bucket-Owner", "111122223333"))
	send(known, put, "/photos?acl", "<AccessControlPolicy><Owner><ID>other</ID></Owner><AccessControlList></AccessControlList></AccessControlPolicy>")
	w.refused(403, buckets.Listener, w.s3(nil, http.MethodOptions, "/photos/a", "", header("Origin", "https://app.test"), header("Access-Control-Request-Method", get)),
		"buckets/s3api/cors.go request.preflight")

	public := func(effect, action, condition string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"` + effect + `","Principal":"*","Action":"` + action + `","Resource":"arn:aws:s3:::guarded/*"` + condition + `}]}`
	}
	w.set(put, "/guarded", "")
	w.set(put, "/guarded/a", "x")
	w.set(put, "/guarded?policy", public("Deny", "s3:GetObject", ""))
	send(known, get, "/guarded/a", "")
	w.set(put, "/guarded?policy", public("Allow", "s3:GetObject", `,"Condition":{"NumericGreaterThan":{"s3:signatureAge":"600000"}}`))
	link := w.s3(nil, get, "/guarded/a", "")
	w.known.PresignVersion2(link, "", time.Now().Add(time.Minute))
	w.refused(403, buckets.Listener, link)
	w.set(put, "/guarded?policy", public("Allow", "s3:GetObject", ""))
	block := func(name string) {
		w.t.Helper()
		w.set(put, "/guarded?publicAccessBlock", "<PublicAccessBlockConfiguration><"+name+">true</"+name+"></PublicAccessBlockConfiguration>")
	}
	block("RestrictPublicBuckets")
	send(nil, get, "/main:guarded/a", "")
	block("BlockPublicPolicy")
	w.refused(403, buckets.Listener, w.s3(known, put, "/guarded?policy", public("Allow", "s3:GetObject", "")), "buckets/s3api/publicaccess.go errPublicPolicy")
	block("BlockPublicAcls")
	w.refused(403, buckets.Listener, w.s3(known, put, "/guarded?acl", "", header("X-Amz-Acl", "public-read")), "buckets/s3api/publicaccess.go errPublicACL")
	send(&w.other, put, "/main:guarded?logging", "<BucketLoggingStatus></BucketLoggingStatus>")

	w.set(put, "/locked", "", header("X-Amz-Bucket-Object-Lock-Enabled", "true"))
	w.set(put, "/locked/a", "x", header("X-Amz-Object-Lock-Mode", "COMPLIANCE"), header("Content-MD5", "ndTkYSaMgDT1yFZOFVxnpg=="), header("X-Amz-Object-Lock-Retain-Until-Date", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	rec := httptest.NewRecorder()
	w.listeners[buckets.Listener].ServeHTTP(rec, w.s3(known, http.MethodHead, "/locked/a", ""))
	version := rec.Header().Get("X-Amz-Version-Id")
	w.refused(403, buckets.Listener, w.s3(known, http.MethodDelete, "/locked/a?versionId="+version, ""), "buckets/lock.go LockedError.ErrorCode", "buckets/s3api/errors.go asError")
	w.admin("/buckets/quotas/main/set", `{"bytes":"1"}`)
	w.refused(403, buckets.Listener, w.s3(known, put, "/photos/large", "large"), "buckets/s3api/errors.go asError Status")
	w.admin("/buckets/quotas/main/set", `{"bytes":"none"}`)
}

func (w *refusedWalk) refuseSignatures() {
	const kinds, get = "auth/sigv4/errors.go kinds ", http.MethodGet
	send := func(kind string, r *http.Request) {
		w.t.Helper()
		w.refused(403, buckets.Listener, r, kinds+kind, "buckets/s3api/errors.go ofSignature")
	}
	at := func(method string, ago time.Duration, presign bool) *http.Request {
		r := w.s3(nil, method, "/photos/tagged", "")
		if presign {
			w.known.Presign(r, time.Minute, time.Now().Add(ago))
		} else {
			w.known.Sign(r, sigv4test.Unsigned, time.Now().Add(ago))
		}
		return r
	}
	old := func(key *sigv4test.Signer, expires time.Duration) *http.Request {
		r := w.s3(nil, get, "/photos/tagged", "")
		key.PresignVersion2(r, "", time.Now().Add(expires))
		return r
	}
	wrong, unknown := w.known, w.known
	wrong.Secret, unknown.AccessKeyID = "wrong-secret-of-a-key", "HFUNKNOWN"
	send("Mismatch", w.s3(&wrong, get, "/photos/tagged", ""))
	send("UnknownKey", w.s3(&unknown, get, "/photos/tagged", ""))
	r := at(get, 0, false)
	r.Header.Del("X-Amz-Date")
	send("MissingDate", r)
	r = at(get, 0, false)
	r.Header.Set("X-Amz-Meta-A", "b")
	send("UnsignedHeader", r)
	send("TimeTooSkewed", at(get, -time.Hour, false))
	send("NotYetValid", at(get, time.Hour, true))
	send("Expired", at(get, -2*time.Minute, true))
	send("ExpiresTooLate", old(&w.known, 9*24*time.Hour))
	r = old(&w.known, time.Minute)
	r.URL.RawQuery += "&inventory=a"
	send("UnsignedParameter", r)
	w.refused(403, buckets.Listener, old(w.key(`{"bucket":["photos"]}`), time.Minute))
	send("PolicyExpired", w.form(-time.Hour, map[string]string{"key": "f"}))
	send("PolicyConditionFailed", w.form(time.Hour, map[string]string{"key": "f"}, `["starts-with", "$key", "user/"]`))
	send("PolicyConditionMissing", w.form(time.Hour, map[string]string{"key": "f", "x-amz-meta-a": "b"}))
}

// form is a form upload whose policy covers the field key.
func (w *refusedWalk) form(ends time.Duration, fields map[string]string, conditions ...string) *http.Request {
	now := time.Now()
	all := append([]string{`{"bucket": "photos"}`, `{"key": "f"}`, w.known.FormConditions(now)}, conditions...)
	signed := maps.Clone(fields)
	w.known.SignForm(signed, `{"expiration": "`+now.Add(ends).UTC().Format("2006-01-02T15:04:05.000Z")+`", "conditions": [`+strings.Join(all, ", ")+`]}`, now)
	w.secrets[signed["x-amz-signature"]] = true
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for name, value := range signed {
		if err := m.WriteField(name, value); err != nil {
			w.t.Fatal(err)
		}
	}
	part, err := m.CreateFormFile("file", "a.txt")
	if err == nil {
		_, err = part.Write([]byte("x"))
	}
	if err != nil || m.Close() != nil {
		w.t.Fatal(err)
	}
	r := w.s3(nil, http.MethodPost, "/photos", body.String())
	r.Header.Set("Content-Type", m.FormDataContentType())
	return r
}

func (w *refusedWalk) refuseNative() {
	const at = "/buckets/v1/accounts/main/buckets/"
	own, err := bearer.DerivedKeys([]string{someKey}, "buckets")
	if err != nil {
		w.t.Fatal(err)
	}
	account := regexp.MustCompile(`<ID>([^<]+)</ID>`).FindStringSubmatch(w.must(&route{listener: buckets.Listener, method: http.MethodGet, path: "/"}))[1]
	token := func(claims map[string]any) func(*http.Request) {
		return w.bearer(own[0], "holdfast buckets", claims, time.Now(), time.Hour)
	}
	send := func(status int, method, path, body string, change func(*http.Request), places ...string) {
		w.t.Helper()
		w.refused(status, service.Main, w.to(service.Main, method, path, body, change), places...)
	}
	same := func(*http.Request) {}
	send(401, http.MethodGet, at+"photos", "", header("Authorization", ""), "buckets/httpapi/auth.go unauthenticated")
	send(401, http.MethodGet, at+"photos", "", token(map[string]any{"sub": account}))
	send(403, http.MethodGet, "/buckets/v1/accounts/other/buckets/photos", "", same)
	send(403, http.MethodPost, "/buckets/v1/gc/batches", "", token(map[string]any{"sub": account, "account": "main"}))
	send(401, http.MethodPut, "/buckets/v1/accounts/gone/buckets/photos", "", token(map[string]any{"sub": "99999999-2222-4333-8444-000000000009", "account": "gone"}), "buckets/httpapi/handler.go errGone")
	w.set(http.MethodPut, "/guarded?publicAccessBlock", "<PublicAccessBlockConfiguration></PublicAccessBlockConfiguration>")
	w.set(http.MethodPut, "/guarded?policy", `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::guarded/*"}]}`)
	send(403, http.MethodGet, at+"guarded/objects/a", "", same)
	w.admin("/buckets/quotas/main/set", `{"bytes":"1"}`)
	send(403, http.MethodPut, at+"photos/objects/large", "large", same)
	w.admin("/buckets/quotas/main/set", `{"bytes":"none"}`)
	version := regexp.MustCompile(`"version":"?([^",}]+)`).FindStringSubmatch(w.must(&route{listener: service.Main, method: http.MethodGet, path: at + "locked/versions"}))
	if version == nil {
		w.t.Fatal("no version")
	}
	send(403, http.MethodDelete, at+"locked/objects/a?version="+url.QueryEscape(version[1]), "", same, "buckets/httpapi/errors.go asRefusal")
}

const refusedBrowser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// asBrowser adds a browser's headers, so that the request does not look like a bot's.
func asBrowser(r *http.Request) {
	for name, value := range map[string]string{"User-Agent": refusedBrowser, "Accept-Language": "de", "Accept": "*/*", "Accept-Encoding": "gzip"} {
		r.Header.Set(name, value)
	}
}

func (w *refusedWalk) refuseGuests() {
	const api = "/bff/consumer/v1"
	const mint, stay = api + "/handoff/" + someTenant + "/22222222-2222-4333-8444-555555555555", `{"checkIn":"2036-12-30","checkOut":"2037-01-02","adults":2,"children":1}`
	const known = "guest/httpapi/errors.go known"
	send := func(status int, method, path, body string, change ...func(*http.Request)) {
		w.t.Helper()
		w.refused(status, service.Main, w.to(service.Main, method, path, body, change...))
	}
	patch := func(status int, change ...func(*http.Request)) {
		w.t.Helper()
		send(status, http.MethodPatch, api+"/session/preferences", `{"locale":"de-AT"}`, change...)
	}
	patch(401, header("Cookie", ""))
	patch(401, header("Cookie", ""), header("X-Session-Mode", "bearer"))
	patch(401, header("Cookie", "gms=forged-cookie-of-a-guest"))
	patch(403, header("Sec-Fetch-Site", "cross-site"))
	send(403, http.MethodGet, api+"/user/sessions", "")
	key := bearer.Key{Alg: bearer.HS256, Text: refusedUserKey}
	link := func(status int, sub, session, id string, key bearer.Key) *httptest.ResponseRecorder {
		w.t.Helper()
		ring, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{key}})
		if err != nil {
			w.t.Fatal(err)
		}
		token, err := ring.Sign(map[string]any{"sub": sub, "aud": "holdfast-guest"}, time.Now(), time.Minute)
		if err != nil {
			w.t.Fatal(err)
		}
		w.secrets[token] = true
		r := w.to(service.Main, http.MethodPost, api+"/session/link", `{"token":"`+token+`"}`, header("Cookie", "gms="+session), header("Idempotency-Key", id))
		if status < 300 {
			rec := httptest.NewRecorder()
			if w.listeners[service.Main].ServeHTTP(rec, r); rec.Code != status {
				w.t.Fatal(rec.Code, rec.Body)
			}
			return rec
		}
		return w.refused(status, service.Main, r)
	}
	link(403, "u 1", w.guest, `"link-1"`, key)
	link(403, "u-1", w.guest, `"link-2"`, bearer.Key{Alg: bearer.HS256, Text: strings.Repeat("x", 32)})
	visitor := w.cookie(service.Main, http.MethodPost, api+"/session")

	rec := httptest.NewRecorder()
	w.listeners[service.Main].ServeHTTP(rec, w.to(service.Main, http.MethodPost, mint, stay, asBrowser))
	var minted struct{ HandoffID, Token string }
	if err := json.Unmarshal(rec.Body.Bytes(), &minted); err != nil || rec.Code != http.StatusCreated {
		w.t.Fatal(rec.Code, rec.Body)
	}
	w.refused(403, service.Internal, w.to(service.Internal, http.MethodPost, "/internal/handoff/"+minted.HandoffID+"/verify", `{"token":"`+minted.Token+`","guest":{"userAgent":"other","acceptLanguage":"de"}}`))
	send(403, http.MethodPost, mint, stay)
	w.listeners[service.Main].ServeHTTP(httptest.NewRecorder(), w.to(service.Main, http.MethodGet, api+"/offers/archive", ""))
	send(403, http.MethodPost, mint, stay)
	w.admin("/guest/tenants/"+someTenant+"/suspend", `{"reason":"test"}`)
	send(403, http.MethodPost, mint, stay, asBrowser)

	linked := link(200, "u-2", visitor, `"link-3"`, key).Result().Cookies()
	if len(linked) == 0 {
		w.t.Fatal("no cookie")
	}
	w.listeners[service.Main].ServeHTTP(httptest.NewRecorder(), w.to(service.Main, http.MethodDelete, api+"/session/link", "", header("Cookie", "gms="+linked[0].Value)))
	link(403, "u-2", visitor, `"link-3"`, key)
	w.named[known], w.named["guest/httpapi/errors.go asRefusal"] = true, true
}

func (w *refusedWalk) refuseOperators() {
	const admin = service.Admin
	get := func(path string, change ...func(*http.Request)) *http.Request {
		return w.to(admin, http.MethodGet, path, "", change...)
	}
	post := func(path, form string, change ...func(*http.Request)) *http.Request {
		return w.to(admin, http.MethodPost, path, form, append([]func(*http.Request){header("Content-Type", formMedia)}, change...)...)
	}
	w.refused(401, admin, get("/version", header("Authorization", "")), "app/handlers.go refuseToken", "app/handlers.go App.logNoToken")
	w.refused(401, admin, get("/version", header("Authorization", "Bearer wrong-admin-token")), "app/handlers.go App.withToken")
	w.refused(401, admin, get("/no/such/page", header("Authorization", ""), header("Accept", "text/html")), "app/handlers.go adminHandler.toConsole")

	const signIn = "app/console/signin.go exchange."
	w.refused(403, admin, get("/console/", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }))
	w.refused(403, admin, post("/console/sign-out", "", header("Origin", "https://app.test")))
	w.refused(403, admin, post("/console/sign-out", "csrf=wrong"))
	w.refused(403, admin, post("/console/sign-out", "", header("Cookie", "")))
	w.refused(401, admin, get("/console/log", header("Cookie", ""), header("HX-Request", "true")), "app/console/console.go exchange.unknown")
	w.secrets["wrong-token-of-a-form"] = true
	w.refused(403, admin, post("/console/sign-in", "token=wrong-token-of-a-form", header("Cookie", "")), signIn+"signIn")
	w.refused(403, admin, get("/console/sign-in?link=used-link-of-a-test", header("Cookie", "")), signIn+"followLink")
	w.app.console.SetViewerToken(refusedViewer)
	rec := httptest.NewRecorder()
	w.listeners[admin].ServeHTTP(rec, post("/console/sign-in", "token="+refusedViewer, header("Cookie", "")))
	viewer := rec.Result().Cookies()
	if len(viewer) == 0 {
		w.t.Fatal(rec.Code, rec.Body)
	}
	asViewer := header("Cookie", "holdfast-console="+viewer[0].Value)
	role, access := 0, 0
	for i := range w.app.console.Sections {
		s := &w.app.console.Sections[i]
		for j := range s.Pages {
			p := &s.Pages[j]
			path := "/console/" + strings.TrimPrefix(s.Name+"/"+p.Path, "/")
			if rec := w.peek(get(path, asViewer)); rec.Code == 403 && access == 0 {
				access++
				w.refused(403, admin, get(path, asViewer))
			} else if rec.Code == 200 && role == 0 && len(p.Actions) > 0 && !p.Actions[0].Reads {
				role++
				w.refused(403, admin, post(path+"?do="+url.QueryEscape(p.Actions[0].Name), "", asViewer))
			}
		}
	}
	if role+access != 2 {
		w.t.Errorf("%d %d", role, access)
	}
}

func (w *refusedWalk) peek(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.listeners[service.Admin].ServeHTTP(rec, r)
	return rec
}
