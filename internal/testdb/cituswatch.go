package testdb

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// CitusWatch is a proxy to a Citus coordinator that records the servers' messages to each other.
type CitusWatch struct {
	URL string // through the proxy
	// Arrived receives a value after new messages: one value for any number of messages.
	Arrived <-chan struct{}

	arrived chan<- struct{}
	mu      sync.Mutex
	sent    []CitusMessage
}

// CitusMessage is a statement that a server sent to another.
type CitusMessage struct {
	To   string
	Text string
}

// WatchCitus starts a proxy that ends with the test.
func WatchCitus(t testing.TB, url string) *CitusWatch {
	t.Helper()
	logRemoteCommands(t, url)
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(conf.Host, conf.Port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	through := parse(t, url)
	through.Host = l.Addr().String()
	query := through.Query()
	query.Del("host")
	query.Set("sslmode", "disable") // the proxy reads the messages
	through.RawQuery = query.Encode()
	arrived := make(chan struct{}, 1)
	w := &CitusWatch{URL: through.String(), Arrived: arrived, arrived: arrived}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(client, network, address)
		}
	}()
	return w
}

// Sent returns the texts of Messages.
func (w *CitusWatch) Sent() (texts []string) {
	for _, m := range w.Messages() {
		texts = append(texts, m.Text)
	}
	return texts
}

// Messages returns the messages since the last call.
func (w *CitusWatch) Messages() []CitusMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

func (w *CitusWatch) serve(client net.Conn, network, address string) {
	defer client.Close()
	server, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_ = w.forward(client, server)
}

// forward handles a statement's notices before its result, so a test that has the result finds the notices recorded.
func (w *CitusWatch) forward(client io.Writer, server io.Reader) error {
	from, head := bufio.NewReader(server), make([]byte, 5)
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return err
		}
		if head[0] == 'N' {
			var n pgproto3.NoticeResponse
			if err := n.Decode(body); err == nil && strings.HasPrefix(n.Message, "issuing ") {
				to, _, _ := strings.Cut(strings.TrimPrefix(n.Detail, "on server "), " ")
				w.mu.Lock()
				w.sent = append(w.sent, CitusMessage{to, n.Message})
				w.mu.Unlock()
				select {
				case w.arrived <- struct{}{}:
				default: // the test has not received the previous value
				}
			}
		}
		if _, err := client.Write(slices.Concat(head, body)); err != nil {
			return err
		}
	}
}
