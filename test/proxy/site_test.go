package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/sync"
	"holdfast/test/binary"
)

func each(t *testing.T, test func(*testing.T, proxy)) {
	t.Helper()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

func TestSite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p proxy) {
		for name, mode := range map[string]struct {
			public  string
			setting string
			version int // HTTP version of the client
		}{
			"prefix":          {"https://example.org/sync", "HOLDFAST_SERVER__PUBLIC_URL=https://example.org/sync", 2},
			"own name":        {"https://example.org", "HOLDFAST_SERVER__PUBLIC_URL=https://example.org", 1},
			"trusted headers": {"https://example.org", "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1", 2},
			"another port":    {"https://example.org:8443", "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.0/8", 1},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := p.build(t, mode.public, nil, mode.setting, "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+accounts(t))
				if mode.version == 1 {
					protocols := &http.Protocols{}
					protocols.SetHTTP1(true)
					s.client.Transport.(*http.Transport).Protocols = protocols
				}
				signsIn(t, s, mode.version)
				anyID(t, s)
				preconditions(t, s)
				largeBodies(t, s)
				refusedBodies(t, s)
				spoofs(t, s)
			})
		}
	})
}

func accounts(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"user":"alice","scope":["https://identity.mozilla.com/apps/oldsync"]}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// signsIn gets a storage token from the public address, whose endpoint must be public too.
func signsIn(t *testing.T, s *site, version int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.public+"/1.0/sync/1.5", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer opaque")
	req.Header.Set("X-KeyID", "1234-qqo")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var granted struct {
		ID, Key  string
		UID      int64
		Endpoint string `json:"api_endpoint"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&granted); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("sign in: %d %v", resp.StatusCode, err)
	}
	if resp.ProtoMajor != version {
		t.Errorf("over HTTP/%d, want %d", resp.ProtoMajor, version)
	}
	if want := fmt.Sprintf("%s/1.5/%d", s.public, granted.UID); granted.Endpoint != want {
		t.Errorf("the storage is at %s, want %s", granted.Endpoint, want)
	}
	c := binary.Credentials{Credentials: sync.Credentials{ID: granted.ID, Key: granted.Key, UID: granted.UID, Endpoint: granted.Endpoint}}
	s.want(t, c, http.StatusOK, "PUT", "/storage/meta/global", `{"payload":"x"}`)
}

// anyID writes and reads records with IDs that a proxy might change.
func anyID(t *testing.T, s *site) {
	t.Helper()
	c := s.user(2)
	ids := map[string]string{ // escaped: plain
		"%7Bguid%7D": "{guid}", "%7bguid2%7d": "{guid2}", "a%2Fb": "a/b", "..": "..", "%2e": ".", "with%20space": "with space",
		"per%25cent": "per%cent", "q%3Fx": "q?x", "h%23x": "h#x", "%41": "A", "a+b": "a+b", "a;b": "a;b", "a:b@c": "a:b@c", "~x": "~x",
		"back%5Cslash": `back\slash`, "a%26b=c": "a&b=c",
	}
	if s.proxy.normalizes {
		for _, sent := range []string{"%7bguid2%7d", "%2e", "%41"} {
			s.want(t, c, http.StatusUnauthorized, "PUT", "/storage/col/"+sent, `{"payload":"x"}`)
			delete(ids, sent)
		}
	}
	for sent, id := range ids {
		payload := strconv.Quote("of " + sent)
		s.want(t, c, http.StatusOK, "PUT", "/storage/col/"+sent, `{"payload":`+payload+`}`)
		a := s.want(t, c, http.StatusOK, "GET", "/storage/col/"+sent, "")
		var got struct{ ID, Payload string }
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil || got.ID != id || got.Payload != "of "+sent {
			t.Errorf("%s: %s", sent, a.Body)
		}
	}
	a := s.want(t, c, http.StatusOK, "GET", "/info/collection_counts", "")
	if want := fmt.Sprintf(`{"col":%d}`, len(ids)); a.Body != want {
		t.Errorf("counts %s, want %s", a.Body, want)
	}
	a = s.want(t, c, http.StatusOK, "GET", "/storage/col?ids=%7Bguid%7D,with%20space&full=1", "")
	if strings.Count(a.Body, `"payload"`) != 2 {
		t.Errorf("two ids: %s", a.Body)
	}
}

func preconditions(t *testing.T, s *site) {
	t.Helper()
	c := s.user(3)
	stamp := s.want(t, c, http.StatusOK, "PUT", "/storage/col/x", `{"payload":"x"}`).Header.Get("X-Last-Modified")
	send := func(method, header, value, body string) binary.Answer {
		req, err := c.Request(t.Context(), method, "/storage/col/x", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return binary.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
	}
	if a := send("GET", "X-If-Modified-Since", stamp, ""); a.Status != http.StatusNotModified || a.Header.Get("X-Last-Modified") != stamp || a.Body != "" {
		t.Errorf("not modified: %+v", a)
	}
	if a := send("GET", "X-If-Modified-Since", "1.00", ""); a.Status != http.StatusOK {
		t.Errorf("modified: %+v", a)
	}
	if a := send("PUT", "X-If-Unmodified-Since", "1.00", `{"payload":"y"}`); a.Status != http.StatusPreconditionFailed || a.Header.Get("X-Last-Modified") != stamp {
		t.Errorf("modified since: %+v", a)
	}
	if a := send("PUT", "X-If-Unmodified-Since", stamp, `{"payload":"y"}`); a.Status != http.StatusOK || a.Header.Get("X-Weave-Timestamp") == "" {
		t.Errorf("not modified since: %+v", a)
	}
}

// largest is the default of syncstorage.limits.max_request_bytes.
const largest = 2625536

// largeBodies sends the largest body, a slightly larger body, and a body that the guide's proxies refuse.
func largeBodies(t *testing.T, s *site) {
	t.Helper()
	c := s.user(4)
	body := func(size int) string {
		const frame = `{"payload":""}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	// The payload may be up to 4 KiB smaller than the body; the rest is white space.
	s.want(t, c, http.StatusOK, "PUT", "/storage/col/large", body(largest-4096)+strings.Repeat(" ", 4096))
	if a := s.want(t, c, http.StatusOK, "GET", "/storage/col/large", ""); len(a.Body) < largest-4096 {
		t.Errorf("%d bytes came back", len(a.Body))
	}
	for _, size := range []int{largest + 1, 4 << 20} {
		s.want(t, c, http.StatusRequestEntityTooLarge, "PUT", "/storage/col/larger", body(size))
	}
	s.want(t, c, http.StatusNotFound, "GET", "/storage/col/larger", "")
}

// refusedBodies sends each service a body that it does not read: the refusal must arrive soon, and never as a 502.
func refusedBodies(t *testing.T, s *site) {
	t.Helper()
	// The server reads on for seconds after its answer. An answer that waits for this is always late, others only on a
	// busy machine.
	const late = time.Second
	body := strings.Repeat("x", 2<<20)
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"PUT", "/1.5/1/storage/col/x", http.StatusUnauthorized},
		{"PUT", "/1.5/1/nothing", http.StatusNotFound},
		{"POST", "/1.0/webhooks/fxa/events", http.StatusUnauthorized},
		{"POST", "/1.0/sync/1.5", http.StatusMethodNotAllowed},
		{"PUT", "/ext/v1/installs/7e000000-0000-4000-8000-000000000001/namespaces/a/records/x", http.StatusUnauthorized},
	} {
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			fastest := late
			for range 5 {
				public, err := url.Parse(s.public + tc.path)
				if err != nil {
					t.Fatal(err)
				}
				head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n",
					tc.method, public.Path, public.Host, expect, len(body))
				begun := time.Now()
				status := s.sendRaw(t, head, body)
				fastest = min(fastest, time.Since(begun))
				if status != tc.status {
					t.Errorf("%s %s %s: %d, want %d", tc.method, tc.path, expect, status, tc.status)
				}
			}
			if fastest >= late {
				t.Errorf("%s %s %s: each answer took more than %v", tc.method, tc.path, expect, late)
			}
		}
	}
}

