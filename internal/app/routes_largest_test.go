package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/buckets"
	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/buckets/s3api"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

const (
	someTenant  = "11111111-2222-4333-8444-555555555555"
	someInstall = "99999999-2222-4333-8444-555555555555"
	someKey     = "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"

	jsonMedia = "application/json"
	formMedia = "application/x-www-form-urlencoded"

	longName = 900 // bytes per name in lists
)

func openCharged(t *testing.T) *chargedWalk {
	t.Helper()
	w := &chargedWalk{tokens: map[string]string{}}
	w.walk = openWalk(t, "request_memory = 2000000000\nmax_requests = 64\nmaster_secret = \""+strings.Repeat("m", 32)+"\"", "[buckets]\ngarbage_after = \"0s\"\nkey_secret = \""+someKey+"\"\n")
	w.authorize()
	w.fillBuckets()
	w.fillSync()
	w.fillExtensions()
	for i := range 100 {
		w.must(&route{listener: service.Main, method: http.MethodPost, path: "/bff/consumer/v1/wishlist", media: jsonMedia,
			body: fmt.Sprintf(`{"tenantId":%q,"propertyId":"22222222-2222-4222-8222-%012d","source":"list","note":%q}`, someTenant, i, strings.Repeat("n", 100))})
	}
	return w
}

func (w *chargedWalk) authorize() {
	w.t.Helper()
	sign := func(prefix, audience string, claims map[string]any, keys ...bearer.Key) {
		ring, err := bearer.NewKeyring(bearer.Options{Keys: keys, Audience: audience, MaxLifetime: 24 * time.Hour})
		if err != nil {
			w.t.Fatal(err)
		}
		if w.tokens[prefix], err = ring.Sign(claims, time.Now(), time.Hour); err != nil {
			w.t.Fatal(err)
		}
	}
	own := func(name, secret string) bearer.Key {
		keys, err := bearer.DerivedKeys([]string{secret}, name)
		if err != nil {
			w.t.Fatal(err)
		}
		return keys[0]
	}
	extKey := bearer.Key{ID: ext.OwnTokenKey(strings.Repeat("t", 32)), Alg: bearer.HS256, Text: strings.Repeat("t", 32)}
	sign("/ext/v1/", "", map[string]any{"tenant_id": someTenant, "install_id": someInstall, "ns": map[string]string{"a": "rw", "b": "rw"}}, extKey)
	sign("/internal/ext-storage/", "", map[string]any{"tenant_id": someTenant, "service": "walk", "schemas": true}, extKey)
	sign("/internal/handoff/", "holdfast guest", map[string]any{"service": "walk"}, own("guest", someKey))
	sign("/internal/events", "holdfast guest", map[string]any{"service": "walk", "events": true}, own("guest", someKey))
	var account string
	for _, owner := range regexp.MustCompile(`<ID>([^<]+)</ID>`).FindAllStringSubmatch(w.must(&route{listener: buckets.Listener, method: http.MethodGet, path: "/"}), 1) {
		account = owner[1]
	}
	sign("/buckets/v1/", "holdfast buckets", map[string]any{"sub": account, "account": "main", "gc": true}, own("buckets", someKey))

	ring, err := tokenlib.NewKeyring(strings.Repeat("m", 32))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.hawkID, w.hawkKey, err = ring.Mint(tokenlib.Claims{UID: 1, Expires: time.Now().Add(time.Hour)}); err != nil {
		w.t.Fatal(err)
	}
	w.guest = w.cookie(service.Main, http.MethodPost, "/bff/consumer/v1/session")
	w.operator = w.cookie(service.Admin, http.MethodGet, w.app.console.NewLink())
}

func (w *chargedWalk) cookie(listener, method, path string) string {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.listeners[listener].ServeHTTP(rec, w.request(&route{listener: listener, method: method, path: path}, false, nil))
	for _, c := range rec.Result().Cookies() {
		return c.Value
	}
	w.t.Fatalf("%s %s: status %d without a cookie", method, path, rec.Code)
	return ""
}

