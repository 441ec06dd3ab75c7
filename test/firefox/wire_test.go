package firefox

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// journal is what the browsers asked of the network, in the order of the answers.
type journal struct {
	mu        sync.Mutex
	exchanges []exchange
}

// exchange is one request and its answer.
type exchange struct {
	browser, method, url string
	status               int
}

func (e exchange) String() string {
	return fmt.Sprintf("%s %d %s %s", e.browser, e.status, e.method, e.url)
}

func (j *journal) add(e exchange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exchanges = append(j.exchanges, e)
}

// mark is the place in the journal at which what comes next begins; see since.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.exchanges)
}

// since picks the requests after a mark by browser, method and a part of the URL.
func (j *journal) since(mark int, browser, method, part string) []exchange {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []exchange
	for _, e := range j.exchanges[mark:] {
		if e.browser == browser && e.method == method && strings.Contains(e.url, part) {
			found = append(found, e)
		}
	}
	return found
}

// show writes the journal to the log of a test that failed.
func (j *journal) show(t *testing.T) {
	if !t.Failed() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.exchanges {
		t.Log(e)
	}
}

// wire starts the only way out that a browser has: an HTTP proxy that forwards
// what goes to loopback, refuses the rest with 403 and writes both down. A
// closed port as proxy would keep a browser in as well, but would show nothing.
// It returns the proxy's host and port.
func (j *journal) wire(t *testing.T, browser string) *net.TCPAddr {
	forward := &httputil.ReverseProxy{
		// The target is in the request line already, and Host must stay: the Hawk MAC covers it.
		Rewrite:   func(*httputil.ProxyRequest) {},
		Transport: &http.Transport{Proxy: nil, DisableCompression: true},
		ModifyResponse: func(r *http.Response) error {
			j.add(exchange{browser, r.Request.Method, r.Request.URL.String(), r.StatusCode})
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			j.add(exchange{browser, r.Method, r.URL.String() + " (" + err.Error() + ")", http.StatusBadGateway})
			w.WriteHeader(http.StatusBadGateway)
		},
		ErrorLog: log.New(t.Output(), "wire: ", 0),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip := net.ParseIP(r.URL.Hostname())
		if r.URL.Scheme != "http" || ip == nil || !ip.IsLoopback() {
			j.add(exchange{browser, r.Method, r.RequestURI, http.StatusForbidden})
			w.WriteHeader(http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr)
}
