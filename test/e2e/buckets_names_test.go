package e2e

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// TestBucketsNames is an attack on a public bucket: another account makes buckets with its name. Links to the bucket keep
// their meaning, also after a restart and a copy to PostgreSQL. After the bucket is deleted, they lead nowhere.
func TestBucketsNames(t *testing.T) {
	t.Parallel()
	disks, data := t.TempDir(), t.TempDir()
	vars := bucketsOn(t, "sqlite:"+filepath.Join(data, "buckets.db"), disks)
	s := binary.Start(t, data, vars...)
	for _, account := range []string{"other", "third"} {
		s.Verb("buckets", "accounts", "create", account)
	}
	as := func(account string) s3 {
		return s3{t, &buckets.Client{URL: s.S3URL(), Signer: s.AccessKey(t, account)}}
	}
	victim, attacker, third := as("main"), as("other"), as("third")
	for _, name := range []string{"/photos", "/gone"} {
		victim.want(http.StatusOK, http.MethodPut, name, nil)
		victim.want(http.StatusOK, http.MethodPut, name+"/k", []byte("right"))
		s.Verb("buckets", "buckets", "set-access", "main", name[1:], "--access", "public-read")
	}
	check := func(what string) {
		t.Helper()
		if status, body := getAnonymously(t, s.S3URL()+"/photos/k"); status != http.StatusOK || body != "right" {
			t.Errorf("%s: an anonymous client gets %d %s", what, status, body)
		}
		if got := string(third.at(s.S3URL()).want(http.StatusOK, http.MethodGet, "/photos/k", nil)); got != "right" {
			t.Errorf("%s: a third account gets %s", what, got)
		}
		if status, body := getAnonymously(t, s.S3URL()+"/photos?list-type=2"); status != http.StatusOK || !strings.Contains(body, "<KeyCount>1</KeyCount>") {
			t.Errorf("%s: the list is %d %s", what, status, body)
		}
	}
	waitForAccess(t, s.S3URL()+"/photos/k")
	check("one bucket")
	attacker.want(http.StatusOK, http.MethodPut, "/photos", nil)
	check("a private bucket with the name")
	if out := s.Verb("buckets", "buckets", "set-access", "other", "photos", "--access", "public-read"); !strings.Contains(out, "others reach it as other:photos") {
		t.Errorf("set-access: %s", out)
	}
	attacker.want(http.StatusOK, http.MethodPut, "/photos/k", []byte("wrong"))
	check("a public bucket with the name")

	victim.want(http.StatusNoContent, http.MethodDelete, "/gone/k", nil)
	victim.want(http.StatusNoContent, http.MethodDelete, "/gone", nil)
	attacker.want(http.StatusOK, http.MethodPut, "/gone", nil)
	attacker.want(http.StatusOK, http.MethodPut, "/gone/k", []byte("wrong"))
	s.Verb("buckets", "buckets", "set-access", "other", "gone", "--access", "public-read")
	waitForAccess(t, s.S3URL()+"/other:gone/k")
	rests := func() {
		t.Helper()
		third.at(s.S3URL()).want(http.StatusNotFound, http.MethodGet, "/gone/k", nil)
		third.at(s.S3URL()).want(http.StatusOK, http.MethodGet, "/other:gone/k", nil)
		if out := s.Verb("buckets", "names", "list", "--json"); !strings.Contains(out, `"name":"gone","account":"main","state":"resting"`) {
			t.Errorf("names: %s", out)
		}
	}
	rests()
	if out := s.Verb("check"); !strings.Contains(out, "bucket photos of account other is reached as other:photos only: the plain name means the bucket of account main") {
		t.Errorf("check: %s", out)
	}

	s.Kill()
	s = binary.Start(t, data, vars...)
	check("after a restart")
	rests()
	url := testdb.PostgresDatabase(t)
	s.Verb("copy", "buckets", "--to", url)
	s = binary.Start(t, t.TempDir(), bucketsOn(t, url, disks)...)
	check("on PostgreSQL")
	rests()
	if out := s.Verb("buckets", "names", "free", "gone"); !strings.Contains(out, "freed the name gone") {
		t.Errorf("free: %s", out)
	}
	s.Verb("buckets", "buckets", "set-access", "other", "gone", "--access", "public-read")
	third.at(s.S3URL()).want(http.StatusOK, http.MethodGet, "/gone/k", nil)
}

func getAnonymously(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(content)
}

// waitForAccess waits until the server sees a change that a command made in its database, which takes up to a second.
func waitForAccess(t *testing.T, url string) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
		if time.Since(start) > binary.Bound {
			t.Fatalf("%s: %d", url, r.StatusCode)
		}
	}
}
