package errcode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
)

// NetworkReason explains in a line why a network client got no answer: the innermost reason, without addresses and
// URL contents.
func NetworkReason(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && timeout.Timeout() {
		return "timed out"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "unknown host " + dns.Name
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// NoAnswer returns a single-line error for a failed HTTP request. It wraps err.
func NoAnswer(address string, err error) error { return &noAnswer{address, err} }

type noAnswer struct {
	address string
	error
}

func (e *noAnswer) Error() string {
	return "no answer from " + e.address + ": " + NetworkReason(e.error)
}

func (e *noAnswer) Unwrap() error { return e.error }

// NetworkFix says what is wrong between the server and something that it connects to, and what an operator can do. It
// returns "" for errors that are not from the network.
func NetworkFix(err error) string {
	if fix := Fix(err); fix != "" {
		return fix
	}
	if fix := certificateFix(err); fix != "" {
		return fix
	}
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		if strings.HasPrefix(string(plain.RecordHeader[:]), "HTTP/") {
			return plainPort
		}
		return "the port does not speak TLS: use the address without TLS, or name the port with TLS"
	}
	if isPlain(err) {
		return plainPort
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "the name " + dns.Name + " does not exist in DNS: correct the address, or add the name"
		}
		return "the DNS server does not answer: look at /etc/resolv.conf and at the network of this machine"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if fix := errnoFix(errno); fix != "" {
			return fix
		}
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), ok && timeout.Timeout():
		return "there is no answer in time: check the address, firewalls between the machines, and the load of the other machine"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isClosed(err):
		return "the other side closed the connection: look at its log, and check that the address has the right protocol, with or without TLS"
	}
	return ""
}

// certificateFix is NetworkFix for certificates that a client refuses.
func certificateFix(err error) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "the certificate has expired or is not valid yet: renew it, and compare the clocks of both machines"
		}
		return "the certificate is not valid: replace it"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another name: use a name of the certificate in the address, or replace the certificate"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the authority of the certificate is unknown to this machine: add it to the system's certificates, or name its file in SSL_CERT_FILE"
	}
	// crypto/tls reports the other side's alert as such an error; tls.AlertError is for QUIC only.
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return "the other side refuses the TLS connection (" + alert.Err.Error() + "): compare its TLS versions, and look at its log"
	}
	return ""
}

// errnoFix is NetworkFix for errors of the operating system. Limits of the process are explained here too, because they
// prevent connections.
func errnoFix(errno syscall.Errno) string {
	switch errno {
	case syscall.ECONNREFUSED:
		return "nothing listens at the address: start the server there, or correct host and port"
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return "the other side closed the connection: look at its log, and check that the address has the right protocol, with or without TLS"
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.EADDRNOTAVAIL:
		return "there is no route to the address: correct it, or look at the network of this machine"
	case syscall.ETIMEDOUT:
		return "there is no answer in time: check the address, firewalls between the machines, and the load of the other machine"
	case syscall.EMFILE, syscall.ENFILE:
		return "too many open files: raise the limit, with LimitNOFILE= in the systemd unit, ulimit -n or sysctl fs.file-max"
	case syscall.EACCES, syscall.EPERM:
		return "this machine does not allow the connection: look at its firewall, at the unit's sandbox and at the security module (SELinux, AppArmor)"
	}
	return ""
}

// StatusFix returns advice about a status of an HTTP server that the server calls, or "".
func StatusFix(status int) string {
	switch {
	case status == 401 || status == 403 || status == 407:
		return "it refuses the credentials: correct them, or give them the right"
	case status == 404 || status == 405 || status == 410:
		return "it does not know the address: correct the path of the URL"
	case status == 413:
		return "it refuses the size of the request: raise its limit"
	case status == 429:
		return "it limits the rate of requests: raise its limit, or wait"
	case status == 507:
		return "it has no space left: make space there"
	case status >= 300 && status < 400:
		return "it redirects to another URL, which is not followed: use that URL"
	case status >= 500:
		return "it fails: look at its log"
	case status >= 400:
		return "it refuses the request: look at its log"
	}
	return ""
}

// CloudFix has the advice for a canonical status of Google Cloud, which gRPC and the libraries for buckets
// share, e.g. "PermissionDenied". It returns "" for others.
func CloudFix(status string) string {
	switch status {
	case "PermissionDenied":
		return "the account has not the rights: give it the role for this resource, and check that the API is enabled"
	case "Unauthenticated":
		return "the credentials are missing, wrong or expired: set GOOGLE_APPLICATION_CREDENTIALS or the provider's variables, and compare the clock of this machine"
	case "NotFound":
		return "the resource does not exist: create it, or correct its name"
	case "ResourceExhausted":
		return "a quota of the provider is used up: raise it, or wait"
	case "Unavailable":
		return "the provider cannot be reached: check the address, the network, and its status page"
	case "FailedPrecondition":
		return "the resource is in a state that does not allow this: look at it in the provider's console"
	}
	return ""
}

const plainPort = "the port speaks plain HTTP, not TLS: write http:// in the address, or name the port with TLS"

// isPlain recognizes http.ErrSchemeMismatch by its text, because this package does not import net/http.
func isPlain(err error) bool {
	return strings.HasSuffix(httpText(err), "http: server gave HTTP response to HTTPS client")
}

// httpText returns the text of an error of http.Client without method and URL, or "" for another error.
func httpText(err error) string {
	failed, ok := errors.AsType[*url.Error](err)
	if !ok || failed.Err == nil {
		return ""
	}
	return failed.Err.Error()
}

// closed are net/http's errors for a connection that the other side closed, as of Go 1.26. They are not exported.
var closed = []string{
	"http: server closed idle connection", // before the request
	"http2: client connection lost",
	"http2: server sent GOAWAY and closed the connection",
	"http2: Transport received Server's graceful shutdown GOAWAY",
}

func isClosed(err error) bool {
	said := httpText(err)
	return slices.ContainsFunc(closed, func(text string) bool { return strings.Contains(said, text) })
}
