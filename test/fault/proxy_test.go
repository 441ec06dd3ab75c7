package fault

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// network is a TCP proxy between a server and its database that simulates faults of networks.
type network struct {
	url      string // of the database, through the network
	listener net.Listener
	to       func() (net.Conn, error)

	mu    sync.Mutex
	flows chan struct{} // closed while data is delivered
	delay time.Duration // of each piece
	links map[*link]struct{}
}

// link is one connection through the network.
type link struct {
	near, far net.Conn
	flows     chan struct{} // of this link, when it is forgotten
}

// newNetwork returns a network to the PostgreSQL database at a URL.
func newNetwork(t *testing.T, url string) *network {
	t.Helper()
	conf, err := pgconn.ParseConfig(url)
	must(t, err)
	kind, address := pgconn.NetworkAddress(conf.Host, conf.Port)
	n := networkTo(t, kind, address)
	n.url = "postgres://" + conf.User + ":" + conf.Password + "@" + n.listener.Addr().String() + "/" + conf.Database + "?sslmode=disable"
	return n
}

// networkTo returns a network to an address.
func networkTo(t *testing.T, kind, address string) *network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	open := make(chan struct{})
	close(open)
	n := &network{
		listener: listener, flows: open, links: map[*link]struct{}{},
		to: func() (net.Conn, error) { return net.Dial(kind, address) },
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			serving.Go(func() { n.serve(near) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		n.heal()
		n.cut()
		serving.Wait()
	})
	return n
}

// serve copies data until one side closes, including what was sent before that.
func (n *network) serve(near net.Conn) {
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
			way[1].Close() // which ends the other direction as well
		})
	}
	both.Wait()
	n.mu.Lock()
	delete(n.links, l)
	n.mu.Unlock()
}

func (n *network) carry(l *link, from, to net.Conn) {
	exportPart := make([]byte, 16<<10)
	for {
		size, err := from.Read(exportPart)
		pause(nil, n.pass(l))
		if err != nil {
			return
		}
		if _, err := to.Write(exportPart[:size]); err != nil {
			return
		}
	}
}

// pass returns when data may be delivered, and its delay.
func (n *network) pass(l *link) time.Duration {
	for {
		n.mu.Lock()
		flows, delay := n.flows, n.delay
		if l.flows != nil {
			flows = l.flows
		}
		n.mu.Unlock()
		if closed(flows) {
			return delay
		}
		<-flows
	}
}

// silence drops all traffic without closing connections.
func (n *network) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.flows = make(chan struct{})
}

// forget is silence for ever on the existing connections, as after a router was replaced. New ones
// work.
func (n *network) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		l.flows = make(chan struct{})
	}
}

// slow delays all data.
func (n *network) slow(delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = delay
}

// heal delivers all data again, beginning with what was sent meanwhile.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = 0
	if !closed(n.flows) {
		close(n.flows)
	}
	for l := range n.links {
		if l.flows != nil && !closed(l.flows) {
			close(l.flows)
		}
	}
}

// cut resets all connections; data in transit is lost.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		for _, conn := range []net.Conn{l.near, l.far} {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			conn.Close()
		}
		if l.flows != nil && !closed(l.flows) {
			close(l.flows)
		}
	}
}
