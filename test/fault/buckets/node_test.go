package buckets

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

type stored map[string]string

func (b *Workload) store(h *harness.Harness) stored {
	h.T.Helper()
	b.open(h)
	w := &buckets.Writer{N: 100}
	all := stored{}
	for i := range 12 {
		key := fmt.Sprintf("stored-%d", i)
		all[key] = w.Body([]int{20_000, 100_000, 300_000, 1 << 20}[i%4])
		b.want(h, http.StatusOK, http.MethodPut, "/fault/"+key, all[key])
	}
	d := &buckets.Write{Kind: "upload", Path: "/fault/stored-parts", Parts: []string{w.Body(buckets.FirstPart), w.Body(50_000)}}
	all["stored-parts"] = strings.Join(d.Parts, "")
	_, _, err := d.Do(func(method, target, body string, headers ...string) (binary.Answer, bool) {
		a, err := b.send(h, h.Server, method, target, body, headers...)
		harness.Must(h.T, err)
		return a, true
	})
	harness.Must(h.T, err)
	return all
}

func (s stored) readable(b *Workload, h *harness.Harness) {
	h.T.Helper()
	var reading sync.WaitGroup
	for key, body := range s {
		reading.Go(func() {
			a, err := b.send(h, h.Server, http.MethodGet, "/fault/"+key, "")
			if err != nil || a.Status != http.StatusOK || a.Body != body {
				h.T.Errorf("GET %s: %d, %d bytes, %v", key, a.Status, len(a.Body), err)
			}
			for range 4 {
				from := rand.IntN(len(body))
				to := from + rand.IntN(len(body)-from)
				a, err := b.send(h, h.Server, http.MethodGet, "/fault/"+key, "", fmt.Sprintf("Range: bytes=%d-%d", from, to))
				if err != nil || a.Status != http.StatusPartialContent || a.Body != body[from:to+1] {
					h.T.Errorf("GET %s, bytes %d to %d: %d, %d bytes, %v", key, from, to, a.Status, len(a.Body), err)
				}
			}
		})
	}
	reading.Wait()
}

