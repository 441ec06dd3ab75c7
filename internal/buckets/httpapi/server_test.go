package httpapi_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/buckets/httpapi"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/s3api"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/openapitest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

const (
	inline = 8 // bytes; larger bodies are on storage nodes
	hello  = "hello, native world"
	grace  = time.Hour
)

type backend interface {
	buckets.Store
	buckets.Versions
	buckets.Uploads
	buckets.Collector
	buckets.References
	buckets.Counters
	buckets.Accounts
	buckets.Nodes
	buckets.Events
}

// engines are for tests of engine-specific encodings.
var engines = map[string]func(testing.TB) backend{
	"sqlite": openStore,
	"postgres": func(t testing.TB) backend {
		return postgres.New(opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations))
	},
}

func openStore(t testing.TB) backend {
	return sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations))
}

func onEachEngine(t *testing.T, fn func(*testing.T, *server)) {
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveOn(t, open(t), web.Options{})
			s.do("PUT", photos, "").is(201)
			fn(t, s)
		})
	}
}

// server is both APIs on a store and two storage nodes, with the accounts main and other. Its clock moves only with the
// test. Native API responses are checked against the API description. A 5xx fails the test, unless the test passes its
// own log.
type server struct {
	t       testing.TB
	url, s3 string
	store   backend
	service *buckets.Service
	cluster *blobs.Cluster
	clock   *clock.Manual
	tokens  *bearer.Keyring
	client  *http.Client
	folders []string

	main, other buckets.Account
	signer      sigv4test.Signer
	token       string
}

func serve(t testing.TB, with ...web.Options) *server {
	t.Helper()
	return serveOn(t, openStore(t), append(with, web.Options{})[0])
}

func serveOn(t testing.TB, st backend, o web.Options) *server {
	t.Helper()
	s := &server{t: t, store: st, cluster: blobs.NewCluster(blobs.Options{Clock: time.Now}), clock: clock.NewManual(time.Now().Truncate(time.Second))}
	var nodes []blobs.Node
	for _, id := range []string{"home:1", "home:2"} {
		folder := t.TempDir()
		s.folders = append(s.folders, folder)
		if err := filedriver.Init(folder, id); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, blobs.Node{ID: id, State: buckets.NodeActive, Driver: filedriver.New(folder, id)})
	}
	s.cluster.Set(nodes...)
	s.cluster.Refresh(t.Context())
	t.Cleanup(func() {
		if err := s.cluster.Wait(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.service = buckets.NewService(buckets.Options{
		Backend: st, Bodies: s.cluster, Clock: s.clock.Now,
		Limits: buckets.Limits{Inline: inline, MinPart: 1, GarbageAfter: grace},
	})
	s.main, s.other = s.account("main"), s.account("other")
	keys, err := buckets.NewKeyring(st, s.clock.Now, strings.Repeat("s", 32), nil)
	if err != nil {
		t.Fatal(err)
	}
	id, secret, err := keys.Create(t.Context(), s.main.ID, buckets.KeyTerms{})
	if err != nil {
		t.Fatal(err)
	}
	s.signer = sigv4test.Signer{AccessKeyID: id, Secret: secret, Region: "us-east-1"}
	s.tokens, err = bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{ID: "own", Alg: bearer.HS256, Text: strings.Repeat("k", 32)}}, Audience: httpapi.Audience})
	if err != nil {
		t.Fatal(err)
	}
	s.token = s.sign(httpapi.Claims(s.main, false), time.Hour)
	h := &httpapi.Handler{Service: s.service, Tokens: s.tokens, Clock: s.clock.Now}
	s.url = webtest.Serve(t, web.Service{Name: "buckets", Serve: h.Serve, Error: httpapi.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(), Conditions: httpapi.Conditions}, o).URL
	s3 := &s3api.Handler{Service: s.service, Verifier: sigv4.New("us-east-1", s.clock.Now), Keys: keys, Region: "us-east-1"}
	s.s3 = webtest.Serve(t, web.Service{Name: "buckets", Serve: s3.Serve, Error: s3api.WriteError, Route: s3api.Label, Conditions: web.CheckedByHandler}, web.Options{}).URL
	s.client = &http.Client{Transport: &openapitest.Transport{
		Document: description(t), Next: webtest.Transport, Report: func(err error) { s.t.Error(err) },
	}}
	return s
}

// withBucket adds main's bucket photos.
func withBucket(t testing.TB, with ...web.Options) *server {
	t.Helper()
	s := serve(t, with...)
	s.do("PUT", photos, "").is(201)
	return s
}

const (
	photos   = "/buckets/v1/accounts/main/buckets/photos"
	objects  = photos + "/objects/"
	metadata = photos + "/metadata/"
	batches  = "/buckets/v1/gc/batches"
)

var description = func() func(testing.TB) *openapitest.Document {
	load := sync.OnceValues(func() (*openapitest.Document, error) {
		text, err := os.ReadFile("openapi.json")
		if err != nil {
			return nil, err
		}
		return openapitest.Load(text)
	})
	return func(t testing.TB) *openapitest.Document {
		t.Helper()
		d, err := load()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}()

func (s *server) account(name string) buckets.Account {
	s.t.Helper()
	a := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: name, Created: buckets.At(s.clock.Now())}
	if err := s.store.CreateAccount(s.t.Context(), a); err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *server) sign(claims any, ttl time.Duration) string {
	s.t.Helper()
	token, err := s.tokens.Sign(claims, s.clock.Now(), ttl)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

func (s *server) as(a buckets.Account, gc bool) *server {
	other := *s
	other.token = s.sign(httpapi.Claims(a, gc), time.Hour)
	return &other
}

type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   string
}

