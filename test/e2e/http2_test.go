package e2e

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// attacker is an HTTP/2 client that sends whatever frames a test wants.
type attacker struct {
	conn   *tls.Conn
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32
	host   string
	out    bytes.Buffer  // frames that were not sent yet
	ended  chan struct{} // closed when the connection ended
}

// attack connects without credentials. The client does not let the server send answers' bodies, so that requests stay.
func attack(address string) (*attacker, error) {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	a := &attacker{conn: conn, host: address, ended: make(chan struct{})}
	a.framer = http2.NewFramer(&a.out, nil)
	a.hpack = hpack.NewEncoder(&a.block)
	a.out.WriteString(http2.ClientPreface)
	_ = a.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	go func() {
		defer close(a.ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	return a, a.flush()
}

func (a *attacker) flush() error {
	_ = a.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, err := a.conn.Write(a.out.Bytes())
	a.out.Reset()
	return err
}

// open begins a request, without its body. Fields repeat cheaply, because both sides keep them in a table.
func (a *attacker) open(path string, fields ...string) {
	a.block.Reset()
	for i, all := 0, append([]string{":method", "POST", ":scheme", "https", ":path", path, ":authority", a.host}, fields...); i < len(all); i += 2 {
		_ = a.hpack.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	a.stream += 2
	if a.stream == 2 {
		a.stream = 1
	}
	_ = a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.block.Bytes(), EndHeaders: true})
}

// trailers ends the request with n trailers of one byte on the wire.
func (a *attacker) trailers(n int, name, value string) {
	a.block.Reset()
	for range n {
		_ = a.hpack.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	_ = a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.block.Bytes(), EndHeaders: true, EndStream: true})
}

func (a *attacker) reset() { _ = a.framer.WriteRSTStream(a.stream, http2.ErrCodeCancel) }

func (a *attacker) tableSize(n uint32) {
	_ = a.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: n})
}

// flood is an attack. send is called for each round.
type flood struct {
	name  string
	send  func(a *attacker, round int)
	stops bool // the server must end each connection
	most  int  // rounds, if fewer than floodRounds
}

var floods = []flood{
	{"table sizes", func(a *attacker, round int) {
		a.tableSize([]uint32{0, 4096, 1 << 16, 1, 100}[round%5])
		a.open("/1.5/1/info/collections", "x-"+strconv.Itoa(round), "y")
		a.tableSize(4096)
		a.open("/", "x-a", strconv.Itoa(round))
		_ = a.framer.WritePing(false, [8]byte{byte(round)})
	}, true, 0},
	{"resets", func(a *attacker, _ int) { a.open("/1.5/1/info/collections"); a.reset() }, true, 0},
	{"resets of announced trailers", func(a *attacker, _ int) { a.open("/", "trailer", manyNames); a.reset() }, true, 0},
	{"announced trailers", func(a *attacker, _ int) { a.open("/", "trailer", manyNames) }, true, 0},
	{"as many requests with trailers as a client may have", func(a *attacker, _ int) {
		a.open("/bucket", "trailer", manyNames)
		a.trailers(850, "0", "b")
	}, true, 99},
	{"few announced trailers, many sent", func(a *attacker, _ int) {
		a.open("/", "trailer", "x-a")
		a.trailers(900, "x-a", "b")
	}, true, 0},
	{"as many trailers as allowed", func(a *attacker, _ int) {
		a.open("/", "trailer", "x-a")
		a.trailers(16, "x-a", "b")
	}, false, 0},
	{"many fields", func(a *attacker, _ int) { a.open("/", fields(850)...) }, true, 0},
	{"as many fields as allowed", func(a *attacker, _ int) { a.open("/", fields(190)...) }, false, 0},
	{"a header as large as allowed", func(a *attacker, _ int) {
		a.open("/", "x-a", strings.Repeat("a", 3<<10), "x-a", strings.Repeat("a", 3<<10), "x-a", strings.Repeat("a", 3<<10), "x-a", strings.Repeat("a", 3<<10))
	}, false, 0},
	{"a far too large header", func(a *attacker, _ int) {
		a.open("/", slices.Repeat([]string{"x-a", strings.Repeat("a", 3<<10)}, 150)...)
	}, true, 0},
	{"pings", func(a *attacker, round int) { _ = a.framer.WritePing(false, [8]byte{byte(round)}) }, true, 0},
	{"settings", func(a *attacker, _ int) { _ = a.framer.WriteSettings() }, true, 0},
	{"priorities", func(a *attacker, _ int) { _ = a.framer.WritePriority(1, http2.PriorityParam{Weight: 1}) }, true, 0},
	{"empty bodies", func(a *attacker, round int) {
		if round == 0 {
			a.open("/")
		}
		_ = a.framer.WriteData(a.stream, false, nil)
	}, true, 0},
	{"unknown frames", func(a *attacker, round int) { _ = a.framer.WriteRawFrame(0xee, 0, 0, make([]byte, round%100)) }, true, 0},
	{"a header in empty pieces", func(a *attacker, round int) {
		if round == 0 {
			_ = a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
		}
		_ = a.framer.WriteContinuation(1, false, nil)
	}, true, 0},
}