// sendRaw sends an HTTP/1.1 request and returns the status. It reads while it sends: Go's client reports an error if the
// connection is closed during a write, even if there is an answer.
func (s *site) sendRaw(t *testing.T, head, body string) int {
	t.Helper()
	config := s.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = "example.org", []string{"http/1.1"}
	conn, err := tls.Dial("tcp", s.address, config)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, head+body) // may be cut off
	}()
	defer func() { conn.Close(); <-sent }()
	_ = conn.SetReadDeadline(time.Now().Add(binary.Bound))
	r := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%.40q: %v", head, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatalf("%.40q: %v", head, err)
		}
		if res.StatusCode != http.StatusContinue {
			return res.StatusCode
		}
	}
}

// spoofs sends headers that only a proxy may send. They must have no effect, and no address may be logged.
func spoofs(t *testing.T, s *site) {
	t.Helper()
	c := s.user(5)
	req, err := c.Request(t.Context(), http.MethodGet, "/info/collections", "")
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Forwarded", "for=203.0.113.7;host=evil.example;proto=http")
	req.Header.Set("X-Forwarded-Host", "evil.example")
	req.Header.Set("X-Forwarded-Proto", "http")
	req.Header.Set("X-Forwarded-For", "203.0.113.7")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with forged headers: %d", resp.StatusCode)
	}
	if log := s.server.Output.String(); strings.Contains(log, "203.0.113.7") || strings.Contains(log, "evil.example") {
		t.Errorf("the log has what a client claims of itself:\n%s", log)
	}
}