// TestBucketsWrongBytes damages one copy per body: flipped bits, or a file that is truncated, empty, too long,
// missing, or another body. Readers must get the good copy, and an audit restores the damaged copies.
func TestBucketsWrongBytes(t *testing.T) {
	t.Parallel()
	h, b := newBuckets(t, nodeFolders(t), testdb.SQLite(t))
	h.Server = h.Serve()
	all := b.store(h)
	before := b.contents(h)
	var names []string
	for name := range before {
		names = append(names, name)
	}
	slices.Sort(names)
	damaged := map[string]bool{}
	for _, name := range names {
		body := filepath.Base(name)
		if damaged[body] {
			continue
		}
		text := []byte(before[name])
		switch len(damaged) % 8 {
		case 0:
			text[0] ^= 1
		case 1:
			text[len(text)/2] ^= 0x80
		case 2:
			text[len(text)-1] ^= 4
		case 3:
			text = text[:len(text)-1]
		case 4:
			text = nil
		case 5:
			text = append(text, 0)
		case 6:
			slices.Reverse(text)
		case 7:
			harness.Must(t, os.Remove(name))
		}
		if len(damaged)%8 < 7 {
			harness.Must(t, os.WriteFile(name, text, 0o600))
		}
		damaged[body] = true
	}
	all.readable(b, h)
	r := binary.Run(t, h.Server.Env, "buckets", "audits", "run", "--verify")
	// The server repairs damage in the background, so only the remaining damage counts.
	found, left := strings.Count(r.Stdout, "corrupt ")+strings.Count(r.Stdout, "missing "), 0
	now := b.contents(h)
	for name, body := range before {
		if now[name] != body {
			left++
		}
	}
	if found < left || left > 0 && r.Status != 1 {
		t.Errorf("%d of %d damaged bodies are left, and an audit found %d: status %d\n%s%s", left, len(damaged), found, r.Status, r.Stdout, r.Stderr)
	}
	if r := binary.Run(t, h.Server.Env, "buckets", "audits", "run", "--verify", "--repair"); r.Status != 0 {
		t.Errorf("repair: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	after := b.contents(h)
	for name, body := range before {
		if after[name] != body {
			t.Errorf("%s was not restored", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files before the damage, %d after the repair", len(before), len(after))
	}
	all.readable(b, h)
	b.removeAll(h, all)
}

// contents reads all files. The server may replace files at the same time.
func (b *Workload) contents(h *harness.Harness) map[string]string {
	h.T.Helper()
	all := map[string]string{}
	for _, file := range b.files(h) {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		harness.Must(h.T, err)
		all[file] = string(text)
	}
	return all
}

// removeAll deletes the objects. Only locked versions may remain.
func (b *Workload) removeAll(h *harness.Harness, all stored) {
	h.T.Helper()
	for key := range all {
		b.want(h, http.StatusNoContent, http.MethodDelete, "/fault/"+key, "")
	}
	b.audited(h, b.locked)
}

// TestBucketsSlowNode uses another server's bucket as the third node, behind a network that becomes slow and then
// silent. Readers and writers must use the file nodes.
func TestBucketsSlowNode(t *testing.T) {
	t.Parallel()
	other := binary.Start(t, testdb.SQLite(t), "HOLDFAST_LOG__ACCESS=false")
	key := other.S3(t)
	_, address, _ := strings.Cut(key.URL, "://")
	far := harness.NetworkTo(t, "tcp", address)
	h, b := newBuckets(t, nodeFolders(t), testdb.SQLite(t), "AWS_ACCESS_KEY_ID="+key.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+key.Secret)
	remote := &Workload{key: key.Signer}
	remote.want(&harness.Harness{T: t, Server: other, Client: h.Client}, http.StatusOK, http.MethodPut, "/node", "")
	config := configOf(h, t)
	text, err := os.ReadFile(config)
	harness.Must(t, err)
	url := "s3://node?region=us-east-1&use_path_style=true&endpoint=http://" + far.Listener.Addr().String()
	harness.Must(t, os.WriteFile(config, []byte(strings.Replace(string(text), "file://"+b.Nodes[2].Dir, url, 1)), 0o600))
	b.Nodes = b.Nodes[:2]
	h.Server = h.Serve()

	far.Slow(10 * time.Millisecond)
	all := b.store(h)
	if n := len(b.files(h)); n == 2*(len(all)+1) {
		t.Errorf("all %d copies are on the file nodes", n)
	}
	all.readable(b, h)
	far.Silence()
	all.readable(b, h) // would take 10 seconds if the silent node were asked first
	for i := range 5 {
		key := fmt.Sprintf("while-silent-%d", i)
		all[key] = buckets.Body(200+i, 1, 100_000)
		b.want(h, http.StatusOK, http.MethodPut, "/fault/"+key, all[key])
	}
	far.Heal()
	h.Server.AwaitMetric(`holdfast_buckets_node_up{node="west:1"} 1`)
	all.readable(b, h)
	if r := binary.Run(t, h.Server.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
		t.Errorf("audit: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	b.removeAll(h, all)
	if list := remote.want(&harness.Harness{T: t, Server: other, Client: h.Client}, http.StatusOK, http.MethodGet, "/node", "").Body; strings.Count(list, "<Key>") != 1 { // only the marker remains
		t.Errorf("left on the remote node: %s", list)
	}
}

func configOf(h *harness.Harness, t *testing.T) string {
	t.Helper()
	for _, v := range h.Vars {
		if path, ok := strings.CutPrefix(v, "HOLDFAST_CONFIG="); ok {
			return path
		}
	}
	t.Fatal("no configuration file")
	return ""
}

// TestBucketsMissingFolder adds a node whose parent folder is missing. The server must report it, must not store
// bodies with fewer copies, and uses the node once the folder exists.
func TestBucketsMissingFolder(t *testing.T) {
	t.Parallel()
	folders := nodeFolders(t)
	folders[1] = filepath.Join(folders[1], "unmounted")
	h, b := newBuckets(t, folders, testdb.SQLite(t))
	b.Nodes = b.Nodes[:2]
	harness.Must(t, os.WriteFile(configOf(h, t), []byte(strings.Replace(b.text(), "copies = 2\n", "", 1)), 0o600))
	h.Server = binary.Launch(t, h.Data, h.Vars...)
	missing := folders[1] + " does not exist"
	reason := h.Server.AwaitAnswer("/readyz", func(status int, body string) bool {
		return status == http.StatusServiceUnavailable && strings.Contains(body, missing)
	})
	if !strings.Contains(reason, "east:2") {
		t.Errorf("the server is not ready: %s", reason)
	}
	check := func(status int, want string) {
		t.Helper()
		if r := binary.Run(t, h.Server.Env, "check"); r.Status != status || !strings.Contains(r.Stdout, want) {
			t.Errorf("check: status %d, expected %q\n%s%s", r.Status, want, r.Stdout, r.Stderr)
		}
	}
	check(1, missing+": create it, or mount its disk")
	b.open(h)
	b.want(h, http.StatusOK, http.MethodPut, "/fault/small", "in the database")
	body := b.writers[0].Body(100_000)
	if a := b.want(h, http.StatusServiceUnavailable, http.MethodPut, "/fault/large", body); !harness.Unavailable(a) || !strings.Contains(a.Body, "<Code>ServiceUnavailable<") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if left := b.files(h); len(left) > 0 {
		t.Errorf("left after a refused write: %v", left)
	}
	harness.Must(t, os.Mkdir(folders[1], 0o700))
	h.Server.Await("/readyz", http.StatusOK)
	b.want(h, http.StatusOK, http.MethodPut, "/fault/large", body)
	if all := b.files(h); len(all) != 2 {
		t.Errorf("two copies are expected on two nodes: %v", all)
	}
	check(0, "buckets nodes")
}
