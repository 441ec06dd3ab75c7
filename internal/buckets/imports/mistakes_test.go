package imports

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// counting counts attempts, and answers them with answer.
type counting struct {
	attempts atomic.Int32
	do       func(r *http.Request) (*http.Response, error)
}

func (c *counting) Do(r *http.Request) (*http.Response, error) {
	c.attempts.Add(1)
	return c.do(r)
}

// listFrom lists an endpoint's buckets with the given HTTP client; nil uses the SDK's.
func listFrom(t *testing.T, endpoint string, do func(r *http.Request) (*http.Response, error)) (attempts int32, err error) {
	t.Helper()
	s, err := NewSource(t.Context(), SourceOptions{Endpoint: endpoint, AccessKey: "a", SecretKey: "b", Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, ok := s.client.Options().HTTPClient.(*mistakes)
	if !ok {
		t.Fatalf("the client is a %T", s.client.Options().HTTPClient)
	}
	c := &counting{do: m.HTTPClient.Do}
	if do != nil {
		c.do = do
	}
	m.HTTPClient = c
	_, err = s.buckets(t.Context())
	return c.attempts.Load(), err
}

// TestMistakes checks that every connection error that a retry cannot fix ends the import at the first attempt, with
// advice. The servers and errors are those that errcode.NetworkFix knows.
func TestMistakes(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", "")
	start := func(secure bool, config func(*httptest.Server)) string {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		if config != nil {
			config(server)
		}
		if secure {
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	secure := start(true, nil)
	silent := listenSilently(t)
	for name, c := range map[string]struct{ endpoint, want string }{
		"unknown authority":           {"https://" + secure, "signed by unknown authority. For a private CA, set AWS_CA_BUNDLE"},
		"https to a port of HTTP":     {"https://" + start(false, nil), "does not use TLS on this port: expected an endpoint with http://"},
		"https to another protocol":   {"https://" + listenPlain(t), "does not use TLS on this port: expected an endpoint with http://"},
		"http to a port of HTTPS":     {"http://" + secure, "uses TLS on this port: expected an endpoint with https://"},
		"http to a silent TLS server": {"http://" + silent, "uses TLS on this port: expected an endpoint with https://"},
		"no common TLS version": {"https://" + start(true, func(s *httptest.Server) {
			s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
		}), "compare its TLS versions"},
		"nothing listens": {"http://" + testdb.FreeAddress(t), "nothing listens at the address"},
	} {
		attempts, err := listFrom(t, c.endpoint, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || attempts != 1 {
			t.Errorf("%s: %d attempts: %v, want %q", name, attempts, err, c.want)
		}
		if errcode.Message(err) == "" {
			t.Errorf("%s: no message of ours: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"expired certificate": {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "has expired or is not valid yet"},
		"invalid certificate": {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}}, "replace it"},
		"certificate of another": {&tls.CertificateVerificationError{Err: x509.HostnameError{
			Certificate: &x509.Certificate{DNSNames: []string{"other"}}, Host: "a",
		}}, "is for another name"},
		"unknown host":        {&net.DNSError{IsNotFound: true, Name: "absent"}, "does not exist in DNS"},
		"no route":            {syscall.EHOSTUNREACH, "no route to the address"},
		"no network":          {syscall.ENETUNREACH, "no route to the address"},
		"too many open files": {syscall.EMFILE, "too many open files"},
		"forbidden":           {syscall.EACCES, "does not allow the connection"},
		"forbidden by rule":   {syscall.EPERM, "does not allow the connection"},
	} {
		wrapped := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", c.err)}
		attempts, err := listFrom(t, "https://s3.test", func(*http.Request) (*http.Response, error) {
			if _, ok := errors.AsType[syscall.Errno](c.err); ok {
				return nil, wrapped
			}
			return nil, c.err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || attempts != 1 {
			t.Errorf("%s: %d attempts: %v, want %q", name, attempts, err, c.want)
		}
	}
}

// TestTransientErrors checks that the import retries after transient errors, and after all errors once the source answered.
func TestTransientErrors(t *testing.T) {
	t.Parallel()
	const listing = `<?xml version="1.0"?><ListAllMyBucketsResult><Buckets><Bucket><Name>photos</Name></Bucket></Buckets></ListAllMyBucketsResult>`
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/xml"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	busy := func() (*http.Response, error) { return answer(503, "<Error><Code>SlowDown</Code></Error>") }
	failed := func(errno error) func() (*http.Response, error) {
		return func() (*http.Response, error) { return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errno} }
	}
	for name, first := range map[string][]func() (*http.Response, error){
		"a reset":                 {failed(syscall.ECONNRESET)},
		"a timeout":               {failed(context.DeadlineExceeded)},
		"an early end":            {failed(io.ErrUnexpectedEOF)},
		"a busy source":           {busy},
		"a restart of the source": {busy, failed(syscall.ECONNREFUSED)},
	} {
		n := -1
		attempts, err := listFrom(t, "https://s3.test", func(*http.Request) (*http.Response, error) {
			if n++; n < len(first) {
				return first[n]()
			}
			return answer(200, listing)
		})
		if err != nil || int(attempts) != len(first)+1 {
			t.Errorf("%s: %d attempts: %v", name, attempts, err)
		}
	}
}

// TestNoCredentials checks that missing credentials are found before anything connects.
func TestNoCredentials(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	absent := filepath.Join(t.TempDir(), "absent")
	t.Setenv("AWS_CONFIG_FILE", absent)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", absent)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	_, err := NewSource(t.Context(), SourceOptions{Endpoint: "http://127.0.0.1:1", Parallel: 1})
	if err == nil || !strings.HasPrefix(errcode.Message(err), "no credentials for the source: set AWS_ACCESS_KEY_ID") {
		t.Errorf("got %v", err)
	}
}

// listenOn answers each connection with serve.
func listenOn(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

// listenPlain greets like a mail server.
func listenPlain(t *testing.T) string {
	t.Helper()
	return listenOn(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "220 mail.test ESMTP\r\n")
		_, _ = io.Copy(io.Discard, c)
		c.Close()
	})
}

// listenSilently serves TLS, and closes connections without TLS silently, like OpenSSL.
func listenSilently(t *testing.T) string {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	t.Cleanup(certified.Close)
	config := certified.TLS.Clone()
	return listenOn(t, func(c net.Conn) {
		defer c.Close()
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err != nil || first[0] != 0x16 { // the handshake record's type
			return
		}
		_ = tls.Server(&begun{c, first}, config).HandshakeContext(t.Context())
	})
}

// begun is a connection whose first bytes were read.
type begun struct {
	net.Conn

	first []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}
