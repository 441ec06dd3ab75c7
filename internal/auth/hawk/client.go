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

// SignHTTP sets a request's Authorization header. payloadHash is the body's PayloadHash, or "" to leave it unsigned.
// It returns ErrMalformed if the URL's host or port is invalid.
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

// HostPort splits a URL authority or Host header into Request fields: host in lower case, IPv6 without brackets, and
// port. The default port is 443 for "https" and otherwise 80. The error is ErrMalformed.
func HostPort(authority, urlScheme string) (host string, port uint16, err error) {
	u := url.URL{Host: authority}
	host, port = strings.ToLower(u.Hostname()), 80
	if urlScheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return "", 0, malformed("the port must be a number from 0 to 65535")
		}
		port = uint16(n)
	}
	if !validHost(host) {
		return "", 0, malformed("the host is not a valid host name")
	}
	return host, port, nil
}

// validHost rejects unclosed brackets, blanks, newlines and other characters that could forge a line of the signed
// text.
func validHost(host string) bool {
	if strings.Contains(host, ":") {
		return net.ParseIP(host) != nil
	}
	return host != "" && !strings.ContainsFunc(host, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`/?#@[]\"`, c)
	})
}
