package s3api_test

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/testdb"
)

func (s *server) damageCopy(node int, at int64) {
	s.t.Helper()
	err := filepath.WalkDir(filepath.Join(s.folders[node], "v2"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte("sixteen bad byte"), at)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// large returns 12 MB of numbered lines, so that misplaced bytes are noticed.
func large() string {
	var b strings.Builder
	for i := range 1_500_000 {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.String()
}

// TestDamagedCopyIsNotNoticed damages one copy. Whole reads, ranges, parts and copies must use the other.
func TestDamagedCopyIsNotNoticed(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "bodies of megabytes are read many times")
	s := withBucket(t)
	body := large()
	s.do("PUT", "/photos/k", body).want(200)
	id := s.upload("/photos/parts")
	s.complete("/photos/parts", id, s.part("/photos/parts", id, "1", body)).want(200)
	s.damageCopy(0, 3_000_000)
	for i := range 8 {
		s.do("GET", "/photos/k", "").want(200).is(body)
		s.do("GET", "/photos/k", "", "Range: bytes=2900000-3100000").want(206).is(body[2_900_000:3_100_001])
		s.do("GET", "/photos/k", "", "Range: bytes=3000000-3000000").want(206).is(body[3_000_000:3_000_001])
		s.do("GET", "/photos/parts?partNumber=1", "").want(206).is(body)
		key := fmt.Sprintf("/photos/copy%d", i)
		up := s.upload(key)
		from := s.do("PUT", key+"?partNumber=1&uploadId="+up, "", "x-amz-copy-source: photos/k", "x-amz-copy-source-range: bytes=0-5999999").want(200)
		s.complete(key, up, "<Part><PartNumber>1</PartNumber><ETag>"+from.element("ETag")+"</ETag></Part>").want(200)
		s.do("GET", key, "").want(200).is(body[:6_000_000])
		s.do("PUT", key, "", "x-amz-copy-source: photos/k").want(200)
		s.do("GET", key, "").want(200).is(body)
		s.do("DELETE", key, "").want(204)
	}
}

// TestNoGoodCopy checks that the response is an error or breaks off before the first wrong byte.
func TestNoGoodCopy(t *testing.T) {
	t.Parallel()
	s := withBucket(t, slog.New(slog.DiscardHandler))
	body := large()
	s.do("PUT", "/photos/k", body).want(200)
	for node := range s.folders {
		s.damageCopy(node, 3_000_000)
	}
	s.do("GET", "/photos/k", "", "Range: bytes=3000000-3000010").fails(500, "InternalError")
	s.do("PUT", "/photos/copy", "", "x-amz-copy-source: photos/k").fails(500, "InternalError")
	id := s.upload("/photos/copy")
	for range 4 {
		s.do("PUT", "/photos/copy?partNumber=1&uploadId="+id, "", "x-amz-copy-source: photos/k", "x-amz-copy-source-range: bytes=0-5999999").fails(500, "InternalError")
		s.do("GET", "/photos/k", "", "Range: bytes=6000000-6999999").want(206).is(body[6_000_000:7_000_000])
		r := s.request("GET", "/photos/k", "")
		s.main.Sign(r, sigv4test.Unsigned, time.Now())
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err == nil || len(got) > 3_000_000 || !strings.HasPrefix(body, string(got)) {
			t.Errorf("%d bytes, %v; want an error before byte 3,000,000", len(got), err)
		}
	}
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want the 2 of the source", n)
	}
}
