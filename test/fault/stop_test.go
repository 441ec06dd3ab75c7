package fault

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/fault/harness"
)

// TestStop checks that SIGTERM interrupts no request. The server answers each accepted request completely, also an
// upload or download in progress; a request without a response was not executed. The process exits with status 0.
func TestStop(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, services(), harness.InTurn(harness.OnPostgres, harness.OnSQLite), func(t *testing.T, _ harness.Engine, data string, vars ...string) {
		stopRounds(newHarness(t, data, vars...))
	})
}

func stopRounds(h *harness.Harness) {
	h.Server = h.Serve()
	h.Client.Transport = &whole{h.Client.Transport.(*http.Transport), h.T}
	var largeOwners []harness.LargeOwner
	for _, s := range services() {
		if s.LargeOwner != nil {
			largeOwners = append(largeOwners, s.LargeOwner(h.T))
		}
	}
	const size = 16 << 20
	for _, g := range largeOwners {
		g.Fill(h.Instance(), size)
	}
	h.Rounds(2, func(round int) harness.Fault {
		id := fmt.Sprintf("upload-%d", round)
		return harness.Fault{Deadly: true, Inject: func() {
			s := h.Instance()
			var up, down []*exchange
			for _, g := range largeOwners {
				up, down = append(up, beginUpload(s, g.Upload(s, id))), append(down, beginDownload(s, g.Download(s)))
			}
			h.Server.Signal(syscall.SIGTERM)
			if len(largeOwners) > 0 { // the server waits for these requests
				h.Server.Await("/readyz", http.StatusServiceUnavailable)
			}
			for i := range largeOwners {
				up[i].Finish(h.T, 0)
				down[i].Finish(h.T, size)
			}
			harness.Ended(h)
		}, Recover: func() {
			h.Server = h.Serve()
			for _, g := range largeOwners {
				s := h.Instance()
				resp, err := s.Client.Do(g.Uploaded(s, id))
				harness.Must(h.T, err)
				harness.Must(h.T, resp.Body.Close())
				if resp.StatusCode != http.StatusOK {
					h.T.Errorf("upload during shutdown: %s", resp.Status)
				}
			}
		}}
	})
	if h.Tally.There > 0 {
		h.T.Errorf("%d writes without an answer were done", h.Tally.There)
	}
}

// whole is a transport that reports truncated responses.
type whole struct {
	*http.Transport
	t *testing.T
}

func (w *whole) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.Transport.RoundTrip(r)
	if err == nil {
		resp.Body = &wholeBody{resp.Body, w.t}
	}
	return resp, err
}

type wholeBody struct {
	io.ReadCloser
	t *testing.T
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.t.Errorf("response cut off: %v", err)
	}
	return n, err
}

type exchange struct {
	conn   net.Conn
	answer *bufio.Reader
	rest   []byte
}

func open(h *harness.Instance, address string, first []byte) *exchange {
	h.T.Helper()
	conn := h.DialTo(address, 256<<10)
	harness.Must(h.T, conn.SetDeadline(time.Now().Add(harness.Bound)))
	_, err := conn.Write(first)
	harness.Must(h.T, err)
	return &exchange{conn: conn, answer: bufio.NewReader(conn)}
}

func beginUpload(h *harness.Instance, req *http.Request) *exchange {
	h.T.Helper()
	text := h.Wire(req)
	text = bytes.Replace(text, []byte("\r\n"), []byte("\r\nExpect: 100-continue\r\n"), 1)
	end := bytes.Index(text, []byte("\r\n\r\n")) + 4
	x := open(h, req.URL.Host, text[:end])
	line, err := x.answer.ReadString('\n')
	if err != nil || !strings.Contains(line, " 100 ") {
		h.T.Fatalf("the server does not ask for the body: %q %v", line, err)
	}
	_, err = x.answer.ReadString('\n')
	harness.Must(h.T, err)
	x.rest = text[end:]
	return x
}

func beginDownload(h *harness.Instance, req *http.Request) *exchange {
	h.T.Helper()
	x := open(h, req.URL.Host, h.Wire(req))
	_, err := x.answer.Peek(1)
	harness.Must(h.T, err)
	return x
}

func (x *exchange) Finish(t *testing.T, least int64) {
	t.Helper()
	_, err := x.conn.Write(x.rest)
	harness.Must(t, err)
	resp, err := http.ReadResponse(x.answer, nil)
	harness.Must(t, err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if resp.StatusCode > http.StatusCreated || err != nil {
		t.Errorf("%s, %d bytes, %v", resp.Status, n, err)
	}
	if n < least {
		t.Errorf("%d bytes of %d", n, least)
	}
}

func TestSecondStop(t *testing.T) {
	t.Parallel()
	h := harness.Start(t, 0, testdb.SQLite(t))
	for _, s := range services() {
		if s.LargeOwner != nil {
			beginUpload(h, s.LargeOwner(t).Upload(h, "never"))
		}
	}
	h.Server.Signal(syscall.SIGTERM)
	h.Server.Await("/readyz", http.StatusServiceUnavailable)
	h.Server.Signal(syscall.SIGTERM)
	harness.Pause(h.Server.Ended, harness.Bound/2) // half the time that the server waits for an upload
	if !harness.Closed(h.Server.Ended) {
		t.Fatal("server still running")
	}
	if status := h.Server.Cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("server exited with %v", h.Server.Cmd.ProcessState)
	}
}