func (w *chargedWalk) must(r *route) string {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.listeners[r.listener].ServeHTTP(rec, w.request(r, false, nil))
	if rec.Code >= 300 {
		w.t.Fatalf("%s: %d %s", r, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func (w *chargedWalk) fillBuckets() {
	w.t.Helper()
	s3 := func(method, path, body string) string {
		return w.must(&route{listener: buckets.Listener, method: method, path: path, body: body})
	}
	for i := range 200 {
		name := fmt.Sprintf("%06d", i) + strings.Repeat("x", longName)
		s3(http.MethodPut, "/photos/"+name, "")
		s3(http.MethodPut, "/photos/doomed"+name, "")
		s3(http.MethodDelete, "/photos/doomed"+name, "")
		s3(http.MethodPost, "/photos/"+name+"?uploads", "")
	}
	s3(http.MethodPut, "/photos?cors", largestCORS())
	s3(http.MethodPut, "/photos?tagging", tags(50, 250))
	s3(http.MethodPut, "/photos/tagged", "")
	s3(http.MethodPut, "/photos/tagged?tagging", tags(10, 250))
	for i := range 24 {
		path := fmt.Sprintf("/bucket-%02d", i)
		s3(http.MethodPut, path, "")
		s3(http.MethodPut, path+"?cors", largestCORS())
	}
	var batch struct {
		ID string `json:"batch_id"`
	}
	claimed := w.must(&route{listener: service.Main, method: http.MethodPost, path: "/buckets/v1/gc/batches"})
	if err := json.Unmarshal([]byte(claimed), &batch); err != nil || batch.ID == "" {
		w.t.Fatalf("%v: no batch in %d bytes", err, len(claimed))
	}
	w.batch = batch.ID
	w.uploadID = regexp.MustCompile("<UploadId>(.*)</UploadId>").FindStringSubmatch(s3(http.MethodPost, "/photos/parts?uploads", ""))[1]
	for i := range 300 {
		s3(http.MethodPut, fmt.Sprintf("/photos/parts?partNumber=%d&uploadId=%s", i+1, w.uploadID), "x")
	}
}

func largestCORS() string {
	rule := "<CORSRule><AllowedMethod>GET</AllowedMethod>" + strings.Repeat("<AllowedOrigin>https://example.com</AllowedOrigin>", 12) + "</CORSRule>"
	return "<CORSConfiguration>" + strings.Repeat(rule, 95) + "</CORSConfiguration>"
}

func tags(n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<Tag><Key>%03d</Key><Value>%s</Value></Tag>", i, strings.Repeat("v", size))
	}
	return "<Tagging><TagSet>" + b.String() + "</TagSet></Tagging>"
}

func (w *chargedWalk) fillSync() {
	w.t.Helper()
	for range 2 {
		w.must(&route{listener: service.Main, method: http.MethodPost, path: "/1.5/1/storage/bookmarks", body: records(100), media: jsonMedia})
	}
	for i := range 50 {
		w.must(&route{listener: service.Main, method: http.MethodPost, path: fmt.Sprintf("/1.5/1/storage/collection%d", i), body: records(1), media: jsonMedia})
	}
}

func records(n int) string {
	all := make([]map[string]any, n)
	for i := range all {
		all[i] = map[string]any{"id": fmt.Sprintf("record-%d", i), "payload": strings.Repeat("p", 10_000)}
	}
	text, _ := json.Marshal(all)
	return string(text)
}

func items(n int) string {
	all := make([]map[string]any, n)
	for i := range all {
		all[i] = map[string]any{"key": fmt.Sprintf("record-%d", i), "namespace": "a", "op": "put", "value": map[string]any{"text": strings.Repeat("v", 5_000)}}
	}
	text, _ := json.Marshal(map[string]any{"items": all})
	return string(text)
}

func (w *chargedWalk) fillExtensions() {
	w.t.Helper()
	for i := range 100 {
		w.must(&route{listener: service.Main, method: http.MethodPut, path: fmt.Sprintf("/ext/v1/installs/%s/namespaces/a/records/%03d", someInstall, i),
			body: `{"value":{"text":"` + strings.Repeat("v", 5_000) + `"}}`, media: jsonMedia})
	}
}

func (w *chargedWalk) routes() []route {
	w.t.Helper()
	all := slices.Concat(w.described(), w.s3(), w.sync(), w.demo(), w.operators())
	order := func(r route) int {
		return slices.Index([]string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete}, r.method)
	}
	slices.SortStableFunc(all, func(a, b route) int { return cmp.Compare(order(a), order(b)) })
	return all
}

// demo returns the demo's routes, which no API description contains.
func (w *chargedWalk) demo() (all []route) {
	for path, body := range map[string]string{
		"/arrivals": `{"handoffId":"x","token":"` + strings.Repeat("t", 10_000) + `","attempt":"x"}`, "/suspension": `{"tenantId":"` + someTenant + `"}`, "/hot-state": "", "/live": "",
		"": "", "/booking": "", "/demo.js": "", "/demo.css": "", "/pictures/vienna-0.svg": "",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			all = append(all, route{service.Main, method, "/guest/demo" + path, body, jsonMedia, 0, ""})
		}
	}
	return all
}

