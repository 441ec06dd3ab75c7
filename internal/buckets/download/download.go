// Package download serves object bodies and ranges for every protocol, with Range and If-Range (RFC 9110, sections
// 13.1.5 and 14).
package download

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// Extent is the requested byte range.
type Extent struct {
	From, Length int64
	Status       int // 200 or 206
}

// Requested returns the requested extent. tag is the entity tag in the caller's protocol. For a range outside the
// object, Requested sets Content-Range and returns buckets.ErrRange.
func Requested(w http.ResponseWriter, r *http.Request, o *buckets.Object, tag string) (Extent, error) {
	whole := Extent{0, o.Length, http.StatusOK}
	header := r.Header.Get("Range")
	if header == "" || !applies(r, o, tag) {
		return whole, nil
	}
	from, length, ok, err := buckets.ParseRange(header, o.Length)
	switch {
	case err != nil:
		w.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(o.Length, 10))
		return Extent{}, err
	case !ok:
		return whole, nil
	}
	return Extent{from, length, http.StatusPartialContent}, nil
}

// applies evaluates If-Range: the range counts only if the object is unchanged (RFC 9110, 13.1.5).
func applies(r *http.Request, o *buckets.Object, tag string) bool {
	header := r.Header.Get("If-Range")
	switch {
	case header == "":
		return true
	case strings.HasPrefix(header, `"`):
		return strings.Trim(header, `"`) == tag
	}
	t, err := http.ParseTime(header)
	return err == nil && buckets.At(t).Seconds() == o.Modified.Seconds()
}

// SetHeader sets Content-Length and Content-Range. size is the size of the whole object.
func (e Extent) SetHeader(h http.Header, size int64) {
	h.Set("Content-Length", strconv.FormatInt(e.Length, 10))
	if e.Status == http.StatusPartialContent {
		h.Set("Content-Range", "bytes "+strconv.FormatInt(e.From, 10)+"-"+strconv.FormatInt(e.From+e.Length-1, 10)+"/"+strconv.FormatInt(size, 10))
	}
}

// Body is an object to send.
type Body struct {
	Service *buckets.Service
	Owner   buckets.AccountID // of the bucket
	Bucket  buckets.BucketID
	Object  *buckets.Object
}

// Send sends an extent, or for HEAD only the header. It calls begin, which sends the header, after the first bytes are
// verified, so that an error can still be sent if the body is unreadable. sent receives the size of each write.
func (b *Body) Send(w http.ResponseWriter, r *http.Request, e Extent, begin func(), sent func(n int)) error {
	if r.Method == http.MethodHead || e.Length == 0 {
		begin()
		return nil
	}
	if err := web.ChargeMemory(r, b.Service.ReadMemory(b.Object, e.Length)); err != nil {
		return err
	}
	body := b.Service.Open(r.Context(), b.Owner, b.Bucket, b.Object, buckets.Span{From: e.From, Length: e.Length})
	defer func() { _ = body.Close() }()
	n, err := io.Copy(&sender{w, begin, sent}, body)
	if err == nil && n != e.Length {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// sender calls begin before the first byte, and counts.
type sender struct {
	io.Writer
	begin func() // nil after the call
	sent  func(n int)
}

func (s *sender) Write(p []byte) (int, error) {
	if s.begin != nil {
		s.begin()
		s.begin = nil
	}
	n, err := s.Writer.Write(p)
	s.sent(n)
	return n, err
}
