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

// SIGTERM breaks no request: what was taken is answered as a whole, also an
// upload and a download that are in their middle, and what was not answered was
// never taken. The process ends by itself, and with status 0.
func TestStop(t *testing.T) {
	t.Parallel()
	onEngines(t, services(), both(), func(t *testing.T, _ engine, data string, vars ...string) { newHarness(t, data, vars...).stops() })
}

// stops ends the server in rounds.
func (h *harness) stops() {
	h.server = h.serve()
	h.client.Transport = &whole{h.client.Transport.(*http.Transport), h.t}
	var guests []guest
	for _, s := range services() {
		if s.guest != nil {
			guests = append(guests, s.guest(h.t))
		}
	}
	const size = 16 << 20
	for _, g := range guests {
		g.fill(h.house(), size)
	}
	h.rounds(3, func(round int) fault {
		id := fmt.Sprintf("upload-%d", round)
		return fault{deadly: true, strike: func() {
			s := h.house()
			var up, down []*exchange
			for _, g := range guests {
				up, down = append(up, s.beginUpload(g.upload(s, id))), append(down, s.beginDownload(g.download(s)))
			}
			h.server.Signal(syscall.SIGTERM)
			if len(guests) > 0 { // the server waits for them
				h.server.Await("/readyz", http.StatusServiceUnavailable)
			}
			for i := range guests {
				up[i].finish(h.t, 0)
				down[i].finish(h.t, size)
			}
			ended(h)
		}, recover: func() {
			h.server = h.serve()
			for _, g := range guests {
				s := h.house()
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
		h.t.Errorf("%d writes without an answer are there", h.tally.there)
	}
}

// whole is a transport whose answers must not break off once they have begun.
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
		b.t.Errorf("an answer breaks off: %v", err)
	}
	return n, err
}

// ended waits for the server's end, which is to be a good one.
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

// house is the harness's server for somebody beside the clients.
func (h *harness) house() *house { return &house{t: h.t, server: h.server, client: h.client} }

// exchange is a request that was taken and is not over.
type exchange struct {
	conn   net.Conn
	answer *bufio.Reader
	rest   []byte // of the request
}

// open sends the beginning of a request.
func (h *house) open(first []byte) *exchange {
	h.t.Helper()
	conn := h.dial(256 << 10)
	must(h.t, conn.SetDeadline(time.Now().Add(bound)))
	_, err := conn.Write(first)
	must(h.t, err)
	return &exchange{conn: conn, answer: bufio.NewReader(conn)}
}

// beginUpload sends the header of a POST and returns when the server wants the
// body.
func (h *house) beginUpload(req *http.Request) *exchange {
	h.t.Helper()
	text := h.wire(req)
	text = bytes.Replace(text, []byte("\r\n"), []byte("\r\nExpect: 100-continue\r\n"), 1)
	end := bytes.Index(text, []byte("\r\n\r\n")) + 4
	x := h.open(text[:end])
	line, err := x.answer.ReadString('\n')
	if err != nil || !strings.Contains(line, " 100 ") {
		h.t.Fatalf("the server does not go on: %q %v", line, err)
	}
	_, err = x.answer.ReadString('\n')
	must(h.t, err)
	x.rest = text[end:]
	return x
}

// beginDownload returns when a large answer has begun.
func (h *house) beginDownload(req *http.Request) *exchange {
	h.t.Helper()
	x := h.open(h.wire(req))
	_, err := x.answer.Peek(1)
	must(h.t, err)
	return x
}

// finish sends the rest, and wants the whole of an answer of at least so many
// bytes.
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

// A second SIGTERM does not wait for anybody.
func TestSecondStop(t *testing.T) {
	t.Parallel()
	h := openHouse(t, 0, testdb.SQLite(t))
	for _, s := range services() {
		if s.guest != nil {
			h.beginUpload(s.guest(t).upload(h, "never"))
		}
	}
	h.server.Signal(syscall.SIGTERM)
	h.server.Await("/readyz", http.StatusServiceUnavailable)
	h.server.Signal(syscall.SIGTERM)
	pause(h.server.Ended, bound/2) // half of what an upload would be waited for
	if !closed(h.server.Ended) {
		t.Fatal("the server still waits")
	}
	if status := h.server.Cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", h.server.Cmd.ProcessState)
	}
}
