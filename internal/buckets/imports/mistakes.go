package imports

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/errcode"
)

// errSpeaksTLS means that the endpoint begins with http://, but the port expects TLS.
var errSpeaksTLS = errors.New("the port expects TLS")

// mistakes finds errors that the user must fix, so that no attempt is repeated for them. It wraps the SDK's client.
type mistakes struct {
	s3.HTTPClient

	answered atomic.Bool // by the source, so the address is right
}

// Do returns errSpeaksTLS if a request without TLS went to a port with TLS. Some servers close the connection, others
// answer 400 in plain HTTP.
func (m *mistakes) Do(r *http.Request) (*http.Response, error) {
	answer, err := m.HTTPClient.Do(r)
	if r.URL.Scheme == "http" && !m.answered.Load() && r.Context().Err() == nil && (err != nil || !isAnswerOfS3(answer)) && speaksTLS(r.Context(), r.URL.Host) {
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, errSpeaksTLS
	}
	if err == nil {
		m.answered.Store(true)
	}
	return answer, err
}

// tlsWithin is the time for a TLS handshake.
const tlsWithin = 5 * time.Second

// speaksTLS reports whether a TLS server listens at the address. It asks after a request without TLS got no answer.
func speaksTLS(ctx context.Context, address string) bool {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "80")
	}
	ctx, cancel := context.WithTimeout(ctx, tlsWithin)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is sent
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// isAnswerOfS3 returns false for status 400 without XML. The body can still be read.
func isAnswerOfS3(answer *http.Response) bool {
	if answer.StatusCode != http.StatusBadRequest {
		return true
	}
	head, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), answer.Body), answer.Body}
	return err == nil && bytes.Contains(head, []byte("<Error"))
}

// isLasting reports whether an error lasts until somebody changes a setting or the source. Until the source has answered
// once, its address may be wrong; afterwards the source, or a router on the way, may be restarting.
func (m *mistakes) isLasting(err error) bool {
	if mistakeOf(err) != "" {
		return true
	}
	if m.answered.Load() {
		return false
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case !ok:
		return false
	case errno == syscall.ECONNRESET, errno == syscall.EPIPE, errno == syscall.ECONNABORTED, errno == syscall.ETIMEDOUT:
		return false
	}
	return errcode.NetworkFix(err) != "" // e.g. refused connections, no route, too many open files
}

// mistakeOf explains network errors that a setting must fix, whenever they occur; "" for others.
func mistakeOf(err error) string {
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		text := "the source's certificate is refused: " + errcode.NetworkReason(invalid)
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
			return text + ". For a private CA, set AWS_CA_BUNDLE to a file with its certificate"
		}
		if fix := errcode.NetworkFix(invalid); fix != "" {
			return text + ": " + fix
		}
		return text
	}
	if errors.Is(err, errSpeaksTLS) {
		return "the source uses TLS on this port: expected an endpoint with https://"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "the source does not use TLS on this port: expected an endpoint with http://"
	}
	if refused, ok := errors.AsType[*net.OpError](err); ok && refused.Op == "remote error" {
		return errcode.NetworkFix(err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return errcode.NetworkFix(err)
	}
	return ""
}