// wantEachRoute fails for declared routes that the walk lacks. TestOperations compares operations with the API
// descriptions.
func (w *chargedWalk) wantEachRoute(all []route) {
	w.t.Helper()
	walked := func(m *service.Mount, one web.Route) bool {
		return slices.ContainsFunc(all, func(r route) bool {
			path, _, _ := strings.Cut(r.path, "?")
			return r.listener == m.Listener && (r.method == one.Method || r.method == http.MethodGet && one.Method == http.MethodHead) && m.Owns(path) && m.Route(path) == one.Label
		})
	}
	for _, s := range w.app.opened {
		for i := range s.Mounts {
			m := &s.Mounts[i]
			if m.Listener == service.Admin {
				continue
			}
			if len(m.Routes) == 0 {
				w.t.Errorf("%s on the listener %s: web.Service.Routes is empty", s.Name, m.Listener)
			}
			for _, one := range m.Routes {
				if !walked(m, one) {
					w.t.Errorf("%s on the listener %s: the walk has no %s %s", s.Name, m.Listener, one.Method, one.Label)
				}
			}
		}
	}
}

var describedAPIs = []string{
	"../extstorage/httpapi/openapi.json", "../buckets/httpapi/openapi.json", "../guest/httpapi/openapi.json", "../tokenserver/httpapi/openapi-admin.json",
	"../syncstorage/httpapi/openapi-admin.json", "../buckets/httpapi/openapi-admin.json", "../extstorage/httpapi/openapi-admin.json", "openapi-admin.json",
}

var filler = strings.NewReplacer("{account}", "main", "{bucket}", "photos", "{object}", "tagged", "{install}", someInstall, "{namespace}", "a",
	"{key}", "001", "{version}", "1", "{propertyId}", "22222222-2222-4222-8222-000000000001", "{tenantId}", someTenant, "{country}", "AT", "{region}", "Vienna",
	"{srsId}", "srs_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", "{id}", "bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", "{event}", someTenant, "{job}", "purge", "{session}", "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B",
	"{node}", "https:%2F%2Fsync.example.org", "{uid}", "1", "{tenant}", someTenant, "{seq}", "1", "{run}", "unknown", "{service}", "unknown")

func (w *chargedWalk) described() (all []route) {
	for _, name := range describedAPIs {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			w.t.Fatal(err)
		}
		var document struct {
			Paths map[string]map[string]json.RawMessage `json:"paths"`
		}
		if err := json.Unmarshal(text, &document); err != nil {
			w.t.Fatal(err)
		}
		for template, methods := range document.Paths {
			for method := range methods {
				if method = strings.ToUpper(method); !slices.Contains([]string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"}, method) {
					continue
				}
				r := route{method: method, path: filler.Replace(template), media: jsonMedia}
				r.body, r.least = largestOf(method, template)
				switch {
				case strings.HasPrefix(r.path, "/internal/"):
					r.listener = service.Internal
				case strings.HasPrefix(r.path, "/guest/"), strings.HasSuffix(name, "-admin.json"):
					r.listener = service.Admin
				default:
					r.listener = service.Main
				}
				r.path = strings.Replace(r.path, "{batch}", w.batch, 1)
				all = append(all, r)
				if method == http.MethodPut {
					r.condition = "*"
					all = append(all, r)
				}
				if longer := longerBy[template]; longer.query != "" && method == http.MethodGet {
					r.path, r.least = r.path+longer.query, longer.least
					all = append(all, r)
				}
			}
		}
	}
	return all
}

