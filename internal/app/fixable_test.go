package app

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/app/console"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/buckets/blobs/clouddriver"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/upstream"
	"holdfast/internal/outbox"
	"holdfast/internal/replica/cloudtarget"
)

// outside reaches something outside the server at an address and returns the error. isHTTP and hasTLS describe the
// protocol.
type outside struct {
	call           func(ctx context.Context, address string) error
	isHTTP, hasTLS bool
}

// publish sends an event to a sink.
func publish(ctx context.Context, setting string) error {
	sink, end, err := sinks.Brokers(nil).Open(ctx, sinks.Options{Setting: setting, Source: "test", Log: slog.New(slog.DiscardHandler), Clock: time.Now})
	if err != nil {
		return err
	}
	err = sink.Publish(ctx, []outbox.Event{{Owner: "a", Stream: "a", Seq: 1, Topic: "a.b.v1", Payload: []byte("{}")}})
	return errors.Join(err, end())
}

// fetch asks an upstream catalogue.
func fetch(ctx context.Context, address string) error {
	c := upstream.New(catalogue.Upstreams{Timeout: 2 * time.Second, MaxBody: 1 << 10})
	_, err := c.Fetch(ctx, guest.Upstream{Name: "search", URL: address}, url.Values{}, nil)
	return err
}

// bucketURL is an S3 bucket at an endpoint. Each call is tried once.
func bucketURL(endpoint string) string {
	return "s3://bucket?region=a&use_path_style=true&disable_https=false&endpoint=" + url.QueryEscape(endpoint)
}

// outsides are all drivers that connect to something. A plain driver is called with its own scheme://host:port.
var outsides = map[string]outside{
	"PostgreSQL": {call: func(ctx context.Context, address string) error {
		db, err := pgdb.Open(ctx, pgdb.Options{URL: "postgres://u:p@" + hostAt(address) + "/d?sslmode=disable", ConnectTimeout: 2 * time.Second})
		if err != nil {
			return err
		}
		defer db.Close()
		_, _, err = db.Pooler(ctx)
		return err
	}},
	"Redis": {call: func(ctx context.Context, address string) error { return pingRedis(ctx, "redis://"+hostAt(address)) }},
	"Redis with TLS": {hasTLS: true, call: func(ctx context.Context, address string) error {
		return pingRedis(ctx, "rediss://"+hostAt(address))
	}},
	"webhook":   {isHTTP: true, hasTLS: true, call: publish},
	"catalogue": {isHTTP: true, hasTLS: true, call: fetch},
	"storage node": {isHTTP: true, hasTLS: true, call: func(ctx context.Context, address string) error {
		return clouddriver.Init(ctx, bucketURL(address), "node")
	}},
	"replica and backup": {isHTTP: true, hasTLS: true, call: func(ctx context.Context, address string) error {
		b, err := cloudtarget.Open(ctx, bucketURL(address))
		if err != nil {
			return err
		}
		_, err = b.List(ctx, "")
		return err
	}},
}

