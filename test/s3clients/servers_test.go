package s3clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

type probe struct {
	sdk
	ctx  context.Context
	url  string
	sign *buckets.Client // for requests that the SDK cannot send
	hook *hook
	made int
}

// errIgnored means that a server accepted a request without applying it.
var errIgnored = errors.New("ignored")

// s3Servers starts the compared servers. A missing binary gives nil.
var s3Servers = []struct {
	name  string
	start func(t *testing.T, h *hook) *buckets.Client
}{
	{"Holdfast", func(t *testing.T, h *hook) *buckets.Client {
		s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL="+h.url,
			"HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_GUEST__ENABLED=false")
		return s.S3(t)
	}},
	{"MinIO", func(t *testing.T, h *hook) *buckets.Client {
		return other(binary.MinIO(t, "first", "MINIO_NOTIFY_WEBHOOK_ENABLE_hook=on", "MINIO_NOTIFY_WEBHOOK_ENDPOINT_hook="+h.url,
			"MINIO_KMS_SECRET_KEY=key:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="))
	}},
	{"versitygw", func(t *testing.T, h *hook) *buckets.Client {
		return other(binary.Versitygw(t, "first", "VGW_EVENT_WEBHOOK_URL="+h.url))
	}},
}

func other(b binary.Bucket) *buckets.Client {
	return &buckets.Client{URL: "http://" + b.Address, Signer: buckets.Key(b.ID, b.Secret)}
}

// TestServers compares the table in docs/buckets-reference.md with each server's answers to the same requests.
// WRITE_TABLE=1 writes the table: make compare-servers.
func TestServers(t *testing.T) {
	t.Parallel()
	const guide, begin, end = "../../docs/buckets-reference.md", "<!-- make compare-servers -->\n", "<!-- end of make compare-servers -->"
	text := string(read(t, filepath.FromSlash(guide)))
	before, rest, found := strings.Cut(text, begin)
	table, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("the markers of the table are missing in " + guide)
	}
	columns := make([]map[string]string, len(s3Servers))
	for n, server := range s3Servers {
		t.Run(server.name, func(t *testing.T) {
			if n > 0 {
				testdb.SoakOnly(t, "other servers do not change with this one")
			}
			h := newHook(t)
			at := server.start(t, h)
			columns[n] = probeAll(t, &probe{sdk: newSDK(at), ctx: t.Context(), url: at.URL, sign: at, hook: h})
		})
	}
	if os.Getenv("WRITE_TABLE") != "" {
		if slices.ContainsFunc(columns, func(c map[string]string) bool { return c == nil }) {
			t.Fatal("a server is missing: run make compare-servers with TEST_SET unset")
		}
		write(t, filepath.FromSlash(guide), []byte(before+begin+tableOf(columns)+end+after))
		return
	}
	want := strings.Split(strings.TrimSpace(table), "\n")
	for row, line := range strings.Split(strings.TrimSpace(tableOf(columns)), "\n") {
		if row >= len(want) {
			t.Fatalf("the guide does not have the row %s: run make compare-servers", line)
		}
		got, wanted := strings.Split(line, "|"), strings.Split(want[row], "|")
		for n := range got {
			if server := n - 2; len(got) != len(wanted) || got[n] != wanted[n] && (row < 2 || server < 0 || server >= len(columns) || columns[server] != nil) {
				t.Errorf("the guide has the row\n%s, want\n%s", want[row], line)
				break
			}
		}
	}
}

func probeAll(t *testing.T, p *probe) map[string]string {
	t.Helper()
	cells := map[string]string{}
	for _, group := range probes() {
		for _, one := range group {
			cells[one.name] = cell(one.try(p))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		t.Logf("%s: %s", name, cells[name])
	}
	return cells
}

func cell(err error) string {
	var e interface{ ErrorCode() string }
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, errIgnored):
		return "ignored"
	case errors.As(err, &e):
		return "no: `" + e.ErrorCode() + "`"
	}
	return "no"
}

func tableOf(columns []map[string]string) string {
	var out strings.Builder
	out.WriteString("| |")
	for _, s := range s3Servers {
		out.WriteString(" " + s.name + " |")
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(s3Servers)) + "\n")
	for _, group := range probes() {
		for _, one := range group {
			out.WriteString("| " + one.name + " |")
			for _, c := range columns {
				out.WriteString(" " + c[one.name] + " |")
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func (p *probe) fresh(locked bool) (bucket string, err error) {
	p.made++
	bucket = fmt.Sprintf("probe-%d", p.made)
	_, err = p.CreateBucket(p.ctx, &s3.CreateBucketInput{Bucket: &bucket, ObjectLockEnabledForBucket: &locked})
	return bucket, err
}

func refused(err error, codes ...string) error {
	var e interface{ ErrorCode() string }
	switch {
	case err == nil:
		return errIgnored
	case errors.As(err, &e) && slices.Contains(codes, e.ErrorCode()):
		return nil
	}
	return err
}

func equal[T comparable](got, want T) error {
	if got != want {
		return errIgnored
	}
	return nil
}

func (p *probe) raw(status int, method, target, body string, headers ...string) error {
	a, err := p.sign.Send(p.ctx, method, target, body, headers...)
	if err == nil && a.Status != status {
		_, rest, _ := strings.Cut(a.Body, "<Code>")
		code, _, _ := strings.Cut(rest, "</Code>")
		return statusError{a.Status, code}
	}
	return err
}

type statusError struct {
	status int
	code   string
}

func (e statusError) Error() string { return fmt.Sprint("status ", e.status) }

func (e statusError) ErrorCode() string {
	if e.code == "" {
		return http.StatusText(e.status)
	}
	return e.code
}