var longerBy = map[string]struct {
	query string
	least int
}{
	"/buckets/v1/accounts/{account}/buckets/{bucket}/objects":   {"?metadata=true", 50 << 10},
	"/ext/v1/installs/{install}/namespaces/{namespace}/records": {"?values=true", 25 * 5_000},
}

// largestOf returns a described route's largest body, and its response's minimum length.
func largestOf(method, template string) (body string, least int) {
	many := `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"page":"home"},`, 100), ",") + `]}`
	switch method + " " + template[strings.LastIndexByte(strings.TrimSuffix(template, "/"), '/'):] {
	case "GET /buckets":
		return "", 2 << 10
	case "GET /objects":
		return "", 200 * longName
	case "GET /{batch}":
		return "", 200 * longName
	case "GET /changes":
		if strings.Contains(template, "/installs/") { // records; the operators' change log is short here
			return "", 100 * 50
		}
	case "GET /export":
		switch {
		case strings.Contains(template, "/installs/"):
			return "", 100 * 5_000
		case strings.Contains(template, "/users/"):
			return "", 150 * 10_000
		}
		return "", 0 // few keys and schemas, and an account that never signed in
	case "GET /wishlist":
		return "", 100 * 100
	case "POST /records", "POST /batch":
		return items(100), 0
	case "POST /search", "POST /map":
		return `{"country":"AT","region":"Vienna","pageSize":50}`, 1 << 10
	case "POST /page-view", "POST /funnel":
		return many, 0
	case "PATCH /{object}":
		return `{"properties":{"text":"` + strings.Repeat("v", 8000) + `"}}`, 8000
	}
	return `{"value":{"text":"` + strings.Repeat("v", 200_000) + `"}}`, 0
}

func (w *chargedWalk) s3() []route {
	all := []route{{listener: buckets.Listener, method: http.MethodGet, path: "/", least: 2 << 10}}
	for _, of := range s3api.Routes() {
		r := route{listener: buckets.Listener, method: of.Method, path: "/photos", media: "application/xml"}
		if of.OfObject {
			r.path += "/tagged"
		}
		switch of.Method {
		case http.MethodPut, http.MethodPost:
			r.body = strings.Repeat("x", 300<<10)
		case http.MethodDelete:
			r.path += "-gone"
		}
		if of.Parameter != "" {
			r.path += "?" + of.Parameter
		}
		switch of.Method + " " + of.Parameter {
		case "GET uploadId":
			r.path, r.least = "/photos/parts?uploadId="+w.uploadID, 300*100
		case "PUT uploadId":
			r.path = "/photos/parts?partNumber=1&uploadId=" + w.uploadID
		case "POST uploadId":
			r.path, r.body = "/photos/parts?uploadId="+w.uploadID, completion(10_000)
		case "GET uploads", "GET versions":
			r.least = 200 * longName
		case "GET cors":
			r.least = 50 << 10
		case "PUT cors":
			r.body = largestCORS()
		case "GET tagging":
			r.least = 10 * 250
		case "PUT tagging":
			r.body = tags(len(r.path)/len("/photos/tagged?tagging")*10, 250)
		case "POST delete":
			r.body, r.least = deletion(1000), 1000
		case "GET ":
			if !of.OfObject {
				r.least = 200 * longName
			}
		}
		all = append(all, r)
		if of.Method == http.MethodPut && of.OfObject && of.Parameter == "" {
			r.condition = "*"
			all = append(all, r)
		}
	}
	return all
}

