package web

import "errors"

// clientPreface begins a connection with HTTP/2 (RFC 9113, section 3.4).
const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frames follows the bytes of an HTTP/2 connection.
type frames struct {
	preface int // bytes of the preface that were received
}

var errPreface = errors.New("the client negotiated h2, and does not use HTTP/2")

// check returns an error if net/http must not see p. Without the preface, net/http would serve HTTP/1.
func (f *frames) check(p []byte) error {
	n := min(len(p), len(clientPreface)-f.preface)
	if string(p[:n]) != clientPreface[f.preface:f.preface+n] {
		return errPreface
	}
	f.preface += n
	return nil
}