// request creates a request with the token, for a raw target. PATCH sends JSON.
func (s *server) request(method, target string, body io.Reader, headers ...string) *http.Request {
	s.t.Helper()
	r := webtest.Request(s.t, s.url, method, target, body)
	r.URL.Opaque, r.URL.RawQuery, _ = strings.Cut(target, "?")
	if method != http.MethodPatch {
		r.Header.Del("Content-Type")
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	webtest.SetHeaders(r, headers...)
	return r
}

// do sends a request. headers are "Name: value".
func (s *server) do(method, target, body string, headers ...string) *answer {
	s.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	return s.send(s.client, s.request(method, target, content, headers...))
}

func (s *server) send(by *http.Client, r *http.Request) *answer {
	s.t.Helper()
	response, err := by.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return &answer{s.t, r.Method + " " + r.URL.Opaque + "?" + r.URL.RawQuery, response.StatusCode, response.Header, string(body)}
}

func (s *server) asS3(method, target, body string, headers ...string) *answer {
	s.t.Helper()
	r := webtest.Request(s.t, s.s3, method, target, strings.NewReader(body))
	r.Header.Del("Content-Type")
	webtest.SetHeaders(r, headers...)
	r.URL.Opaque, r.URL.RawQuery, _ = strings.Cut(target, "?")
	s.signer.Sign(r, sigv4test.Unsigned, s.clock.Now())
	return s.send(http.DefaultClient, r)
}

func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d\n%v\n%s", a.what, a.status, status, a.header, a.body)
	}
	return a
}

func (a *answer) fails(status int, code string) *answer {
	a.t.Helper()
	a.is(status)
	var e struct {
		Error struct{ Code, Message, RequestID string }
	}
	a.into(&e)
	if e.Error.Code != code || e.Error.Message == "" || e.Error.RequestID != a.header.Get("X-Request-Id") {
		a.t.Fatalf("%s: %s, want %s", a.what, a.body, code)
	}
	return a
}

func (a *answer) says(body string) *answer {
	a.t.Helper()
	if a.body != body {
		a.t.Fatalf("%s: body %.200q, want %.200q", a.what, a.body, body)
	}
	return a
}

// has checks headers "Name: value"; without a value the header must be absent.
func (a *answer) has(all ...string) *answer {
	a.t.Helper()
	for _, h := range all {
		name, value, _ := strings.Cut(h, ":")
		if got := a.header.Get(name); got != strings.TrimSpace(value) {
			a.t.Fatalf("%s: header %s is %q, want %q", a.what, name, got, strings.TrimSpace(value))
		}
	}
	return a
}

func (a *answer) contains(part string) *answer {
	a.t.Helper()
	if !strings.Contains(a.body, part) {
		a.t.Fatalf("%s: no %s in %s", a.what, part, a.body)
	}
	return a
}

func (a *answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%s: %q: %v", a.what, a.body, err)
	}
}

type record struct {
	ID            string
	Name          string
	Version       string
	Type          string
	Owner         string
	Creator       string
	EntityTag     string `json:"entity_tag"`
	Created       time.Time
	Modified      time.Time
	ContentLength int64             `json:"content_length"`
	ContentMD5    []byte            `json:"content_md5"`
	ContentType   string            `json:"content_type"`
	Headers       map[string]string `json:"headers"`
	Roles         []string
	Sharks        []struct {
		Datacenter string
		StorageID  string `json:"manta_storage_id"`
	}
	Properties json.RawMessage
	Checksum   *struct {
		Algorithm, Value string
		Composite        bool
	}
	Parts int
}

func (a *answer) object() (o record) {
	a.t.Helper()
	a.into(&o)
	return o
}

func (s *server) put(name, body string, headers ...string) record {
	s.t.Helper()
	a := s.do("PUT", objects+name, body, headers...)
	if a.status != http.StatusOK {
		a.is(http.StatusCreated)
	}
	return a.object()
}

func (a *answer) names() (names []string, next *string) {
	a.t.Helper()
	var p struct {
		Items      []record
		NextMarker *string `json:"next_marker"`
	}
	a.is(200).into(&p)
	for i := range p.Items {
		names = append(names, p.Items[i].Name)
	}
	return names, p.NextMarker
}

func (s *server) files() (n int) {
	s.t.Helper()
	if err := s.cluster.Wait(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for _, folder := range s.folders {
		err := fs.WalkDir(os.DirFS(folder), ".", func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".holdfast") {
				n++
			}
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return n
}

func md5Of(s string) string {
	sum := md5.Sum([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var quiet = web.Options{Log: slog.New(slog.DiscardHandler)}

func (s *server) remove() {
	s.t.Helper()
	for _, folder := range s.folders {
		if err := os.RemoveAll(filepath.Join(folder, "v2")); err != nil {
			s.t.Fatal(err)
		}
	}
}

func endless(n int64) io.Reader { return io.LimitReader(zeros{}, n) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{0}, len(p)))
	return len(p), nil
}
