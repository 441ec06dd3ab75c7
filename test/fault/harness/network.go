package harness

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Network is a TCP proxy between a server and its database that simulates network faults.
type Network struct {
	URL      string
	Listener net.Listener
	to       func() (net.Conn, error)

	mu    sync.Mutex
	flows chan struct{} // closed while data is delivered
	delay time.Duration
	links map[*link]struct{}
}

type link struct {
	near, far net.Conn
	flows     chan struct{} // a channel of its own, after Forget
}

func NewNetwork(t *testing.T, url string) *Network {
	t.Helper()
	conf, err := pgconn.ParseConfig(url)
	Must(t, err)
	kind, address := pgconn.NetworkAddress(conf.Host, conf.Port)
	n := NetworkTo(t, kind, address)
	n.URL = "postgres://" + conf.User + ":" + conf.Password + "@" + n.Listener.Addr().String() + "/" + conf.Database + "?sslmode=disable"
	return n
}

func NetworkTo(t *testing.T, kind, address string) *Network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	open := make(chan struct{})
	close(open)
	n := &Network{
		Listener: listener, flows: open, links: map[*link]struct{}{},
		to: func() (net.Conn, error) { return net.Dial(kind, address) },
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { n.serve(near) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		n.Heal()
		n.Cut()
		serving.Wait()
	})
	return n
}

// serve delivers all data that was sent before one side closed.
func (n *Network) serve(near net.Conn) {
	far, err := n.to()
	if err != nil {
		near.Close()
		return
	}
	l := &link{near: near, far: far}
	n.mu.Lock()
	n.links[l] = struct{}{}
	n.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			n.carry(l, way[0], way[1])
			way[1].Close()
		})
	}
	both.Wait()
	n.mu.Lock()
	delete(n.links, l)
	n.mu.Unlock()
}

func (n *Network) carry(l *link, from, to net.Conn) {
	exportPart := make([]byte, 16<<10)
	for {
		size, err := from.Read(exportPart)
		Pause(nil, n.pass(l))
		if err != nil {
			return
		}
		if _, err := to.Write(exportPart[:size]); err != nil {
			return
		}
	}
}

func (n *Network) pass(l *link) time.Duration {
	for {
		n.mu.Lock()
		flows, delay := n.flows, n.delay
		if l.flows != nil {
			flows = l.flows
		}
		n.mu.Unlock()
		if Closed(flows) {
			return delay
		}
		<-flows
	}
}

// Silence stops all traffic without closing connections.
func (n *Network) Silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.flows = make(chan struct{})
}

// Forget silences existing connections forever, like a replaced router. New connections work.
func (n *Network) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		l.flows = make(chan struct{})
	}
}

func (n *Network) Slow(delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = delay
}

// Heal delivers data again, starting with the data held back.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = 0
	if !Closed(n.flows) {
		close(n.flows)
	}
	for l := range n.links {
		if l.flows != nil && !Closed(l.flows) {
			close(l.flows)
		}
	}
}

// Cut resets all connections. Data in transit is lost.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		for _, conn := range []net.Conn{l.near, l.far} {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			conn.Close()
		}
		if l.flows != nil && !Closed(l.flows) {
			close(l.flows)
		}
	}
}