// TestLongPoll polls for changes through the proxy. A change ends a poll, and the proxy does not cut off the longest poll.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute: not with -short")
	}
	const install = "7e000000-0000-4000-8000-000000000001"
	each(t, func(t *testing.T, p proxy) {
		s := p.build(t, "https://example.org/sync", nil, "HOLDFAST_SERVER__PUBLIC_URL=https://example.org/sync")
		token := strings.TrimSpace(s.server.Verb("ext", "tokens", "create", "--tenant", "7e000000-0000-4000-8000-000000000002", "--install", install, "--namespace", "a=rw"))
		call := func(method, path, body string) (status int, text string) {
			req, err := http.NewRequestWithContext(t.Context(), method, s.public+"/ext/v1/installs/"+install+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Content-Type", "application/json")
			resp, err := s.client.Do(req)
			if err != nil {
				t.Errorf("%s %s: %v", method, path, err)
				return 0, ""
			}
			defer resp.Body.Close()
			all, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Errorf("%s %s: %v", method, path, err)
			}
			return resp.StatusCode, string(all)
		}
		answered := make(chan string)
		go func() {
			status, text := call("GET", "/changes?since=0&wait=60", "")
			answered <- fmt.Sprintf("%d %s", status, text)
		}()
		s.server.AwaitMetric(`holdfast_http_requests{state="idle"} 1`)
		if status, text := call("PUT", "/namespaces/a/records/x", `{"value": 1}`); status != http.StatusCreated && status != http.StatusOK {
			t.Fatalf("PUT: %d %s", status, text)
		}
		if a := <-answered; !strings.HasPrefix(a, "200 ") || !strings.Contains(a, `"key":"x"`) {
			t.Errorf("a wait that a change ends: %s", a)
		}
		begun := time.Now()
		if status, text := call("GET", "/changes?since=1&wait=60", ""); status != http.StatusOK || !strings.Contains(text, `"changes":[]`) {
			t.Errorf("the longest wait: %d %s after %v", status, text, time.Since(begun))
		}
	})
}

// TestUntrusted checks that the server ignores headers from an untrusted proxy.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p proxy) {
		s := p.build(t, "https://example.org", nil, "HOLDFAST_SERVER__TRUSTED_PROXIES=192.0.2.1")
		s.want(t, s.user(1), http.StatusUnauthorized, "GET", "/info/collections", "")
		s.server.AwaitMetric(`holdfast_refusals_total{reason="hawk-mac",service="syncstorage"} 1`)
	})
}

// TestCompression checks answers that the proxy compresses.
func TestCompression(t *testing.T) {
	t.Parallel()
	compress := map[string]func(string) string{
		"nginx": func(conf string) string {
			return replace(t, conf, "server_name ", "gzip on; gzip_proxied any; gzip_types application/json application/newlines; server_name ")
		},
		"caddy": func(conf string) string { return replace(t, conf, "bind ", "encode gzip\n\tbind ") },
		"apache": func(conf string) string {
			return replace(t, conf, "ServerName example.org\n", "ServerName example.org\nAddOutputFilterByType DEFLATE application/json application/newlines\n")
		},
	}
	compress["traefik"] = func(conf string) string {
		conf = replace(t, conf, "middlewares: [holdfast]", "middlewares: [holdfast, compress]")
		return replace(t, conf, "  middlewares:\n", "  middlewares:\n    compress: {compress: {}}\n")
	}
	each(t, func(t *testing.T, p proxy) {
		s := p.build(t, "https://example.org/sync", compress[p.name], "HOLDFAST_SERVER__PUBLIC_URL=https://example.org/sync")
		c := s.user(1)
		payload := strings.Repeat("abcd", 10_000)
		stamp := s.want(t, c, http.StatusOK, "PUT", "/storage/col/x", `{"payload":"`+payload+`"}`).Header.Get("X-Last-Modified")
		// Go's client requests and decodes gzip.
		for _, path := range []string{"/storage/col/x", "/storage/col?full=1"} {
			req, err := c.Request(t.Context(), http.MethodGet, path, "")
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !resp.Uncompressed || !strings.Contains(string(text), payload) || resp.Header.Get("X-Last-Modified") != stamp {
				t.Errorf("%s: %d bytes, compressed %v, X-Last-Modified %s, %v", path, len(text), resp.Uncompressed, resp.Header.Get("X-Last-Modified"), err)
			}
		}
	})
}