// fields returns n small fields, each a byte on the wire.
func fields(n int) (all []string) {
	for i := range n {
		all = append(all, "x"+strconv.Itoa(i%90), "y")
	}
	return all
}

// manyNames fits in the table, and in the largest header that net/http accepts, so that each further request needs only a byte for it.
var manyNames = func() string {
	var names []string
	for i := range 800 {
		names = append(names, strconv.FormatInt(int64(i), 36))
	}
	return strings.Join(names, ",")
}()

// Each flood uses floodConnections on each listener, which send at most floodRounds rounds, within floodTime.
const (
	floodConnections = 5
	floodRounds      = 2000
	floodTime        = 2 * time.Second
)

// The server may grow by its budget for requests, and by its allocations between two garbage collections.
const (
	floodBudget  = 64 << 20
	floodGarbage = 96 << 20
)

// TestHTTP2Floods attacks every listener with frames that cost the server more than the attacker. The server ends the
// connections, goes on answering, and its memory stays bounded.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	s3, internal := testdb.FreeAddress(t), testdb.FreeAddress(t)
	cert, key, client := binary.Certificate(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__LISTEN="+s3, "HOLDFAST_SERVER__INTERNAL_LISTEN="+internal, "HOLDFAST_LOG__LEVEL=error",
		fmt.Sprint("HOLDFAST_SERVER__REQUEST_MEMORY=", floodBudget), "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key)
	addresses := map[string]string{"main": strings.TrimPrefix(s.URL, "https://"), "s3": s3, "internal": internal}
	answers := func(after string) {
		for listener, address := range addresses {
			res, err := client.Get("https://" + address + "/")
			if err != nil {
				t.Fatalf("%s, after %s: %v", listener, after, err)
			}
			_ = res.Body.Close()
			if res.StatusCode >= http.StatusInternalServerError {
				t.Errorf("%s, after %s: %s", listener, after, res.Status)
			}
		}
	}
	answers("the start")
	start := peak(t, s)
	for _, f := range floods {
		before, begun := peak(t, s), time.Now()
		var sent, ended atomic.Int64
		var flooding sync.WaitGroup
		for _, address := range addresses {
			for range floodConnections {
				flooding.Go(func() {
					if f.run(t, address, begun.Add(floodTime), &sent) {
						ended.Add(1)
					}
				})
			}
		}
		flooding.Wait()
		all := int64(len(addresses) * floodConnections)
		t.Logf("%s: %d KB on %d connections in %v, %d ended; the server grew by %d MB to %d MB", f.name, sent.Load()>>10, all,
			time.Since(begun).Round(time.Millisecond), ended.Load(), (peak(t, s)-before)>>20, peak(t, s)>>20)
		if f.stops && ended.Load() < all {
			t.Errorf("%s: the server ended only %d of %d connections", f.name, ended.Load(), all)
		}
		answers(f.name)
	}
	if grown := peak(t, s) - start; grown > floodBudget+floodGarbage {
		t.Errorf("the server grew by %d MB, want at most %d MB", grown>>20, (floodBudget+floodGarbage)>>20)
	}
}

// run reports whether the server ended the connection.
func (f *flood) run(t *testing.T, address string, until time.Time, sent *atomic.Int64) (ended bool) {
	a, err := attack(address)
	if err != nil {
		t.Error(err)
		return false
	}
	defer a.conn.Close()
	for round := 0; round < cmp.Or(f.most, floodRounds) && time.Now().Before(until); round++ {
		f.send(a, round)
		sent.Add(int64(a.out.Len()))
		if a.flush() != nil {
			return true
		}
	}
	if !f.stops {
		return false
	}
	select {
	case <-a.ended:
		return true
	case <-time.After(binary.Bound):
		return false
	}
}

// peak returns the most memory that the server used, in bytes.
func peak(t *testing.T, s *binary.Server) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}
