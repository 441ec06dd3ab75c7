package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

const (
	manyPlain     = 88_000 // unversioned objects
	manyVersioned = 4_000  // keys with two versions; every second key also has a delete marker, every eighth a third version
)

// TestBucketsImportMany imports 100,000 objects, versions and delete markers from MinIO, and compares bodies and
// checksums with rclone. It logs how the speed compares to rclone copy.
func TestBucketsImportMany(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "other tests import all kinds of objects; this one takes minutes")
	rclone := binary.Program(t, "rclone")
	b := binary.MinIO(t, "plain")
	source := s3{t, &buckets.Client{URL: "http://" + b.Address, Signer: buckets.Key(b.ID, b.Secret), HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: manyWriters}}}}
	source.send(http.StatusOK, http.MethodPut, "/versioned", nil)
	source.setVersioning("versioned", "Enabled")
	i := newImportTest(t, source, nil, "HOLDFAST_LOG__ACCESS=false")
	timed := func(name string, objects int, do func()) float64 {
		t.Helper()
		start := time.Now()
		do()
		rate := float64(objects) / time.Since(start).Seconds()
		t.Logf("%s: %d in %v, %.0f/s", name, objects, time.Since(start).Round(time.Second), rate)
		return rate
	}
	many := manyVersioned*2 + manyVersioned/2 + manyVersioned/8 + manyPlain
	timed("written to MinIO", many, func() {
		seedMany(source, manyPlain, writePlain)
		seedMany(source, manyVersioned, writeVersions)
	})
	imported := timed("imported without versions", manyPlain, func() { i.run(0, fmt.Sprintf("imported %d objects", manyPlain), "s3://plain") })
	timed("imported with versions", many-manyPlain, func() { i.run(0, "imported ", "s3://versioned") })
	i.sameHistories("versioned")
	i.run(0, fmt.Sprintf("imported 0 objects (0 B) of %d", manyPlain), "s3://plain", "--ignore-tags")

	run := rcloneOf(t, rclone, source, i.target)
	copied := timed("copied by rclone", manyPlain, func() { run("copy", "old:plain", "new:copied", "--transfers", "16", "--checkers", "16") })
	t.Logf("import: %.2f of the speed of rclone copy", imported/copied)
	for bucket, objects := range map[string]int{"plain": manyPlain, "versioned": manyVersioned/2 + manyVersioned/8} {
		for _, by := range []string{"--checksum", "--download"} {
			timed("rclone check "+by+" "+bucket, objects, func() { run("check", by, "old:"+bucket, "new:"+bucket, "--checkers", "16") })
		}
	}
}

func rcloneOf(t *testing.T, program string, source, target s3) func(args ...string) {
	t.Helper()
	// rclone fails if AWS_CA_BUNDLE is set.
	env := slices.DeleteFunc(binary.Environ("RCLONE_CONFIG=/dev/null"), func(kv string) bool { return strings.HasPrefix(kv, "AWS_") })
	for name, c := range map[string]s3{"OLD": source, "NEW": target} {
		for option, value := range map[string]string{"TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": c.URL, "REGION": "us-east-1", "ACCESS_KEY_ID": c.AccessKeyID, "SECRET_ACCESS_KEY": c.Secret} {
			env = append(env, "RCLONE_CONFIG_"+name+"_"+option+"="+value)
		}
	}
	return func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("rclone %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

const manyWriters = 16

func seedMany(c s3, n int, write func(c s3, n int) error) {
	c.t.Helper()
	numbers := make(chan int)
	var work sync.WaitGroup
	for range manyWriters {
		work.Go(func() {
			for n := range numbers {
				if err := write(c, n); err != nil {
					c.t.Errorf("object %d: %v", n, err)
				}
			}
		})
	}
	for n := range n {
		if c.t.Failed() {
			break
		}
		numbers <- n
	}
	close(numbers)
	work.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c s3) try(method, path, body string, headers ...string) (http.Header, error) {
	a, err := c.Send(c.t.Context(), method, path, body, headers...)
	if err == nil && a.Status/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	return a.Header, err
}

// manyBody returns up to 8 KiB of text, and 200 KiB for every thousandth number.
func manyBody(n int) string {
	size := n * 37 % 8192
	if n%1000 == 1 {
		size = 200 << 10
	}
	line := fmt.Sprintf("%09d\n", n)
	return strings.Repeat(line, size/len(line)+1)[:size]
}

// writePlain adds tags to every twentieth object, and uploads every three thousandth in parts.
func writePlain(c s3, n int) error {
	path := fmt.Sprintf("/plain/%03d/%d %%C3%%BC", n%500, n)
	var headers []string
	if n%20 == 0 {
		headers = []string{fmt.Sprintf("X-Amz-Tagging: n=%d&kind=a%%20b", n), "X-Amz-Meta-Number: " + fmt.Sprint(n), "Content-Type: text/plain"}
	}
	if n%3000 == 2 {
		return c.tryParts(path, string(bytes.Repeat([]byte("p"), 5<<20)), manyBody(n)+"end")
	}
	_, err := c.try(http.MethodPut, path, manyBody(n), headers...)
	return err
}

func (c s3) tryParts(path string, parts ...string) error {
	a, err := c.Send(c.t.Context(), http.MethodPost, path+"?uploads", "")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(a.Body, "<UploadId>")
	id, _, _ := strings.Cut(rest, "</UploadId>")
	list := "<CompleteMultipartUpload>"
	for n, part := range parts {
		header, err := c.try(http.MethodPut, fmt.Sprintf("%s?partNumber=%d&uploadId=%s", path, n+1, id), part)
		if err != nil {
			return err
		}
		list += fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", n+1, header.Get("ETag"))
	}
	_, err = c.try(http.MethodPost, path+"?uploadId="+id, list+"</CompleteMultipartUpload>")
	return err
}

func writeVersions(c s3, n int) error {
	path := fmt.Sprintf("/versioned/%d/key", n)
	for m := range 2 {
		if _, err := c.try(http.MethodPut, path, manyBody(n+m)); err != nil {
			return err
		}
	}
	if n%2 == 0 {
		if _, err := c.try(http.MethodDelete, path, ""); err != nil {
			return err
		}
	}
	if n%8 == 0 {
		_, err := c.try(http.MethodPut, path, manyBody(n+2), fmt.Sprintf("X-Amz-Tagging: n=%d", n))
		return err
	}
	return nil
}

// sameHistories compares the version lists on both sides by order, size, ETag and time.
func (i *importTest) sameHistories(bucket string) {
	i.Helper()
	from, here := i.source.histories(bucket), i.target.histories(bucket)
	if len(from) != len(here) {
		i.Fatalf("%d names at the source, %d here", len(from), len(here))
	}
	for key := range from {
		if len(from[key]) != len(here[key]) {
			i.Errorf("%s: %v, want %v", key, here[key], from[key])
			continue
		}
		for n, there := range from[key] {
			copied := here[key][n]
			if copied.VersionID = there.VersionID; copied != there {
				i.Errorf("%s: %+v, want %+v", key, copied, there)
			}
		}
	}
}
