package s3api_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/s3api"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

const (
	region = "us-east-1"
	domain = "s3.test"
	// Bodies above inline are on storage nodes. Parts may be as small as minPart.
	inline, minPart = 8, 10
)

// server is S3 on SQLite and two storage nodes, with the accounts main and other. A 5xx response fails the test, unless
// the test passes its own log.
type server struct {
	t           testing.TB
	url         string
	db          *sqlitedb.DB
	options     buckets.Options
	s3          *s3api.Handler
	cluster     *blobs.Cluster
	folders     []string
	main, other sigv4test.Signer
	handler     web.Service
	keys        *buckets.Keyring
}

func serve(t testing.TB, log ...*slog.Logger) *server {
	t.Helper()
	db := opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations)
	s := serveOn(t, sqlite.New(db), log...)
	s.db = db
	return s
}

type store interface {
	buckets.Backend
	buckets.Accounts
}

func serveOn(t testing.TB, st store, log ...*slog.Logger) *server {
	t.Helper()
	ctx := t.Context()
	s := &server{t: t, cluster: blobs.NewCluster(blobs.Options{Clock: time.Now})}
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
	s.cluster.Refresh(ctx)
	t.Cleanup(func() {
		if err := s.cluster.Wait(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	s.options = buckets.Options{
		Backend: st, Bodies: s.cluster, Clock: time.Now,
		Limits: buckets.Limits{Inline: inline, MinPart: minPart},
	}
	keys, err := buckets.NewKeyring(st, time.Now, strings.Repeat("s", 32), nil)
	if err != nil {
		t.Fatal(err)
	}
	account := func(name string) sigv4test.Signer {
		a := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: name, Created: buckets.At(time.Now())}
		if err := st.CreateAccount(ctx, a); err != nil {
			t.Fatal(err)
		}
		id, secret, err := keys.Create(ctx, a.ID, buckets.KeyTerms{})
		if err != nil {
			t.Fatal(err)
		}
		return sigv4test.Signer{AccessKeyID: id, Secret: secret, Region: region}
	}
	s.main, s.other, s.keys = account("main"), account("other"), keys
	s.s3 = &s3api.Handler{
		Service: buckets.NewService(s.options), Verifier: sigv4.New(region, time.Now), Keys: keys, Region: region, Domain: domain, Cores: sigv4.NewCores(),
	}
	s.s3.Verifier.Version2 = true
	var o web.Options
	if len(log) > 0 {
		o.Log = log[0]
	}
	s.handler = web.Service{Name: "buckets", Serve: s.s3.Serve, Error: s3api.WriteError, Route: s3api.Label, Conditions: web.CheckedByHandler}
	s.url = webtest.Serve(t, s.handler, o).URL
	return s
}

func (s *server) reopen() { s.s3.Service = buckets.NewService(s.options) }

// withBucket adds main's bucket photos.
func withBucket(t testing.TB, log ...*slog.Logger) *server {
	t.Helper()
	s := serve(t, log...)
	s.do("PUT", "/photos", "").want(200)
	return s
}

type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   string
}

// request creates an unsigned request for a raw target.
func (s *server) request(method, target, body string, headers ...string) *http.Request {
	s.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := webtest.Request(s.t, s.url, method, target, content)
	r.URL.Opaque, r.URL.RawQuery, _ = strings.Cut(target, "?")
	r.Header.Del("Content-Type")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		if name == "Host" {
			r.Host = strings.TrimSpace(value)
			continue
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
	return r
}

func (s *server) send(r *http.Request) answer {
	s.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{s.t, r.Method + " " + r.URL.Opaque + "?" + r.URL.RawQuery, response.StatusCode, response.Header, string(body)}
}

// do sends a request that main signs, with the hash of its body.
func (s *server) do(method, target, body string, headers ...string) answer {
	s.t.Helper()
	return s.as(s.main, method, target, body, headers...)
}

func (s *server) as(signer sigv4test.Signer, method, target, body string, headers ...string) answer {
	s.t.Helper()
	r := s.request(method, target, body, headers...)
	sum := sha256.Sum256([]byte(body))
	signer.Sign(r, hex.EncodeToString(sum[:]), time.Now())
	return s.send(r)
}

func (s *server) anonymous(method, target, body string, headers ...string) answer {
	s.t.Helper()
	return s.send(s.request(method, target, body, headers...))
}

func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d\n%v\n%s", a.what, a.status, status, a.header, a.body)
	}
	return a
}