func pingRedis(ctx context.Context, address string) error {
	db, err := redisdb.Open(ctx, redisdb.Options{URL: address, Timeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Run(ctx, "ping", func(ctx context.Context, c rueidis.Client) error { return c.Do(ctx, c.B().Ping().Build()).Error() })
}

func hostAt(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// wantFix checks the log line, and the text in the console and in jobs.
func wantFix(t *testing.T, what string, err error, fix string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for where, text := range map[string]string{"log": err.Error(), "console": console.Message(err)} {
		if strings.Contains(text, "internal error") || !strings.Contains(text, fix) {
			t.Errorf("%s: the %s says %q, want %q", what, where, text, fix)
		}
	}
	if text := errcode.Message(err); errcode.Of(err) == errcode.Internal || strings.Contains(text, fix) {
		t.Errorf("%s: a client gets %v %q", what, errcode.Of(err), text)
	}
}

// TestOutsideFailures fails each driver with a name that does not exist, a port where nothing listens, a listener that
// closes connections, a certificate from an unknown authority, and a plain port instead of TLS. No text says "internal
// error", and each gives advice.
func TestOutsideFailures(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	closing := listenAnd(t, func(conn net.Conn) { _ = conn.Close() })
	unused := listenAnd(t, nil)
	unknown := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	unknown.StartTLS()
	t.Cleanup(unknown.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, out := range outsides {
		scheme := "http://"
		for kind, c := range map[string]struct {
			address, fix string
			skip         bool
		}{
			"DNS":               {scheme + "x.invalid:1", "", false},
			"refused":           {scheme + unused, "nothing listens at the address: start the server there", false},
			"closed":            {scheme + closing, "the other side closed the connection: look at its log", false},
			"unknown authority": {unknown.URL, "add it to the system's certificates", !out.hasTLS},
			"plain port":        {"https://" + hostAt(plain.URL), "TLS", !out.hasTLS},
		} {
			if kind == "DNS" {
				c.fix = "correct the address, or add the name"
			}
			if c.skip {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := out.call(ctx, c.address)
			cancel()
			if kind == "DNS" && err != nil && strings.Contains(err.Error(), "/etc/resolv.conf") {
				continue // this machine has no DNS server that answers
			}
			wantFix(t, name+", "+kind, err, c.fix)
		}
	}
}

// listenAnd returns a listener's address. The listener calls serve for each connection, or is closed if serve is nil.
func listenAnd(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if serve == nil {
		_ = l.Close()
		return l.Addr().String()
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return l.Addr().String()
}

// TestProviderRefusals checks the texts when cloud providers, webhooks and catalogues refuse something.
func TestProviderRefusals(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	status, code := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName xml.Name `xml:"Error"`
			Code    string
		}{Code: code})
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		status    int
		code, fix string
	}{
		{403, "AccessDenied", "allow it to list, read, write and delete"},
		{403, "InvalidAccessKeyId", "correct AWS_ACCESS_KEY_ID"},
		{403, "SignatureDoesNotMatch", "correct AWS_SECRET_ACCESS_KEY"},
		{403, "RequestTimeTooSkewed", "the clock of this machine differs"},
		{400, "ExpiredToken", "renew them"},
		{404, "NoSuchBucket", "create it, or correct the URL"},
		{507, "InsufficientStorage", "make space"},
		{400, "QuotaExceeded", "raise it, or make space"},
	} {
		status, code = c.status, c.code
		for _, name := range []string{"storage node", "replica and backup"} {
			err := outsides[name].call(t.Context(), server.URL)
			wantFix(t, name+", "+c.code, err, c.fix)
		}
	}
	for s, fix := range map[int]string{401: "credentials", 403: "credentials", 413: "size", 429: "rate", 500: "look at its log", 507: "make space"} {
		status = s
		for _, name := range []string{"webhook", "catalogue"} {
			wantFix(t, name+", "+http.StatusText(s), outsides[name].call(t.Context(), server.URL), fix)
		}
	}
}

// TestRedisRefusals checks the text for each way in which Redis refuses something.
func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	for reply, fix := range map[string]string{
		"NOAUTH Authentication required.": "write it into the URL", "WRONGPASS invalid": "correct the URL", "READONLY You can't write": "name the primary",
		"OOM command not allowed": "raise maxmemory", "LOADING Redis is loading": "wait", "MISCONF errors": "make space on its disk", "NOPERM no": "ACL SETUSER",
		"ERR max number of clients reached": "raise maxclients", "CLUSTERDOWN the cluster is down": "CLUSTER INFO",
	} {
		address := listenAnd(t, func(conn net.Conn) {
			go func() {
				defer conn.Close()
				buffer := make([]byte, 4<<10)
				for {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
					if _, err := io.WriteString(conn, "-"+reply+"\r\n"); err != nil {
						return
					}
				}
			}()
		})
		wantFix(t, "Redis, "+reply, pingRedis(t.Context(), "redis://"+address), fix)
	}
}
