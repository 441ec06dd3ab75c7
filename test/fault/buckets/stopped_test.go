package buckets

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// clientWaits is the response timeout in clients such as the AWS SDKs.
const clientWaits = time.Minute

type nodeServer struct {
	*harness.Harness
	*Workload
}

const nodeKey, nodeSecret = "NODEKEY", "the-secret-of-a-storage-node"

func newNodeServer(t *testing.T, client *http.Client) *nodeServer {
	t.Helper()
	config := filepath.Join(t.TempDir(), "holdfast.toml")
	harness.Must(t, os.WriteFile(config, fmt.Appendf(nil, "[buckets.accounts.main.keys.node]\naccess_key = %q\nsecret_key = %q\n", nodeKey, nodeSecret), 0o600))
	s := binary.Start(t, testdb.SQLite(t), "HOLDFAST_LOG__ACCESS=false", "HOLDFAST_CONFIG="+config)
	n := &nodeServer{
		Harness:  &harness.Harness{T: t, Server: s, Client: client},
		Workload: &Workload{key: buckets.Key(nodeKey, nodeSecret)},
	}
	n.want(n.Harness, http.StatusOK, http.MethodPut, "/node", "")
	t.Cleanup(n.proceed) // before the server's kill
	return n
}

func (n *nodeServer) url() string {
	return "s3://node?region=us-east-1&use_path_style=true&endpoint=" + n.Server.S3URL()
}

func (n *nodeServer) stop()    { n.Server.Signal(syscall.SIGSTOP) }
func (n *nodeServer) proceed() { n.Server.Signal(syscall.SIGCONT) }

// TestBucketsStoppedNodes stops one and then two of three storage node processes, so that they accept connections but
// do not respond. Each PUT must finish before its client's timeout, on other nodes or with an error. Reads use the
// remaining copies, and the server uses all nodes again when they respond.
func TestBucketsStoppedNodes(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "TestNodesHang shows it in one process; this one takes a minute or more")
	client := &http.Client{Timeout: clientWaits, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(client.CloseIdleConnections)
	near, far := newNodeServer(t, client), newNodeServer(t, client)
	h, b := newBuckets(t, nodeFolders(t), testdb.SQLite(t), "AWS_ACCESS_KEY_ID="+nodeKey, "AWS_SECRET_ACCESS_KEY="+nodeSecret)
	h.Client = client
	text := strings.Replace(b.text(), "file://"+b.Nodes[1].Dir, near.url(), 1)
	text = strings.Replace(text, "file://"+b.Nodes[2].Dir, far.url(), 1)
	harness.Must(t, os.WriteFile(configOf(h, t), []byte(text), 0o600))
	b.Nodes = b.Nodes[:1]
	h.Server = h.Serve()
	all := b.store(h)

	near.stop()
	b.putAll(h, all, "one", http.StatusOK)
	far.stop()
	b.putAll(h, nil, "two", http.StatusServiceUnavailable)
	here := stored{}
	for _, file := range b.files(h) {
		_, sum, _ := strings.Cut(filepath.Base(file), ",")
		for key, body := range all {
			if key != "stored-parts" && buckets.MD5(key) == sum { // each part selects its own nodes
				here[key] = body
			}
		}
	}
	if len(here) == 0 || len(here) == len(all) {
		t.Fatalf("%d of %d bodies have a copy on the responding node", len(here), len(all))
	}
	here.readable(b, h)
	far.proceed()
	b.putAll(h, all, "again", http.StatusOK)
	near.proceed()
	all.readable(b, h)
	if r := binary.Run(t, h.Server.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
		t.Errorf("audit: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	b.removeAll(h, all)
	for _, n := range []*nodeServer{near, far} {
		for deadline := time.Now().Add(harness.Bound); ; { // the nodes may still process earlier requests
			b.later(h, "buckets", "audits", "run", "--repair")
			list := n.want(n.Harness, http.StatusOK, http.MethodGet, "/node", "").Body
			if strings.Count(list, "<Key>") == 1 {
				break
			}
			if t.Failed() || time.Now().After(deadline) {
				t.Fatalf("left on a node: %s", list)
			}
		}
	}
}

func (b *Workload) putAll(h *harness.Harness, all stored, name string, status int) {
	h.T.Helper()
	before := len(b.files(h))
	var (
		writing sync.WaitGroup
		mu      sync.Mutex
	)
	for i := range 8 {
		key := fmt.Sprintf("%s-%d", name, i)
		body := buckets.Body(300+i, 1, []int{100_000, 3 << 20}[i%2])
		writing.Go(func() {
			begun := time.Now()
			a, err := b.send(h, h.Server, http.MethodPut, "/fault/"+key, body)
			if err != nil || a.Status != status || status != http.StatusOK && !harness.Unavailable(a) {
				h.T.Errorf("PUT %s: %d %s %v after %v, expected %d", key, a.Status, a.Body, err, time.Since(begun), status)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if status == http.StatusOK {
				all[key] = body
			}
		})
	}
	writing.Wait()
	if status == http.StatusOK {
		return
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Bound); ; <-tick.C {
		left := len(b.files(h))
		if left == before {
			return
		}
		if time.Now().After(deadline) {
			h.T.Errorf("%d files on the responding node after refused writes, %d before", left, before)
			return
		}
	}
}