// TestLargeDownload reads 50 MB as slowly as a phone. All of it arrives, and the server never buffers much.
func TestLargeDownload(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p proxy) {
		s := p.build(t, "https://example.org/sync", nil, "HOLDFAST_SERVER__PUBLIC_URL=https://example.org/sync")
		c := s.user(1)
		const records, each = 200, 250_000
		payload := strings.Repeat("x", each)
		for i := 0; i < records; i += 10 {
			var b bytes.Buffer
			for j := i; j < i+10; j++ {
				fmt.Fprintf(&b, "{\"id\":\"%d\",\"payload\":\"%s\"}\n", j, payload)
			}
			body := "[" + strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", ",") + "]"
			s.want(t, c, http.StatusOK, "POST", "/storage/col", body)
		}
		resetPeak(t, s.server.Cmd.Process.Pid)
		before := peak(t, s.server.Cmd.Process.Pid)
		req, err := c.Request(t.Context(), http.MethodGet, "/storage/col?full=1", "")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		// Read nothing until the server's writes block.
		s.server.AwaitMetric(`holdfast_http_requests{state="idle"} 1`)
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || n < records*each {
			t.Errorf("%d bytes of %d, %v", n, records*each, err)
		}
		if grown := peak(t, s.server.Cmd.Process.Pid) - before; grown > records*each/2 {
			t.Errorf("the server grew by %d MB for an answer of %d MB", grown>>20, records*each>>20)
		}
	})
}

func resetPeak(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600); err != nil {
		t.Skipf("needs permission to reset the peak memory of a process: %v", err)
	}
}

func peak(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// TestAbort checks that a client that disconnects during an upload writes nothing, and holds no resources.
func TestAbort(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p proxy) {
		s := p.build(t, "https://example.org/sync", nil, "HOLDFAST_SERVER__PUBLIC_URL=https://example.org/sync")
		c := s.user(1)
		req, err := c.Request(t.Context(), http.MethodPut, "/storage/col/half", `{"payload":"`+strings.Repeat("x", 1<<20)+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			t.Fatal(err)
		}
		conf := s.client.Transport.(*http.Transport).TLSClientConfig.Clone()
		conf.ServerName, conf.NextProtos = "example.org", []string{"http/1.1"}
		dialer := tls.Dialer{Config: conf}
		conn, err := dialer.DialContext(t.Context(), "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(wire.Bytes()[:wire.Len()/2]); err != nil {
			t.Fatal(err)
		}
		s.server.AwaitMetric(`holdfast_http_requests{state="idle"} 1`)
		conn.Close()
		metrics := s.server.AwaitAnswer("/metrics", func(_ int, body string) bool {
			return strings.Contains(body, "\nholdfast_http_requests{state=\"idle\"} 0\n") &&
				strings.Contains(body, `holdfast_http_request_duration_seconds_count{method="PUT"`)
		})
		if strings.Contains(metrics, `status="5`) {
			t.Errorf("an aborted upload counts as the server's failure:\n%s", metrics)
		}
		s.want(t, c, http.StatusNotFound, "GET", "/storage/col/half", "")
		s.want(t, c, http.StatusOK, "PUT", "/storage/col/whole", `{"payload":"x"}`)
	})
}

// TestRestart checks that the proxy answers 502 or 503 while the server is stopped, and finds the restarted server.
func TestRestart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p proxy) {
		vars := []string{"HOLDFAST_SERVER__PUBLIC_URL=https://example.org/sync", "HOLDFAST_SERVER__LISTEN=" + testdb.FreeAddress(t)}
		s := p.build(t, "https://example.org/sync", nil, vars...)
		c := s.user(1)
		s.want(t, c, http.StatusOK, "PUT", "/storage/col/x", `{"payload":"x"}`)
		for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			s.server.Signal(end)
			<-s.server.Ended
			s.want(t, c, p.away, "GET", "/storage/col/x", "")
			s.server = binary.Start(t, s.server.Data, vars...)
			ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
			defer cancel()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for back := false; !back; <-tick.C {
				a, err := c.SendBy(ctx, s.client, "GET", "/storage/col/x", "")
				if err != nil {
					t.Fatal(err)
				}
				// A proxy may consider a server down for a while.
				if back = a.Status == http.StatusOK; !back && a.Status != p.away {
					t.Fatalf("after the restart: %d %s", a.Status, a.Body)
				}
			}
		}
	})
}
