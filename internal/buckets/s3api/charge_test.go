package s3api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// stalled is the http.ResponseWriter of a client that reads nothing.
type stalled struct {
	header  http.Header
	status  int
	waiting chan<- struct{} // receives a value when the response begins
	release <-chan struct{}
	once    sync.Once
	sent    int
}

func (w *stalled) Header() http.Header    { return w.header }
func (w *stalled) WriteHeader(status int) { w.status = status }

func (w *stalled) Write(p []byte) (int, error) {
	w.once.Do(func() {
		w.waiting <- struct{}{}
		<-w.release
	})
	w.sent += len(p)
	return len(p), nil
}

// readers sends requests without reading the responses. It returns the growth of the heap and of the charged memory.
func (s *server) readers(n int, request func() *http.Request) (heap, charged int64) {
	s.t.Helper()
	memory := web.NewMemory(1<<30, n, time.Minute)
	handler := s.handler.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Memory: memory, Gate: web.NewGate(n, time.Minute)})
	serve := func(waiting chan<- struct{}, release <-chan struct{}) {
		w := &stalled{header: http.Header{}, waiting: waiting, release: release}
		handler.ServeHTTP(w, request())
		if w.status != http.StatusOK {
			s.t.Errorf("status %d", w.status)
		}
	}
	waiting, release := make(chan struct{}, n+1), make(chan struct{})
	released := make(chan struct{})
	close(released)
	serve(waiting, released) // fills caches
	<-waiting
	before := webtest.HeapBytes()
	var all sync.WaitGroup
	for range n {
		all.Go(func() { serve(waiting, release) })
	}
	for range n {
		select {
		case <-waiting:
		case <-s.t.Context().Done():
		}
	}
	heap, charged = webtest.HeapBytes()-before, memory.Stats().Used
	close(release)
	all.Wait()
	if used := memory.Stats().Used; used != 0 {
		s.t.Errorf("%d bytes are still charged", used)
	}
	return heap, charged
}

// uncharged is the most memory of a request that is not charged: headers, handler and short buffers.
const uncharged = 24 << 10

func TestListsAreCharged(t *testing.T) { //nolint:paralleltest // it measures the heap
	testdb.CheckOnly(t, "it measures the heap in 2 s of processor time")
	s := withBucket(t, slog.New(slog.DiscardHandler))
	s.fill(300)
	s.policy(`{` + toAll + `, "Action": ["s3:ListBucket*", "s3:GetObject"]}`)
	const n, most = 16, 1 << 20 // memory of an unread response with 300 long keys
	anonymous := map[string]bool{"objects": true, "groups": true, "versions": true, "uploads": true}
	for name, target := range map[string]string{
		"objects":            "/photos?list-type=2",
		"objects, version 1": "/photos?encoding-type=url",
		"groups":             "/photos?delimiter=x",
		"versions":           "/photos?versions",
		"uploads":            "/photos?uploads",
		"uploads, groups":    "/photos?uploads&delimiter=x",
		"parts":              "/photos/parts?uploadId=" + s.uploadOfParts(400),
		"buckets":            "/",
	} {
		if anonymous[name] {
			s.listIsCharged("anonymous "+name, n, most, func() *http.Request { return httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil) })
		}
		s.listIsCharged(name, n, most, func() *http.Request {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
			s.main.Sign(r, "UNSIGNED-PAYLOAD", time.Now())
			return r
		})
	}
}

// listIsCharged checks that n unread responses use no more than the charged memory, or most bytes each.
func (s *server) listIsCharged(name string, n int, most int64, request func() *http.Request) {
	s.t.Helper()
	heap, charged := s.readers(n, request)
	each := charged / int64(n)
	s.t.Logf("%s: %d KB of the heap, %d KB charged for each of %d", name, heap>>10/int64(n), each>>10, n)
	if heap > charged+int64(n)*uncharged {
		s.t.Errorf("%s: %d bytes of the heap, but %d are charged", name, heap, charged)
	}
	if each > most {
		s.t.Errorf("%s: %d bytes are charged for each of %d readers", name, each, n)
	}
}

// fill stores n objects, uploads and buckets without the API, which would need a request for each.
func (s *server) fill(n int) {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	b := s.bucket("photos")
	for i := range n {
		name := fmt.Sprintf("%06d", i) + strings.Repeat(`"`, 990) + "x"
		now := buckets.At(time.Now())
		o := buckets.Object{Name: name, ContentType: "text/plain", Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 1, MD5: bytes.Repeat([]byte{1}, 16), Inline: []byte("x")}}
		if _, err := s.options.Backend.Put(ctx, b.Owner, b.BucketRef, buckets.Put{Object: o, Now: now}); err != nil {
			s.t.Fatal(err)
		}
		if err := s.options.Backend.CreateUpload(ctx, b.Owner, b.BucketRef, buckets.Upload{ID: buckets.NewUploadID(now), Name: name, Created: now}); err != nil {
			s.t.Fatal(err)
		}
		ref := buckets.BucketRef{Name: fmt.Sprintf("bucket-%04d", i) + strings.Repeat("z", 50), ID: buckets.BucketID(buckets.NewUUID())}
		if _, err := s.options.Backend.CreateBucket(ctx, b.Owner, ref, now); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) bucket(name string) buckets.Bucket {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	a, err := s.options.Backend.Account(ctx, "main")
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := s.options.Backend.Bucket(ctx, a.ID, name)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *server) uploadOfParts(n int) string {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	b, now := s.bucket("photos"), buckets.At(time.Now())
	id := buckets.NewUploadID(now)
	if err := s.options.Backend.CreateUpload(ctx, b.Owner, b.BucketRef, buckets.Upload{ID: id, Name: "parts", Created: now}); err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		p := buckets.Part{Number: i + 1, Created: now, Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 1, MD5: bytes.Repeat([]byte{1}, 16), Inline: []byte("x")}}
		if err := s.options.Backend.PutPart(ctx, buckets.UploadKey{Owner: b.Owner, Bucket: b.BucketRef, Name: "parts", ID: id}, p); err != nil {
			s.t.Fatal(err)
		}
	}
	return string(id)
}

