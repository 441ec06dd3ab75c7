package fault

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

type stall struct {
	*harness.Instance
	s3 *buckets.Client
}

// TestStalledClients checks that stalled clients use no more memory than server.request_memory allows. S3 clients do
// not read a list or DeleteObjects response, or do not finish sending a document. Guest clients do not finish sending
// a body.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	// server.request_memory defaults to 256 MiB. SQLite's caches and everything else use less than the rest.
	const most = 400 << 20
	for name, c := range map[string]struct {
		keys    int
		clients int
		request func(s *stall) []byte
		holds   bool
		guest   bool
	}{
		"lists":                     {1000, 150, func(s *stall) []byte { return s.signed(http.MethodGet, "/public?list-type=2", "") }, false, false},
		"lists without credentials": {1000, 150, func(s *stall) []byte { return s.anonymous("/public?list-type=2") }, false, false},
		"deletions":                 {0, 100, (*stall).deletion, false, false},
		"documents":                 {0, 200, (*stall).document, true, false},
		"bodies of guests":          {0, 1270, func(*stall) []byte { return guestBody() }, true, true},
	} {
		t.Run(name, func(t *testing.T) { // not in parallel: a failing case uses much memory
			s := &stall{Instance: &harness.Instance{T: t}}
			s.Server = binary.Start(t, testdb.SQLite(t), "HOLDFAST_LOG__ACCESS=false", "HOLDFAST_LOG__LEVEL=error", "HOLDFAST_SERVER__CLIENT_GRACE=60s", "HOLDFAST_GUEST__ENABLED=true")
			s.s3 = s.Server.S3(t)
			s.Fill(c.keys)
			address := s.s3.URL
			if c.guest {
				address = s.Server.URL
			}
			before := s.Resident("VmRSS")
			metrics := s.hold(c.clients, address, c.holds, func() []byte { return c.request(s) })
			peak := s.Resident("VmHWM")
			t.Logf("%d clients: %d MB, from %d MB before; %s", c.clients, peak>>20, before>>20, chargedLine.FindString(metrics))
			if peak > most {
				t.Errorf("%d MB with %d clients, want at most %d MB", peak>>20, c.clients, most>>20)
			}
		})
	}
}

var chargedLine = regexp.MustCompile(`(?m)^holdfast_http_memory_bytes .*$`)

// hold sends requests, waits until the server answers or holds each of them, and returns the metrics.
func (s *stall) hold(clients int, url string, holds bool, request func() []byte) (metrics string) {
	s.T.Helper()
	address := strings.TrimPrefix(url, "http://")
	var all, reading sync.WaitGroup
	var answered atomic.Int64
	for i := range clients {
		// Guests are limited by address, so use many.
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%200))}}
		conn, err := from.DialContext(s.T.Context(), "tcp", address)
		harness.Must(s.T, err)
		harness.Must(s.T, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		harness.Must(s.T, conn.SetDeadline(time.Now().Add(2*harness.Bound)))
		text := request()
		all.Go(func() {
			if _, err := conn.Write(text); err != nil && !isClosed(err) {
				s.T.Error(err)
			}
		})
		reading.Go(func() {
			answer := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(conn, answer); err == nil {
				answered.Add(1)
				if status := string(answer[9:]); status != "200" && status != "503" {
					s.T.Errorf("status %s", status)
				}
			}
		})
		s.T.Cleanup(func() { conn.Close() })
	}
	all.Wait()
	s.Server.AwaitLong(2*harness.Bound, "/metrics", func(_ int, body string) bool {
		metrics = body
		if holds {
			return harness.Loaded(body)+int(answered.Load()) >= clients // the server refuses requests that it does not hold
		}
		return int(answered.Load()) >= clients
	})
	return metrics
}

// isClosed reports whether the server closed the connection, as it does when it refuses a request.
func isClosed(err error) bool {
	_, network := errors.AsType[*net.OpError](err)
	return network
}

func (s *stall) Fill(n int) {
	s.T.Helper()
	put := func(target, body string, headers ...string) {
		a, err := s.s3.Send(s.T.Context(), http.MethodPut, target, body, append(headers, buckets.Unsigned)...)
		harness.Must(s.T, err)
		if a.Status != http.StatusOK {
			s.T.Fatalf("PUT %.60s: %d %s", target, a.Status, a.Body)
		}
	}
	longer := strings.Repeat("%22", 990)
	put("/public", "", "X-Amz-Acl: public-read")
	var all sync.WaitGroup
	for w := range 10 {
		all.Go(func() {
			for i := w; i < n; i += 10 {
				put(fmt.Sprintf("/public/%06d", i)+longer, "x")
			}
		})
	}
	all.Wait()
}

func (s *stall) signed(method, target, body string, headers ...string) []byte {
	r, err := s.s3.Request(s.T.Context(), method, target, body, append(headers, buckets.Unsigned)...)
	if err != nil {
		s.T.Error(err)
		return nil
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		s.T.Error(err)
	}
	return b.Bytes()
}

func (s *stall) anonymous(target string) []byte {
	return []byte("GET " + target + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.s3.URL, "http://") + "\r\n\r\n")
}

// deletion returns a request body that deletes 120 keys that are too long.
func (s *stall) deletion() []byte {
	body := "<Delete>" + strings.Repeat("<Object><Key>"+strings.Repeat(`"`, 15<<10)+"</Key></Object>", 120) + "</Delete>"
	sum := md5.Sum([]byte(body))
	return s.signed(http.MethodPost, "/public?delete", body, "Content-Md5: "+base64.StdEncoding.EncodeToString(sum[:]))
}

func (s *stall) document() []byte {
	whole := s.signed(http.MethodPost, "/public?delete", strings.Repeat(" ", 2<<20), "Content-Md5: "+base64.StdEncoding.EncodeToString(make([]byte, 16)))
	return whole[:len(whole)-1]
}

func guestBody() []byte {
	return fmt.Appendf(nil, "POST "+guest.API+"/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 16<<10, strings.Repeat(" ", 16<<10-1))
}
