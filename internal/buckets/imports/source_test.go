package imports

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/testdb"
)

// endless writes an answer without an end, and counts its bytes.
type endless struct {
	status  int
	written atomic.Int64
}

func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(e.status)
	text := []byte("<?xml version=\"1.0\"?><Answer>")
	for r.Context().Err() == nil && e.written.Load() < 8*maxAnswer {
		n, err := w.Write(text)
		if e.written.Add(int64(n)); err != nil {
			return
		}
		text = bytes.Repeat([]byte(" <!-- more -->"), 4<<10)
	}
}

// TestEndlessAnswers calls each operation of a source that sends endless answers. Each call ends after maxAnswer.
func TestEndlessAnswers(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	one := &Listed{Key: "k", ETag: "e-2", Size: 1}
	for name, call := range map[string]func(ctx context.Context, s *Source) error{
		"ListBuckets": func(ctx context.Context, s *Source) error { _, err := s.buckets(ctx); return err },
		"ListObjectsV2": func(ctx context.Context, s *Source) error {
			return s.list(ctx, "b", "", func([]Listed) error { return nil })
		},
		"ListObjectVersions": func(ctx context.Context, s *Source) error {
			_, _, err := s.versionPage(ctx, &s3.ListObjectVersionsInput{Bucket: aws.String("b")})
			return err
		},
		"GetObjectTagging": func(ctx context.Context, s *Source) error { _, err := s.tags(ctx, "b", one); return err },
		"GetObject":        func(ctx context.Context, s *Source) error { _, err := s.get(ctx, "b", one, "", ""); return err },
	} {
		for _, status := range []int{http.StatusOK, http.StatusForbidden} {
			if name == "GetObject" && status == http.StatusOK {
				continue // a body, which is not read into memory
			}
			answer := &endless{status: status}
			server := httptest.NewServer(answer)
			s, err := NewSource(t.Context(), SourceOptions{Endpoint: server.URL, AccessKey: "a", SecretKey: "b", Parallel: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := call(t.Context(), s); err == nil {
				t.Errorf("%s, %d: no error", name, status)
			}
			server.CloseClientConnections()
			server.Close()
			if n := answer.written.Load(); n < maxAnswer || n > 2*maxAnswer {
				t.Errorf("%s, %d: read %d bytes", name, status, n)
			}
		}
	}
}
