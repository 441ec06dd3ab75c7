package httpapi

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

const maxObject = 5 << 30 // bytes, as in S3

// source is a buckets.Source on the body of a request.
type source struct{ *sigv4.Body }

// Sums implements buckets.Source.
func (s source) Sums() buckets.Sums {
	r, ok := s.Result()
	if !ok {
		return buckets.Sums{}
	}
	sums := buckets.Sums{MD5: r.MD5[:]}
	for _, c := range r.Checksums {
		sums.Checksum = buckets.Checksum{Algorithm: c.Algorithm.String(), Value: c.String()}
	}
	return sums
}

// input is the body of a request with the errors of the API.
type input struct{ io.Reader }

func (b input) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = bodyErrors.Of(err)
	}
	return n, err
}

// source returns the body of a PUT, which is verified as it is read.
func (x *exchange) source() (s source, err error) {
	if x.in.ContentLength > maxObject {
		return s, errTooLarge
	}
	fields, err := digests(x.in.Header)
	if err != nil {
		return s, err
	}
	web.StreamBody(x.out)
	s.Body, err = sigv4.NewFormBody(fields, input{x.in.Body}, sigv4.BodyOptions{MaxSize: maxObject, Cores: x.Cores})
	return s, err
}

func (x *exchange) putObject() error {
	web.ReleaseSlot(x.out) // a slow client must not hold it
	o, err := x.newObject()
	if err != nil {
		return err
	}
	copies, err := durability(x.in.Header)
	if err != nil {
		return err
	}
	src, err := x.source()
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.out, x.in, x.Service.WriteMemory(x.in.ContentLength)); err != nil {
		return err
	}
	w, err := x.Service.PutObject(x.ctx(), x.owner, x.bucket.BucketRef, buckets.PutRequest{
		Object: o, Condition: x.condition, Size: x.in.ContentLength, Copies: copies, Ready: x.ready,
	}, src)
	if err != nil {
		return err
	}
	x.writeVersion(&w.Object)
	status := http.StatusCreated
	if w.Replaced {
		status = http.StatusOK
	}
	return x.answer(status, x.ofObject(&w.Object))
}

// getObject also answers HEAD.
func (x *exchange) getObject() error {
	o, err := x.Service.Store.Get(x.ctx(), x.owner, x.bucket.ID, x.route.object)
	if err != nil {
		return err
	}
	if err := x.condition.CheckRead(&o); err != nil {
		if errors.Is(err, buckets.ErrNotModified) {
			x.writeVersion(&o)
		}
		return err
	}
	from, length, status, err := x.extent(&o)
	if err != nil {
		return err
	}
	header := func() {
		h := x.out.Header()
		x.writeObject(&o)
		h.Set("Content-Length", strconv.FormatInt(length, 10))
		switch {
		case status == http.StatusPartialContent:
			h.Set("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(from+length-1, 10)+"/"+strconv.FormatInt(o.Length, 10))
		case o.MD5 != nil:
			h.Set("Content-Md5", base64.StdEncoding.EncodeToString(o.MD5))
		}
		x.out.WriteHeader(status)
	}
	if x.in.Method == http.MethodHead || length == 0 {
		header()
		return nil
	}
	if err := web.ChargeMemory(x.out, x.in, x.Service.ReadMemory(&o, length)); err != nil {
		return err
	}
	return x.stream(x.Service.Open(x.ctx(), x.owner, x.bucket.ID, &o, from, length), length, header)
}

// stream sends a body. The first bytes are read before the header is sent, so that a
// body that cannot be read is an error of the API.
func (x *exchange) stream(body io.ReadCloser, length int64, header func()) error {
	defer func() { _ = body.Close() }() // it was only read
	sent, err := io.Copy(&sender{x.out, header}, body)
	if err == nil && sent != length {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// sender sends the header with the first bytes.
type sender struct {
	io.Writer
	header func() // nil: it was sent
}

func (s *sender) Write(p []byte) (int, error) {
	if s.header != nil {
		s.header()
		s.header = nil
	}
	return s.Writer.Write(p)
}

// extent finds which bytes of an object the request asks for.
func (x *exchange) extent(o *buckets.Object) (from, length int64, status int, err error) {
	header := x.in.Header.Get("Range")
	if header == "" || !x.ifRange(o) {
		return 0, o.Length, http.StatusOK, nil
	}
	from, length, ok, err := buckets.ParseRange(header, o.Length)
	switch {
	case err != nil:
		x.out.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(o.Length, 10))
		return 0, 0, 0, err
	case !ok:
		return 0, o.Length, http.StatusOK, nil
	}
	return from, length, http.StatusPartialContent, nil
}

// ifRange reports whether the range of the request applies to the object.
func (x *exchange) ifRange(o *buckets.Object) bool {
	header := x.in.Header.Get("If-Range")
	switch {
	case header == "":
		return true
	case strings.HasPrefix(header, `"`):
		return strings.Trim(header, `"`) == string(o.ID)
	}
	t, err := http.ParseTime(header)
	return err == nil && buckets.At(t).Seconds() == o.Modified.Seconds()
}

func (x *exchange) deleteObject() error {
	if _, err := x.Service.Store.Delete(x.ctx(), x.owner, x.bucket.BucketRef, x.route.object, x.condition, x.now()); err != nil {
		return err
	}
	return x.nothing()
}