// TestDeletionsAreCharged checks that the response to DeleteObjects is charged, and shortens keys that are too long.
func TestDeletionsAreCharged(t *testing.T) { //nolint:paralleltest // it measures the heap
	testdb.CheckOnly(t, "it measures the heap in 2 s of processor time")
	s := withBucket(t, slog.New(slog.DiscardHandler))
	const n = 16
	for name, keys := range map[string][]string{
		"long keys":          slices.Repeat([]string{strings.Repeat(`"`, 15<<10)}, 100),
		"keys that are read": slices.Repeat([]string{strings.Repeat(`"`, 1024)}, 1000),
	} {
		var b strings.Builder
		b.WriteString("<Delete>")
		for _, key := range keys {
			b.WriteString("<Object><Key>" + key + "</Key></Object>")
		}
		document := b.String() + "</Delete>"
		heap, charged := s.readers(n, func() *http.Request {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/photos?delete", strings.NewReader(document))
			r.Header.Set("Content-Md5", md5Of(document))
			s.main.Sign(r, "UNSIGNED-PAYLOAD", time.Now())
			return r
		})
		t.Logf("%s: %d KB of the heap, %d KB charged for each of %d", name, heap>>10/n, charged>>10/n, n)
		if heap > charged+n*uncharged {
			t.Errorf("%s: %d bytes of the heap, but %d are charged", name, heap, charged)
		}
		if most := int64(n) * 4 << 20; charged > most {
			t.Errorf("%s: %d bytes are charged, want at most %d", name, charged, most)
		}
	}
	a := s.do("POST", "/photos?delete", "<Delete><Object><Key>"+strings.Repeat("é", 600)+"</Key></Object></Delete>", "Content-Md5: "+md5Of("<Delete><Object><Key>"+strings.Repeat("é", 600)+"</Key></Object></Delete>"))
	a.want(200).has("<Code>KeyTooLongError</Code>", "<Key>"+strings.Repeat("é", 512)+"...</Key>")
	long := "<Delete><Object><Key>" + strings.Repeat("k", 17<<10) + "</Key></Object></Delete>"
	s.do("POST", "/photos?delete", long, "Content-Md5: "+md5Of(long)).fails(400, "MalformedXML")
}

func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const most = 8 << 10
	for _, target := range []string{"/photos/" + strings.Repeat(`"`, 7000), "/photos?prefix=" + strings.Repeat(`"`, 7000), "/photos?x=" + strings.Repeat("%22", 2000) + "&X-Amz-Signature=a"} {
		for name, do := range map[string]func(string, string, string, ...string) answer{"signed": s.do, "anonymous": s.anonymous} {
			if a := do("GET", target, ""); a.status < 400 || a.status >= 500 || len(a.body) > most {
				t.Errorf("%s: status %d with %d bytes", name, a.status, len(a.body))
			}
		}
	}
	s.do("GET", "/photos?list-type=2&start-after="+strings.Repeat("a", 1025), "").fails(400, "InvalidArgument")
}

// TestDocumentsAreCharged checks that a slow document is charged while it arrives, and not copied.
func TestDocumentsAreCharged(t *testing.T) { //nolint:paralleltest // it measures the heap
	s := withBucket(t, slog.New(slog.DiscardHandler))
	const n, size = 16, 1 << 20
	memory := web.NewMemory(1<<30, n, time.Minute)
	handler := s.handler.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Memory: memory, Gate: web.NewGate(n, time.Minute)})
	before := webtest.HeapBytes()
	arrived, release := make(chan struct{}, n), make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			body := io.MultiReader(io.LimitReader(spaces{}, size), &held{arrived: arrived, release: release})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/photos?delete", body)
			r.ContentLength = 2 << 20
			r.Header.Set("Content-Md5", md5Of(""))
			s.main.Sign(r, "UNSIGNED-PAYLOAD", time.Now())
			handler.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	for range n {
		<-arrived
	}
	heap, charged := webtest.HeapBytes()-before, memory.Stats().Used
	close(release)
	all.Wait()
	t.Logf("%d KB of the heap, %d KB charged for each of %d", heap>>10/n, charged>>10/n, n)
	if heap > charged+n*uncharged || charged > n*(size+size/8) {
		t.Errorf("%d bytes of the heap, %d are charged for %d bytes that arrived", heap, charged, n*size)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

type held struct {
	arrived chan<- struct{}
	release <-chan struct{}
	once    sync.Once
}

func (h *held) Read([]byte) (int, error) {
	h.once.Do(func() { h.arrived <- struct{}{} })
	<-h.release
	return 0, io.ErrUnexpectedEOF
}
