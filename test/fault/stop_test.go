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
)

// SIGTERM interrupts no request: an accepted one is answered completely, also an upload or a
// download in progress, and one without an answer was not executed. The process ends by itself,
// with status 0.
func TestStop(t *testing.T) {
	t.Parallel()
	onEngines(t, services(), inTurn(onPostgres, onSQLite), func(t *testing.T, _ engine, data string, vars ...string) { newHarness(t, data, vars...).stops() })
}

// stops ends the server while requests are in progress, in rounds.
func (h *harness) stops() {
	h.server = h.serve()
	h.client.Transport = &whole{h.client.Transport.(*http.Transport), h.t}
	var largeOwners []largeOwner
	for _, s := range services() {
		if s.largeOwner != nil {
			largeOwners = append(largeOwners, s.largeOwner(h.t))
		}
	}
	const size = 16 << 20
	for _, g := range largeOwners {
		g.fill(h.instance(), size)
	}
	h.rounds(2, func(round int) fault {
		id := fmt.Sprintf("upload-%d", round)
		return fault{deadly: true, inject: func() {
			s := h.instance()
			var up, down []*exchange
			for _, g := range largeOwners {
				up, down = append(up, s.beginUpload(g.upload(s, id))), append(down, s.beginDownload(g.download(s)))
			}
			h.server.Signal(syscall.SIGTERM)
			if len(largeOwners) > 0 { // the server waits for them
				h.server.Await("/readyz", http.StatusServiceUnavailable)
			}
			for i := range largeOwners {
				up[i].finish(h.t, 0)
				down[i].finish(h.t, size)
			}
			ended(h)
		}, recover: func() {
			h.server = h.serve()
			for _, g := range largeOwners {
				s := h.instance()
				resp, err := s.client.Do(g.uploaded(s, id))
				must(h.t, err)
				must(h.t, resp.Body.Close())
				if resp.StatusCode != http.StatusOK {
					h.t.Errorf("what was uploaded while the server ended: %s", resp.Status)
				}
			}
		}}
	})
	if h.tally.there > 0 {
		h.t.Errorf("%d writes without an answer were done", h.tally.there)
	}
}

// whole is a transport that reports answers which are cut off.
type whole struct {
	*http.Transport
	t *testing.T
}

// RoundTrip implements http.RoundTripper.
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
		b.t.Errorf("an answer is cut off: %v", err)
	}
	return n, err
}

// ended waits until the server has ended with status 0.
func ended(h *harness) {
	h.t.Helper()
	pause(h.server.Ended, bound)
	if !closed(h.server.Ended) {
		h.t.Errorf("the server has not ended after %v", bound)
		h.server.Kill()
	} else if code := h.server.Cmd.ProcessState.ExitCode(); code != 0 {
		h.t.Errorf("exit status %d", code)
	}
}

// instance returns the harness's server for requests outside of the workload.
func (h *harness) instance() *instance { return &instance{t: h.t, server: h.server, client: h.client} }

// exchange is a request in progress.
type exchange struct {
	conn   net.Conn
	answer *bufio.Reader
	rest   []byte // of the request
}

// open sends the beginning of a request.
func (h *instance) open(address string, first []byte) *exchange {
	h.t.Helper()
	conn := h.dialTo(address, 256<<10)
	must(h.t, conn.SetDeadline(time.Now().Add(bound)))
	_, err := conn.Write(first)
	must(h.t, err)
	return &exchange{conn: conn, answer: bufio.NewReader(conn)}
}

// beginUpload sends the header of a POST and returns when the server asks for the body.
func (h *instance) beginUpload(req *http.Request) *exchange {
	h.t.Helper()
	text := h.wire(req)
	text = bytes.Replace(text, []byte("\r\n"), []byte("\r\nExpect: 100-continue\r\n"), 1)
	end := bytes.Index(text, []byte("\r\n\r\n")) + 4
	x := h.open(req.URL.Host, text[:end])
	line, err := x.answer.ReadString('\n')
	if err != nil || !strings.Contains(line, " 100 ") {
		h.t.Fatalf("the server does not ask for the body: %q %v", line, err)
	}
	_, err = x.answer.ReadString('\n')
	must(h.t, err)
	x.rest = text[end:]
	return x
}

// beginDownload returns when a large answer has begun.
func (h *instance) beginDownload(req *http.Request) *exchange {
	h.t.Helper()
	x := h.open(req.URL.Host, h.wire(req))
	_, err := x.answer.Peek(1)
	must(h.t, err)
	return x
}

// finish sends the rest, and reads the whole answer, which has at least so many bytes.
func (x *exchange) finish(t *testing.T, least int64) {
	t.Helper()
	_, err := x.conn.Write(x.rest)
	must(t, err)
	resp, err := http.ReadResponse(x.answer, nil)
	must(t, err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if resp.StatusCode > http.StatusCreated || err != nil {
		t.Errorf("%s, %d bytes, %v", resp.Status, n, err)
	}
	if n < least {
		t.Errorf("%d bytes of %d", n, least)
	}
}

// After a second SIGTERM the server ends without waiting.
func TestSecondStop(t *testing.T) {
	t.Parallel()
	h := startInstance(t, 0, testdb.SQLite(t))
	for _, s := range services() {
		if s.largeOwner != nil {
			h.beginUpload(s.largeOwner(t).upload(h, "never"))
		}
	}
	h.server.Signal(syscall.SIGTERM)
	h.server.Await("/readyz", http.StatusServiceUnavailable)
	h.server.Signal(syscall.SIGTERM)
	pause(h.server.Ended, bound/2) // half of the wait for an upload
	if !closed(h.server.Ended) {
		t.Fatal("the server still waits")
	}
	if status := h.server.Cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", h.server.Cmd.ProcessState)
	}
}
