package e2e

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// importTest is a source server and a target that imports from it.
type importTest struct {
	*testing.T
	source, target s3
	endpoint       string
	server         *binary.Server
	vars           []string
	byID           bool // the source lists delete markers separately, with version IDs that sort by time
}

func newImportTest(t *testing.T, source s3, proxy http.Handler, environ ...string) *importTest {
	t.Helper()
	endpoint := source.URL
	if proxy != nil {
		front := httptest.NewServer(proxy)
		t.Cleanup(front.Close)
		endpoint = front.URL
	}
	listen := testdb.FreeAddress(t)
	server := binary.LaunchFlags(t, []string{"--migrate"}, t.TempDir(), append(environ, "HOLDFAST_BUCKETS__LISTEN="+listen)...)
	server.Await("/readyz", http.StatusOK)
	vars := append(slices.Clone(server.Env), "AWS_ACCESS_KEY_ID="+source.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+source.Secret)
	return &importTest{T: t, source: source, target: newS3(t, server, "http://"+listen), endpoint: endpoint, server: server, vars: vars}
}

func holdfastSource(t *testing.T) s3 {
	t.Helper()
	listen := testdb.FreeAddress(t)
	return newS3(t, binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__LISTEN="+listen), "http://"+listen)
}

func (i *importTest) run(status int, text string, args ...string) string {
	i.Helper()
	r := binary.Run(i.T, i.vars, append([]string{"buckets", "imports", "run", "main", "--endpoint", i.endpoint}, args...)...)
	if r.Status != status || !strings.Contains(r.Stdout+r.Stderr, text) {
		i.Fatalf("import %v: status %d, want %d and %q\n%s%s", args, r.Status, status, text, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

func (c s3) send(status int, method, path string, body []byte, headers ...string) (http.Header, []byte) {
	c.t.Helper()
	a, err := c.Send(c.t.Context(), method, path, string(body), headers...)
	if err != nil || a.Status != status {
		c.t.Fatalf("%s %s: %d %s %v, want %d", method, path, a.Status, a.Body, err, status)
	}
	return a.Header, []byte(a.Body)
}

func (c s3) upload(path string, parts ...[]byte) {
	c.t.Helper()
	var begun struct {
		UploadID string `xml:"UploadId"`
	}
	if err := xml.Unmarshal(c.want(http.StatusOK, http.MethodPost, path+"?uploads", nil), &begun); err != nil {
		c.t.Fatal(err)
	}
	list := "<CompleteMultipartUpload>"
	for n, part := range parts {
		header, _ := c.send(http.StatusOK, http.MethodPut, fmt.Sprintf("%s?partNumber=%d&uploadId=%s", path, n+1, begun.UploadID), part)
		list += fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", n+1, header.Get("ETag"))
	}
	c.want(http.StatusOK, http.MethodPost, path+"?uploadId="+begun.UploadID, []byte(list+"</CompleteMultipartUpload>"))
}

type listedObject struct {
	Key, ETag, LastModified string
	Size                    int64
}

func (c s3) list(bucket string) map[string]listedObject {
	c.t.Helper()
	all, after := map[string]listedObject{}, ""
	for {
		var page struct {
			Contents              []listedObject
			NextContinuationToken string
		}
		if err := xml.Unmarshal(c.want(http.StatusOK, http.MethodGet, "/"+bucket+"?list-type=2&encoding-type=url"+after, nil), &page); err != nil {
			c.t.Fatal(err)
		}
		for _, o := range page.Contents {
			if o.Key, _ = url.QueryUnescape(o.Key); o.Key == "" {
				c.t.Fatalf("a key of bucket %s is not URL-encoded", bucket)
			}
			all[o.Key] = o
		}
		if page.NextContinuationToken == "" {
			return all
		}
		after = "&continuation-token=" + url.QueryEscape(page.NextContinuationToken)
	}
}

func (c s3) tags(path string) string {
	c.t.Helper()
	before := "?"
	if strings.Contains(path, "?") {
		before = "&"
	}
	_, tags, _ := strings.Cut(string(c.want(http.StatusOK, http.MethodGet, path+before+"tagging", nil)), "<TagSet>")
	return tags
}

func stored(h http.Header) map[string]string {
	all := map[string]string{}
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-Meta-") || slices.Contains([]string{
			"Content-Type", "Content-Length", "Content-Encoding", "Content-Disposition", "Content-Language", "Cache-Control", "Expires", "Etag", "Last-Modified",
			"X-Amz-Tagging-Count", "X-Amz-Checksum-Sha256", "X-Amz-Checksum-Crc32", "X-Amz-Checksum-Type",
			"X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date", "X-Amz-Object-Lock-Legal-Hold",
		}, name) {
			all[name] = h.Get(name)
		}
	}
	if until, err := time.Parse(time.RFC3339, all["X-Amz-Object-Lock-Retain-Until-Date"]); err == nil {
		all["X-Amz-Object-Lock-Retain-Until-Date"] = until.UTC().String()
	}
	return all
}

func (i *importTest) killAt(reached <-chan struct{}, args ...string) {
	i.Helper()
	cmd := exec.CommandContext(i.Context(), binary.Path(), append([]string{"buckets", "imports", "run", "main", "--endpoint", i.endpoint, "--parallel", "3"}, args...)...)
	cmd.Env = i.vars
	if err := cmd.Start(); err != nil {
		i.Fatal(err)
	}
	<-reached
	if err := cmd.Process.Kill(); err != nil {
		i.Fatal(err)
	}
	_ = cmd.Wait()
}

// asStored are request headers that prevent decoding.
var asStored = []string{"Accept-Encoding: identity", "X-Amz-Checksum-Mode: ENABLED"}

// same compares a bucket's bodies and headers on both sides.
func (i *importTest) same(bucket string) {
	i.Helper()
	from, here := i.source.list(bucket), i.target.list(bucket)
	if !maps.Equal(from, here) {
		i.Fatalf("%d objects at the source, %d here:\n%v\n%v", len(from), len(here), from, here)
	}
	for key := range from {
		path := "/" + bucket + "/" + strings.ReplaceAll(url.PathEscape(key), "%2F", "/")
		fromHeader, fromBody := i.source.send(http.StatusOK, http.MethodGet, path, nil, asStored...)
		hereHeader, hereBody := i.target.send(http.StatusOK, http.MethodGet, path, nil, asStored...)
		if !bytes.Equal(fromBody, hereBody) || !maps.Equal(stored(fromHeader), stored(hereHeader)) {
			i.Errorf("%s: %d bytes, want %d\n%v\n%v", key, len(hereBody), len(fromBody), stored(hereHeader), stored(fromHeader))
		}
		if from, here := i.source.tags(path), i.target.tags(path); from != here {
			i.Errorf("%s: tags %s, want %s", key, here, from)
		}
	}
}

func seedImport(c s3) {
	c.t.Helper()
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	for n := range 300 {
		c.want(http.StatusOK, http.MethodPut, fmt.Sprintf("/photos/many/%03d", n), []byte(fmt.Sprint(n)))
	}
	for _, key := range []string{"a%20b", "a%2Bb", "%C3%BC/%E6%97%A5", "%252e", "dir/", "dir/x", "dir-x", "..%2Fup", "%01%7F", "q%3Fa=b&c", "%F0%9F%98%80", "x//y", "%22%3C%27"} {
		c.want(http.StatusOK, http.MethodPut, "/photos/"+key, nil)
	}
	c.send(http.StatusOK, http.MethodPut, "/photos/meta", []byte("meta"), "Content-Type: text/plain; charset=utf-8", "Cache-Control: max-age=60",
		`Content-Disposition: attachment; filename="x"`, "Content-Encoding: gzip", "Content-Language: de", "Expires: Wed, 21 Oct 2026 07:28:00 GMT",
		"X-Amz-Meta-One: 1", "X-Amz-Meta-Two-Words: =?UTF-8?B?w7w=?=", "X-Amz-Tagging: a=b&c=d%20e")
	c.send(http.StatusOK, http.MethodPut, "/photos/sum", []byte("sum"), "X-Amz-Checksum-Algorithm: SHA256", "X-Amz-Checksum-Sha256: CfX/7ygwmFMmXEqY0OVuG+UitrQC2Bk1lP0FEDBk/Go=")
	mebibytes := func(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), n<<16) }
	c.want(http.StatusOK, http.MethodPut, "/photos/large", mebibytes(3))
	c.upload("/photos/parts/even", mebibytes(5), mebibytes(5), []byte("end"))
	c.upload("/photos/parts/uneven", mebibytes(6), mebibytes(5), mebibytes(1))
	c.upload("/photos/parts/one", []byte("one"))
	c.want(http.StatusOK, http.MethodPut, "/photos?cors", []byte(`<CORSConfiguration><CORSRule><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>`))
	c.want(http.StatusNoContent, http.MethodPut, "/photos?tagging", []byte(`<Tagging><TagSet><Tag><Key>team</Key><Value>x</Value></Tag></TagSet></Tagging>`))
	c.want(http.StatusOK, http.MethodPut, "/photos?lifecycle", []byte(`<LifecycleConfiguration><Rule><ID>old</ID><Filter><And><Prefix>tmp/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter>`+
		`<Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule><Rule><ID>uploads</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status>`+
		`<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule></LifecycleConfiguration>`))
	c.want(http.StatusNoContent, http.MethodPut, "/photos?policy", []byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::photos/public/*"}]}`))
}

// unreliable is a proxy that breaks every tenth request: with an error, a closed connection, or a truncated body, in
// turn.
type unreliable struct {
	*httputil.ReverseProxy
	n     atomic.Int64
	reach func(n int64)
}

func newUnreliable(to string, reach func(int64)) *unreliable {
	u, _ := url.Parse(to)
	return &unreliable{ReverseProxy: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host },
	}, reach: reach}
}

func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := u.n.Add(1)
	u.reach(n)
	switch {
	case n%10 != 0:
	case n%30 == 0:
		http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
		return
	case n%30 == 10:
		panic(http.ErrAbortHandler)
	default:
		w = &shortened{ResponseWriter: w, left: 1000}
	}
	u.ReverseProxy.ServeHTTP(w, r)
}

type shortened struct {
	http.ResponseWriter
	left int
}

func (s *shortened) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return s.ResponseWriter.Write(p)
}

// TestBucketsImport imports from an unreliable server, kills the import, continues it, and then imports changes made
// on both sides.
func TestBucketsImport(t *testing.T) {
	t.Parallel()
	source := holdfastSource(t)
	seedImport(source)
	reached := make(chan struct{})
	i := newImportTest(t, source, newUnreliable(source.URL, func(n int64) {
		if n == 150 {
			close(reached)
		}
	}))
	i.run(0, "would import 319 objects", "s3://photos", "--dry-run")
	i.target.want(http.StatusNotFound, http.MethodHead, "/photos", nil)

	i.killAt(reached, "s3://photos")
	if n := len(i.target.list("photos")); n == 0 || n >= 319 {
		t.Errorf("%d objects were imported before the kill", n)
	}
	i.run(0, "of 319", "s3://photos")
	i.same("photos")
	for _, setting := range []string{"cors", "tagging", "lifecycle", "policy"} {
		if from, here := source.want(http.StatusOK, http.MethodGet, "/photos?"+setting, nil), i.target.want(http.StatusOK, http.MethodGet, "/photos?"+setting, nil); !bytes.Equal(from, here) {
			t.Errorf("%s: %s, want %s", setting, here, from)
		}
	}
	i.run(0, "both sides are equal", "s3://photos", "--stopped")
	i.later()
	i.refuses()
	if out := i.server.Verb("buckets", "audits", "run", "--verify"); !strings.Contains(out, "findings") || !strings.Contains(out, "none") {
		t.Errorf("audit: %s", out)
	}
}

func (i *importTest) later() {
	i.Helper()
	put := func(c s3, key, body string) { c.want(http.StatusOK, http.MethodPut, "/photos/"+key, []byte(body)) }
	i.target.want(http.StatusOK, http.MethodPut, "/photos/here", []byte("here"))
	put(i.target, "many/001", "changed here only")
	put(i.target, "many/002", "changed here first")
	put(i.source, "many/003", "changed there first")
	i.target.want(http.StatusNoContent, http.MethodDelete, "/photos/many/004", nil)
	put(i.source, "many/005", "changed there only")
	i.source.want(http.StatusNoContent, http.MethodDelete, "/photos/many/006", nil)
	i.source.want(http.StatusNoContent, http.MethodDelete, "/photos/many/001", nil)
	put(i.source, "many/002", "changed there later")
	put(i.target, "many/003", "changed here later")
	i.run(0, "imported 3 objects", "s3://photos")
	for key, want := range map[string]string{
		"here": "here", "many/001": "changed here only", "many/002": "changed there later", "many/003": "changed here later", "many/004": "4", "many/005": "changed there only",
	} {
		if got := string(i.target.want(http.StatusOK, http.MethodGet, "/photos/"+key, nil)); got != want {
			i.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	i.target.want(http.StatusNotFound, http.MethodGet, "/photos/many/006", nil)
	i.run(0, "kept 1 object", "s3://photos", "--stopped")
	i.run(0, "imported 1 object", "s3://photos/parts/o", "--to", "others")
}

func (i *importTest) refuses() {
	i.Helper()
	i.source.want(http.StatusOK, http.MethodPut, "/new", nil)
	i.source.want(http.StatusOK, http.MethodPut, "/new/a", []byte("a"))
	i.run(0, "imported 1 object", "s3://new")
	i.source.want(http.StatusNoContent, http.MethodDelete, "/new/a", nil)
	i.run(1, "the bucket is empty at the source, but not here", "s3://new")
	i.target.want(http.StatusOK, http.MethodGet, "/new/a", nil)
	i.source.want(http.StatusNoContent, http.MethodDelete, "/new", nil)
	i.run(1, "NoSuchBucket", "s3://new")
	i.target.want(http.StatusOK, http.MethodGet, "/new/a", nil)

	i.server.Verb("buckets", "quotas", "set", "main", "--objects", "330")
	for n := range 20 {
		i.source.want(http.StatusOK, http.MethodPut, fmt.Sprintf("/photos/over/%02d", n), nil)
	}
	i.run(1, "the account's quota is used up: raise it with holdfast buckets quotas set", "s3://photos")
	i.run(2, `unexpected argument "x"`, "s3://photos", "x")
	i.run(2, "SOURCE: expected s3://BUCKET", "photos")
	i.vars = append(i.vars, "AWS_SECRET_ACCESS_KEY=wrong")
	i.run(1, "SignatureDoesNotMatch (check the secret key", "s3://photos")
}

// TestBucketsImportClock imports from a server whose clock is an hour slow. An object written later at the source must
// replace the target's object, despite its earlier timestamp.
func TestBucketsImportClock(t *testing.T) {
	t.Parallel()
	source := holdfastSource(t)
	source.want(http.StatusOK, http.MethodPut, "/photos", nil)
	source.want(http.StatusOK, http.MethodPut, "/photos/a", []byte("there"))
	i := newImportTest(t, source, nil)
	i.target.want(http.StatusOK, http.MethodPut, "/photos", nil)
	i.target.want(http.StatusOK, http.MethodPut, "/photos/a", []byte("here, later"))
	i.run(0, "kept 1 object", "s3://photos")

	to, _ := url.Parse(source.URL)
	late := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			return nil
		},
	})
	defer late.Close()
	i.endpoint = late.URL
	source.send(http.StatusOK, http.MethodPut, "/photos?acl", nil, "X-Amz-Acl: public-read")
	i.run(0, "imported 1 object", "s3://photos", "--anonymous")
	if got := string(i.target.want(http.StatusOK, http.MethodGet, "/photos/a", nil)); got != "there" {
		t.Errorf("a: %s", got)
	}
}

func TestBucketsImportFromMinIO(t *testing.T) {
	t.Parallel()
	b := binary.MinIO(t, "photos")
	source := s3{t, &buckets.Client{URL: "http://" + b.Address, Signer: buckets.Key(b.ID, b.Secret)}}
	for start := time.Now(); ; { // MinIO reports readiness too early
		a, err := source.Send(t.Context(), http.MethodPut, "/photos/dir/a%20b", "x")
		if err == nil && a.Status == http.StatusOK {
			break
		}
		if time.Since(start) > binary.Bound {
			t.Fatalf("MinIO: %d %s, %v", a.Status, a.Body, err)
		}
	}
	part := bytes.Repeat([]byte("x"), 5<<20)
	source.upload("/photos/parts", part, part, []byte("end"))
	i := newImportTest(t, source, nil)
	if out := i.run(0, "imported 2 objects"); strings.Contains(out, "length") {
		t.Errorf("not verified: %s", out)
	}
	i.same("photos")
}
