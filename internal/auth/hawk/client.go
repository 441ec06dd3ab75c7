package hawk

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// SignHTTP sets the Authorization header of an outgoing request. The key with
// this id is known to the server; payloadHash is PayloadHash of the body, or ""
// to leave the body unsigned. The error is ErrMalformed when the request has no
// address that could be signed.
func SignHTTP(r *http.Request, id, key string, now time.Time, payloadHash string) error {
	authority := r.Host
	if authority == "" {
		authority = r.URL.Host
	}
	host, port, err := HostPort(authority, r.URL.Scheme)
	if err != nil {
		return err
	}
	h := Header{ID: id, TS: now.Unix(), Nonce: rand.Text(), Hash: payloadHash}
	h = h.Sign(key, Request{Method: r.Method, Target: r.URL.RequestURI(), Host: host, Port: port})
	r.Header.Set("Authorization", h.String())
	return nil
}

// HostPort splits the authority of a URL or the value of a Host header into
// what Request wants: the host in lower case, an IPv6 literal without brackets,
// and the port, which defaults to that of the URL scheme ("https" 443, else
// 80). The error is ErrMalformed.
func HostPort(authority, urlScheme string) (host string, port uint16, err error) {
	u := url.URL{Host: authority}
	host, port = strings.ToLower(u.Hostname()), 80
	if urlScheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return "", 0, malformed("the port is not a port")
		}
		port = uint16(n)
	}
	if !validHost(host) {
		return "", 0, malformed("the host is not a host name")
	}
	return host, port, nil
}

// validHost refuses what could not have been a host, so that nothing odd gets
// into the text under the MAC: an unclosed bracket, a blank, a newline.
func validHost(host string) bool {
	if strings.Contains(host, ":") {
		return net.ParseIP(host) != nil
	}
	return host != "" && !strings.ContainsFunc(host, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`/?#@[]\"`, c)
	})
}