func completion(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<Part><ETag>"0123456789abcdef0123456789abcdef"</ETag><PartNumber>%d</PartNumber></Part>`, i+1)
	}
	return "<CompleteMultipartUpload>" + b.String() + "</CompleteMultipartUpload>"
}

func deletion(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<Object><Key>%s%06d</Key></Object>", strings.Repeat("&quot;", 300), i)
	}
	return "<Delete>" + b.String() + "</Delete>"
}

func (w *chargedWalk) sync() (all []route) {
	add := func(method, path, body string, least int) {
		all = append(all, route{service.Main, method, path, body, jsonMedia, least, ""})
	}
	for path, least := range map[string]int{"info/collections": 50 * 10, "info/collection_counts": 50 * 10, "info/collection_usage": 50 * 10, "info/quota": 0, "info/configuration": 0} {
		add(http.MethodGet, "/1.5/1/"+path, "", least)
	}
	const c = "/1.5/1/storage/bookmarks"
	add(http.MethodGet, c, "", 100*9)
	add(http.MethodGet, c+"?full=1", "", 100*10_000)
	add(http.MethodGet, c+"/record-1", "", 10_000)
	add(http.MethodPost, c, records(100), 0)
	add(http.MethodPut, c+"/record-1", `{"payload":"`+strings.Repeat("p", 500_000)+`"}`, 0)
	add(http.MethodDelete, c+"/record-1", "", 0)
	add(http.MethodDelete, c, "", 0)
	add(http.MethodDelete, "/1.5/1/storage", "", 0)
	add(http.MethodDelete, "/1.5/1", "", 0)
	add(http.MethodGet, "/1.0/sync/1.5", "", 0)
	add(http.MethodGet, "/.well-known/fxa-client-configuration", "", 0)
	add(http.MethodPost, "/1.0/webhooks/fxa/events", strings.Repeat("x", 100_000), 0)
	for _, path := range []string{"/", "/__version__", "/__heartbeat__", "/__lbheartbeat__", "/robots.txt", "/unknown"} {
		add(http.MethodGet, path, "", 0)
		add(http.MethodPost, path, strings.Repeat("x", 100_000), 0)
	}
	return all
}

func (w *chargedWalk) operators() (all []route) {
	add := func(method, path, body, media string) {
		all = append(all, route{service.Admin, method, path, body, media, 0, ""})
	}
	for _, path := range []string{
		"/livez", "/readyz", "/metrics", "/version", "/read-only", "/__error__", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine", "/debug/pprof/cmdline", "/debug/pprof/symbol",
		"/unknown",
	} {
		add(http.MethodGet, path, "", "")
		if path != "/readyz" {
			add(http.MethodPost, path, strings.Repeat("x", 100_000), jsonMedia)
		}
	}
	all = append(all, route{service.Internal, http.MethodPost, "/internal/ext-storage/install/" + someInstall, items(100), jsonMedia, 0, ""})
	return append(all, w.pages()...)
}

func (w *chargedWalk) pages() (all []route) {
	w.t.Helper()
	for _, path := range w.app.consolePaths() {
		all = append(all, route{service.Admin, http.MethodGet, path, "", "", 0, ""}, route{service.Admin, http.MethodPost, path, "csrf=x&value=" + strings.Repeat("x", 60_000), formMedia, 0, ""})
	}
	form := w.must(&route{listener: service.Admin, method: http.MethodGet, path: "/console/read-only"})
	csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(form)
	if csrf == nil {
		w.t.Fatalf("no CSRF token: %s", form)
	}
	body := "csrf=" + csrf[1] + "&document=" + strings.Repeat("%22", 300_000)
	for _, field := range []string{"account", "key", "name", "namespace", "namespaces", "note", "prefix", "quota", "reason", "service", "tenant", "token", "ttl", "value"} {
		body += "&" + field + "=" + strings.Repeat("%22", 3_000)
	}
	for i := range w.app.console.Sections {
		s := &w.app.console.Sections[i]
		for j := range s.Pages {
			for _, action := range s.Pages[j].Actions {
				if action.Name == "end-all" {
					continue // it would end the session
				}
				all = append(all, route{service.Admin, http.MethodPost, consolePath(s, &s.Pages[j]) + "?do=" + action.Name, body, formMedia, 0, ""})
			}
		}
	}
	return all
}

func (a *App) consolePaths() []string {
	all := []string{"/console", "/console/", "/console/sign-in", "/console/static/x", "/console/unknown", "/console/choices?in=buckets&kind=folder&field=to-folder&account=main&bucket=photos"}
	for i := range a.console.Sections {
		s := &a.console.Sections[i]
		for j := range s.Pages {
			all = append(all, consolePath(s, &s.Pages[j]))
		}
	}
	return all
}

func consolePath(s *console.Section, p *service.Page) string {
	path := console.Prefix
	if s.Name != "" {
		path += s.Name + "/"
	}
	return path + p.Path
}