func (a answer) fails(status int, code string) answer {
	a.t.Helper()
	a.want(status)
	if got := a.element("Code"); got != code {
		a.t.Fatalf("%s: code %s, want %s\n%s", a.what, got, code, a.body)
	}
	for element, header := range map[string]string{"RequestId": "X-Amz-Request-Id", "HostId": "X-Amz-Id-2"} {
		if id := a.element(element); id == "" || id != a.header.Get(header) {
			a.t.Fatalf("%s: %s %q, header %q", a.what, element, id, a.header.Get(header))
		}
	}
	allowed, known := s3api.ErrorElements()[code]
	if !known {
		a.t.Fatalf("%s: elementsOf does not have the code %s", a.what, code)
	}
	allowed = slices.Concat(allowed, []string{"Error", "Code", "Message", "Resource", "RequestId", "HostId"})
	for d := xml.NewDecoder(strings.NewReader(a.body)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return a
		}
		if err != nil {
			a.t.Fatalf("%s: not XML: %v\n%s", a.what, err, a.body)
		}
		if e, ok := token.(xml.StartElement); ok && !slices.Contains(allowed, e.Name.Local) {
			a.t.Fatalf("%s: the element %s is not in elementsOf\n%s", a.what, e.Name.Local, a.body)
		}
	}
}

func (a answer) is(body string) answer {
	a.t.Helper()
	if a.body != body {
		a.t.Fatalf("%s: body %.200q, want %.200q", a.what, a.body, body)
	}
	return a
}

func (a answer) has(all ...string) answer {
	a.t.Helper()
	for _, text := range all {
		if !strings.Contains(a.body, text) {
			a.t.Fatalf("%s: no %s in %s", a.what, text, a.body)
		}
	}
	return a
}

func (a answer) hasNot(text string) answer {
	a.t.Helper()
	if strings.Contains(a.body, text) {
		a.t.Fatalf("%s: %s in %s", a.what, text, a.body)
	}
	return a
}

// head checks headers "Name: value"; without a value the header must be absent.
func (a answer) head(all ...string) answer {
	a.t.Helper()
	for _, h := range all {
		name, value, _ := strings.Cut(h, ":")
		if got := a.header.Get(name); got != strings.TrimSpace(value) {
			a.t.Fatalf("%s: header %s is %q, want %q", a.what, name, got, strings.TrimSpace(value))
		}
	}
	return a
}

func (a answer) element(name string) string {
	_, rest, _ := strings.Cut(a.body, "<"+name+">")
	text, _, ok := strings.Cut(rest, "</"+name+">")
	if !ok {
		return ""
	}
	return text
}

func (a answer) elements(name string) (all []string) {
	for rest := a.body; ; {
		var ok bool
		if _, rest, ok = strings.Cut(rest, "<"+name+">"); !ok {
			return all
		}
		text, after, _ := strings.Cut(rest, "</"+name+">")
		all, rest = append(all, text), after
	}
}

func (s *server) files() (n int) {
	s.t.Helper()
	if err := s.cluster.Wait(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for _, folder := range s.folders {
		err := filepath.WalkDir(filepath.Join(folder, "v2"), func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				n++
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Fatal(err)
		}
	}
	return n
}

func (s *server) chunked(target, data string, size int64, c sigv4test.Chunks, headers ...string) answer {
	s.t.Helper()
	r := s.request("PUT", target, data, headers...)
	s.main.SignChunked(r, bytes.NewReader([]byte(data)), size, c, time.Now())
	return s.send(r)
}

func (s *server) upload(target string, headers ...string) string {
	s.t.Helper()
	return s.do("POST", target+"?uploads", "", headers...).want(200).element("UploadId")
}

// part uploads a part and returns its XML for complete.
func (s *server) part(target, id, number, body string, headers ...string) string {
	s.t.Helper()
	a := s.do("PUT", target+"?partNumber="+number+"&uploadId="+id, body, headers...).want(200)
	return "<Part><PartNumber>" + number + "</PartNumber><ETag>" + a.header.Get("Etag") + "</ETag></Part>"
}

func (s *server) complete(target, id, parts string, headers ...string) answer {
	s.t.Helper()
	return s.do("POST", target+"?uploadId="+id, "<CompleteMultipartUpload>"+parts+"</CompleteMultipartUpload>", headers...)
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func sha256Of(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// form returns a form upload whose policy contains a condition for each field.
func (s *server) form(fields map[string]string, file string, conditions ...string) *http.Request {
	s.t.Helper()
	now := time.Now()
	all := append([]string{`{"bucket": "photos"}`, s.main.FormConditions(now)}, conditions...)
	for name, value := range fields {
		text, err := json.Marshal(map[string]string{name: value})
		if err != nil {
			s.t.Fatal(err)
		}
		if name != "key" || !strings.Contains(value, "$") {
			all = append(all, string(text))
		}
	}
	policy := `{"expiration": "` + now.Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z") + `", "conditions": [` + strings.Join(all, ", ") + `]}`
	signed := maps.Clone(fields)
	s.main.SignForm(signed, policy, now)
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, value := range signed {
		if err := w.WriteField(name, value); err != nil {
			s.t.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("file", "cat.jpg")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(part, file); err != nil {
		s.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	return s.request("POST", "/photos", body.String(), "Content-Type: "+w.FormDataContentType())
}

func md5Tag(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// onEngines runs a test on each database engine.
func onEngines(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, serve(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, serveOn(t, postgres.New(opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations))))
	})
}
