package e2e

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// copyTree copies a folder with its permissions, like the guide's command.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v %s", err, out)
	}
}

func configFile(t *testing.T, dir string, nodes []string, folder func(node string) string) string {
	t.Helper()
	var text strings.Builder
	for _, id := range nodes {
		fmt.Fprintf(&text, "[buckets.nodes.%q]\nurl = %q\n", id, "file://"+folder(id))
	}
	path := filepath.Join(dir, "holdfast.toml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bodyFiles(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ",") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (c s3) objects(bucket string) map[string]string {
	c.t.Helper()
	all, after := map[string]string{}, ""
	for {
		var page struct {
			Contents []struct{ Key, ETag string }
			Next     string `xml:"NextContinuationToken"`
		}
		query := "?list-type=2"
		if after != "" {
			query += "&continuation-token=" + url.QueryEscape(after)
		}
		if err := xml.Unmarshal(c.want(http.StatusOK, http.MethodGet, "/"+bucket+query, nil), &page); err != nil {
			c.t.Fatal(err)
		}
		for _, o := range page.Contents {
			all[o.Key] = strings.Trim(o.ETag, `"`)
		}
		if after = page.Next; after == "" {
			return all
		}
	}
}

func (c s3) ask(method, target, body string, headers ...string) (binary.Answer, bool) {
	a, err := c.Send(c.t.Context(), method, target, body, headers...)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, target, err)
	}
	return a, err == nil
}

func (c s3) multipart(path string, body []byte) {
	c.t.Helper()
	upload := buckets.Write{Kind: "upload", Path: path, Parts: []string{string(body)}}
	if _, answered, err := upload.Do(c.ask); err != nil || !answered {
		c.t.Fatalf("%s: %v", &upload, err)
	}
}

func (c s3) write(n int, stop <-chan struct{}, wrote chan<- struct{}) {
	w := buckets.NewWriter("/photos", n, nil)
	w.Random = rand.New(rand.NewPCG(uint64(n), 1))
	for {
		select {
		case <-stop:
			return
		default:
		}
		d := w.Next()
		if _, answered, err := d.Do(c.ask); err != nil || !answered {
			c.t.Errorf("%s: %v", d, err)
			return
		}
		w.Done(d, 0)
		select {
		case wrote <- struct{}{}:
		default:
		}
	}
}

// wantIntact compares the MD5 of every object and expects at least n objects.
func (c s3) wantIntact(n int) {
	c.t.Helper()
	all := c.objects("photos")
	if len(all) < n {
		c.t.Errorf("%d objects, want at least %d", len(all), n)
	}
	for key, tag := range all {
		sum := md5.Sum(c.want(http.StatusOK, http.MethodGet, "/photos/"+key, nil))
		want := hex.EncodeToString(sum[:])
		if strings.HasSuffix(tag, "-1") {
			outer := md5.Sum(sum[:])
			want = hex.EncodeToString(outer[:]) + "-1"
		}
		if tag != want {
			c.t.Errorf("%s has the MD5 %s, want %s", key, want, tag)
		}
	}
}

// TestBucketsBackup makes a backup during writes and garbage collection. After a restore, every object must match its
// MD5.
func TestBucketsBackup(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]string{"one node": nil, "three nodes": {"a:1", "b:1", "b:2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if nodes != nil {
				testdb.CheckOnly(t, "one node has shown most of it")
			}
			data, dir, listen := t.TempDir(), t.TempDir(), testdb.FreeAddress(t)
			vars := []string{
				"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=" + listen, "HOLDFAST_BUCKETS__GARBAGE_AFTER=0s",
				"HOLDFAST_BUCKETS__SWEEP_INTERVAL=10ms", "HOLDFAST_BUCKETS__INLINE=0",
			}
			config := func(dir string, folder func(string) string) []string {
				return append(vars, "HOLDFAST_CONFIG="+configFile(t, dir, nodes, folder))
			}
			s := binary.Start(t, data, config(dir, func(id string) string { return filepath.Join(dir, id) })...)
			c := newS3(t, s, "http://"+listen)
			c.want(http.StatusOK, http.MethodPut, "/photos", nil)
			stop := make(chan struct{})
			wrote := make(chan struct{})
			var writers sync.WaitGroup
			for i := range 6 {
				writers.Go(func() { c.write(i, stop, wrote) })
			}
			rounds := 2
			if n, err := strconv.Atoi(os.Getenv("FAULT_ROUNDS")); err == nil {
				rounds = n
			}
			backup := func(i int) string { return filepath.Join(dir, "backup"+strconv.Itoa(i)) }
			for i := range rounds {
				for range 50 {
					<-wrote
				}
				if r := binary.Run(t, s.Env, "backup", backup(i)); r.Status != 0 || r.Stderr != "" {
					t.Errorf("backup: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
				}
			}
			close(stop)
			writers.Wait()
			s.Kill()
			for i := range rounds {
				restored := filepath.Join(t.TempDir(), "data")
				copyTree(t, backup(i), restored)
				s := binary.Start(t, restored, config(t.TempDir(), func(id string) string {
					return filepath.Join(restored, "buckets.nodes", strings.Replace(id, ":", ",", 1))
				})...)
				c.wantIntact(10)
				c.want(http.StatusOK, http.MethodPut, "/photos/new", []byte("x"))
				s.Kill()
			}
		})
	}
}

// TestBucketsBackupLacks checks the messages about bodies that are missing from a backup.
func TestBucketsBackupLacks(t *testing.T) {
	t.Parallel()
	data, dir, listen := t.TempDir(), t.TempDir(), testdb.FreeAddress(t)
	vars := []string{"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=" + listen, "HOLDFAST_BUCKETS__INLINE=0"}
	s := binary.Start(t, data, vars...)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	c.want(http.StatusOK, http.MethodPut, "/photos/a", []byte("body a"))
	c.want(http.StatusOK, http.MethodPut, "/photos/b", []byte("body b"))

	r := binary.Run(t, s.Env, "backup", "--no-bodies", dir+"/none")
	if node := "the bodies on storage node local:1, file://" + data + "/buckets"; r.Status != 0 || !strings.Contains(r.Stderr, node) {
		t.Errorf("without bodies: %d %s", r.Status, r.Stderr)
	}
	if all := bodyFiles(t, dir+"/none"); len(all) > 0 {
		t.Errorf("without bodies: %v", all)
	}
	s.Verb("backup", dir+"/whole")
	if n := number(t, data+"/buckets.db", `SELECT count(*) FROM manta_bucket_hold`); n != 0 {
		t.Errorf("%d holds are left", n)
	}
	bodies := bodyFiles(t, data+"/buckets")
	if got := bodyFiles(t, dir+"/whole/buckets"); len(got) != 2 || len(bodies) != 2 {
		t.Fatalf("bodies %v, in the backup %v", bodies, got)
	}
	if err := os.WriteFile(bodies[0], []byte("body x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = binary.Run(t, s.Env, "backup", dir+"/lacks")
	if r.Status != 1 || !strings.Contains(r.Stderr, filepath.Base(bodies[0])) || !strings.Contains(r.Stderr, "without 1 file that could not be read") {
		t.Errorf("with a corrupt body: %d %s", r.Status, r.Stderr)
	}
	if got := bodyFiles(t, dir+"/lacks/buckets"); len(got) != 1 || filepath.Base(got[0]) != filepath.Base(bodies[1]) {
		t.Errorf("with a corrupt body: %v", got)
	}
}
