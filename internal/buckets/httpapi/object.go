package httpapi

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/download"
	"holdfast/internal/web"
)

const maxObject = 5 << 30 // bytes, as in S3

// source is a request body as buckets.Source.
type source struct{ *sigv4.Body }

// Sums returns zero sums before the body was read to its end.
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

// input reports read errors in this API's words.
type input struct{ io.Reader }

func (b input) Read(p []byte) (int, error) { return bodyErrors.Read(b.Reader, p) }

// source prepares to read the body.
func (x *exchange) source() (s source, err error) {
	if x.in.ContentLength > maxObject {
		return s, errTooLarge
	}
	fields, err := digests(x.in.Header)
	if err != nil {
		return s, err
	}
	web.StreamBody(x.in)
	s.Body, err = sigv4.NewFormBody(fields, input{x.in.Body}, sigv4.BodyOptions{MaxSize: maxObject, Cores: x.Cores})
	return s, err
}

// putObject answers 201 for a new object and 200 for a replaced object.
func (x *exchange) putObject() error {
	web.ReleaseSlot(x.in) // a slow client must not hold the slot
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
	if err := web.ChargeMemory(x.in, x.Service.WriteMemory(x.in.ContentLength)); err != nil {
		return err
	}
	w, err := x.Service.PutObject(x.writing(), x.owner, x.bucket.BucketRef, buckets.PutRequest{
		Object: o, Condition: x.parsed.condition, Size: x.in.ContentLength, Copies: copies, Ready: x.ready, Early: x.withSlot,
	}, src)
	if err != nil {
		return err
	}
	x.writeVersion(&w.Object)
	x.writeVersionID(w.Version)
	status := http.StatusCreated
	if w.Replaced {
		status = http.StatusOK
	}
	answer := x.ofObject(&w.Object)
	answer.Version = w.Version
	return x.answer(status, answer)
}

// getObject handles GET and HEAD.
func (x *exchange) getObject() error {
	o, err := x.read()
	if err != nil {
		return err
	}
	x.writeVersionID(x.versionOf(&o))
	if err := x.parsed.condition.CheckRead(&o); err != nil {
		if errors.Is(err, buckets.ErrNotModified) {
			x.writeVersion(&o)
		}
		return err
	}
	e, err := download.Requested(x.out, x.in, &o, string(o.ID))
	if err != nil {
		return err
	}
	begin := func() {
		h := x.out.Header()
		x.writeObject(&o)
		e.SetHeader(h, o.Length)
		if e.Status == http.StatusOK && o.MD5 != nil {
			h.Set("Content-Md5", base64.StdEncoding.EncodeToString(o.MD5))
		}
		x.out.WriteHeader(e.Status)
	}
	body := download.Body{Service: x.Service, Owner: x.owner, Bucket: x.bucket.ID, Object: &o}
	return body.Send(x.out, x.in, e, begin, func(int) {})
}

// deleteObject deletes an object or the version in the query.
func (x *exchange) deleteObject() error {
	id, err := x.version()
	if err != nil {
		return err
	}
	done, err := x.Service.TakeObject(x.writing(), x.owner, x.bucket.BucketRef, buckets.Delete{Name: x.route.object, Version: id, Condition: x.parsed.condition})
	if err != nil {
		return err
	}
	x.writeVersionID(done.Version)
	if done.Marker {
		x.out.Header().Set(markerHeader, "true")
	}
	return x.nothing()
}
