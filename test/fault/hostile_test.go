package fault

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/ext"
	extfault "holdfast/test/fault/ext"
	"holdfast/test/fault/harness"
)

// TestSlowClients checks that the server disconnects clients that send their header or body byte by byte, and that
// they do not affect other clients.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	const slow, limit = 100, 2 * time.Second
	h := harness.Start(t, 5, testdb.SQLite(t), "HOLDFAST_SERVER__HEADER_TIMEOUT=2s", "HOLDFAST_SERVER__CLIENT_GRACE=2s")
	beside := h.StartOthers(4)
	body := `[{"id":"slow","payload":"` + strings.Repeat("x", 100_000) + `"}]`
	whole := string(h.Text(h.Users[0], http.MethodPost, "/storage/tabs", body))
	end := strings.Index(whole, "\r\n\r\n") + 4
	in := extfault.NewInstall(t, 1)
	put := string(extfault.WireExt(h, in, ext.Call{Method: http.MethodPut, Path: "/namespaces/settings/records/slow", Body: `{"value":"` + strings.Repeat("x", 60_000) + `"}`}))
	lines := string(extfault.WireExt(h, in, ext.Call{Method: http.MethodPost, Path: "/import", Body: strings.Repeat(`{"namespace":"settings","key":"line","value":1}`+"\n", 2000)}))
	unsigned := "POST /1.5/1/storage/tabs HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
	var clients sync.WaitGroup
	for name, c := range map[string]struct {
		first, drip string
		status      string // expected status; "" for no response
	}{
		"header":        {whole[:20], whole[20:], "400"}, // from net/http, because half a line is not valid
		"body":          {whole[:end], whole[end:], "408"},
		"value":         {put[:1000], put[1000:], "408"},
		"import":        {lines[:1000], lines[1000:], "408"},
		"unsigned body": {unsigned, strings.Repeat("x", 100_000), "401"},
	} {
		for range slow {
			conn := h.Dial(4 << 10)
			clients.Go(func() {
				start := time.Now()
				answer := dripping(conn, c.first, c.drip)
				if took := time.Since(start); took > limit+harness.Patience+harness.Bound/3 {
					t.Errorf("%s: ended after %v", name, took)
				}
				if answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) {
					t.Errorf("%s: %.60q", name, answer)
				}
			})
		}
	}
	clients.Wait()
	beside.Stop()
	if err := h.Send(h.Users[0], http.MethodGet, "/storage/tabs/slow", ""); err == nil {
		t.Error("half a request was accepted")
	}
	extfault.WantExt(h, in, http.StatusNotFound, ext.Call{Method: http.MethodGet, Path: "/namespaces/settings/records/slow"})
}

// dripping sends first at once and rest byte by byte, until the server closes the connection or the deadline passes.
func dripping(conn net.Conn, first, rest string) string {
	_ = conn.SetDeadline(time.Now().Add(2 * harness.Bound)) // fails only on a closed connection
	ended := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(conn)
		ended <- string(text)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	_, err := io.WriteString(conn, first)
	for i := 0; i < len(rest) && err == nil; i++ {
		select {
		case answer := <-ended:
			return answer
		case <-tick.C:
			_, err = io.WriteString(conn, rest[i:i+1])
		}
	}
	return <-ended
}

// TestIdleConnections checks that ten thousand idle connections use bounded memory, do not affect other clients, and
// are closed in time.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	const each = 36 << 10 // bytes of memory
	connections := int64(harness.Number(t, "FAULT_CONNECTIONS", 2_500))
	var files syscall.Rlimit
	harness.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if files.Max < uint64(connections)+1000 { // the Go runtime raises the soft limit to the hard limit
		t.Skipf("needs a hard limit of %d open files (ulimit -Hn), the limit is %d", connections+1000, files.Max)
	}
	h := harness.Start(t, 4, testdb.SQLite(t), "HOLDFAST_SERVER__IDLE_TIMEOUT=20s")
	h.Client.Transport.(*http.Transport).IdleConnTimeout = time.Second // the client must close its connections before the server does
	before := h.Resident("VmRSS")
	conns := make([]net.Conn, connections)
	for i := range conns {
		conns[i] = h.Dial(4 << 10)
		_, err := io.WriteString(conns[i], "GET /1.5/1/info/configuration HTTP/1.1\r\nHost: a\r\n\r\n")
		harness.Must(t, err)
		answer := bufio.NewReaderSize(conns[i], 1024)
		resp, err := http.ReadResponse(answer, nil)
		harness.Must(t, err)
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || n == 0 {
			t.Fatalf("connection %d: %s, %v", i, resp.Status, err)
		}
	}
	after := h.Resident("VmRSS")
	t.Logf("%d MB before, %d MB with %d idle connections: %d bytes each", before>>20, after>>20, connections, (after-before)/connections)
	if most := before + connections*each; after > most {
		t.Errorf("%d MB with %d idle connections, want at most %d MB", after>>20, connections, most>>20)
	}
	beside := h.StartOthers(4)
	deadline := time.Now().Add(2 * harness.Bound)
	var closed sync.WaitGroup
	for i, conn := range conns {
		harness.Must(t, conn.SetReadDeadline(deadline))
		closed.Go(func() {
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("connection %d was not closed in time: %v", i, err)
			}
		})
	}
	closed.Wait() // reads have a deadline
	beside.Stop()
}
