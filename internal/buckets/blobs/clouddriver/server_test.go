package clouddriver_test

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/clouddriver"
	"holdfast/internal/buckets/blobs/drivertest"
	"holdfast/internal/errcode"
)

// TestServer runs the suite on the bucket TEST_NODE_URL, below new prefixes.
func TestServer(t *testing.T) {
	t.Parallel()
	address := os.Getenv("TEST_NODE_URL")
	if address == "" {
		t.Skip("TEST_NODE_URL is not set")
	}
	drivertest.Run(t, func(t testing.TB) blobs.Driver {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("prefix", "holdfast-test-"+rand.Text()+"/")
		u.RawQuery = q.Encode()
		const id = "dc1:server"
		if err := clouddriver.Init(t.Context(), u.String(), id); err != nil {
			t.Fatal(err)
		}
		if err := clouddriver.Init(t.Context(), u.String(), id); err != nil {
			t.Errorf("init of a node: %v", err)
		}
		if err := clouddriver.Init(t.Context(), u.String(), "dc1:other"); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("init of another node: %v, want the code unavailable", err)
		}
		d, err := clouddriver.New(u.String(), id)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

func TestSchemes(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"mem://": true, "s3://b": true, "gs://b": true, "azblob://b": true,
		"file:///x": false, "": false, "http://b": false, "s3:\x00": false, "s4://b": false,
	} {
		if _, err := clouddriver.New(address, "dc1:x"); ok != (err == nil) || !ok && !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestMissingBucket checks that a deleted bucket does not look like an empty bucket.
func TestMissingBucket(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	const id = "dc1:x"
	missing := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !missing && strings.HasSuffix(r.URL.Path, blobs.MarkerName):
			_, _ = w.Write([]byte(id + "\n"))
		case missing:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`<Error><Code>NoSuchBucket</Code></Error>`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`<Error><Code>NoSuchKey</Code></Error>`))
		}
	}))
	defer server.Close()
	d, err := clouddriver.New("s3://bucket?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(server.URL), id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	want := func(code errcode.Code) {
		t.Helper()
		_, err1 := d.Get(t.Context(), "v2/x", 0, -1)
		_, err2 := d.Stat(t.Context(), "v2/x")
		for i, err := range []error{err1, err2, d.Copy(t.Context(), "v2/x", "v2/y")} {
			if !errcode.Is(err, code) {
				t.Errorf("operation %d: %v, want the code %v", i, err, code)
			}
		}
	}
	if _, err := d.Space(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(errcode.NotFound)
	if err := d.Delete(t.Context(), "v2/x"); err != nil {
		t.Errorf("delete: %v", err)
	}
	missing = true
	want(errcode.Unavailable)
	if err := d.Delete(t.Context(), "v2/x"); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("delete: %v, want the code unavailable", err)
	}
	if _, err := d.Space(t.Context()); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("space: %v, want the code unavailable", err)
	}
}
