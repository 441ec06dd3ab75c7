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

type journal struct {
	mu        sync.Mutex
	exchanges []exchange
}

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

func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.exchanges)
}

// since filters the requests after a mark by browser, method and a part of the URL.
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

// wire starts a browser's only network access: an HTTP proxy that forwards requests to loopback, refuses others with 403
// and records both. If the proxy were a closed port, nothing would be recorded.
func (j *journal) wire(t *testing.T, browser string) *net.TCPAddr {
	forward := &httputil.ReverseProxy{
		// The request line already contains the target. Host must not change: the Hawk MAC covers it.
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
