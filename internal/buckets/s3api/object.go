package s3api

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

func itoa(n int) string { return strconv.Itoa(n) }

// putOrCopy is PutObject, or CopyObject if the request names a source.
func (x *request) putOrCopy() error {
	if err := x.checkFeatures(); err != nil {
		return err
	}
	if x.query.Has("partNumber") { // without uploadId, which selects UploadPart
		return invalidArgument("uploadId", "A part needs the parameter uploadId")
	}
	if x.in.Header.Get("X-Amz-Copy-Source") != "" {
		if err := x.identifyBucket(); err != nil {
			return err
		}
		return x.copyObject()
	}
	return x.putObject()
}

// putObject is PutObject.
func (x *request) putObject() error {
	o := buckets.Object{Name: x.key, Creator: x.account.ID}
	var err error
	if o.ContentType, o.Headers, err = x.metadata(); err != nil {
		return err
	}
	if o.Tags, err = x.tagsHeader(); err != nil {
		return err
	}
	condition, err := x.writeCondition()
	if err != nil {
		return err
	}
	src, size, err := x.source(sigv4.BodyOptions{})
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.out, x.in, x.Service.WriteMemory(size)); err != nil {
		return err
	}
	if condition.IsSet() || !x.Service.IsInline(size) {
		if err := x.identifyBucket(); err != nil {
			return err
		}
	}
	w, err := x.Service.PutObject(x.in.Context(), x.owner, x.bucket.BucketRef, buckets.PutRequest{
		Object: o, Condition: condition, Size: size, Ready: x.ready,
	}, src)
	if err != nil {
		return err
	}
	x.out.Header().Set("Etag", `"`+w.Object.EntityTag()+`"`)
	x.writeChecksum(w.Object.Checksum)
	return x.send(http.StatusOK)
}

// writeCondition reads the condition of a write. S3 has If-None-Match: * and If-Match.
func (x *request) writeCondition() (buckets.Condition, error) {
	c, err := x.condition("")
	if err == nil && len(c.NoneMatch.Tags) > 0 {
		err = errNotImplemented("If-None-Match with an ETag on a write; use *")
	}
	c.ModifiedSince, c.UnmodifiedSince = 0, 0
	return c, err
}

// getObject is GetObject and HeadObject.
func (x *request) getObject() error {
	condition, err := x.condition("")
	if err != nil {
		return err
	}
	if err := x.checkVersion(); err != nil {
		return err
	}
	ctx := x.in.Context()
	o, err := x.stored()
	if err != nil {
		if x.signed == nil && errors.Is(err, buckets.ErrNoObject) {
			return errNoSuchKey
		}
		return err
	}
	if err := condition.CheckRead(&o); err != nil {
		x.writeMetadata(&o)
		return err
	}
	e, err := x.extent(&o)
	if err != nil {
		return err
	}
	x.writeMetadata(&o)
	if err := x.override(); err != nil {
		return err
	}
	if o.Parts > 0 && x.has("partNumber") {
		x.out.Header().Set("X-Amz-Mp-Parts-Count", itoa(o.Parts))
	}
	if strings.EqualFold(x.in.Header.Get("X-Amz-Checksum-Mode"), "ENABLED") {
		x.writeChecksum(e.checksum)
	}
	h := x.out.Header()
	h.Set("Content-Length", strconv.FormatInt(e.length, 10))
	if e.status == http.StatusPartialContent {
		h.Set("Content-Range", "bytes "+strconv.FormatInt(e.from, 10)+"-"+strconv.FormatInt(e.from+e.length-1, 10)+"/"+strconv.FormatInt(o.Length, 10))
	}
	if x.in.Method == http.MethodHead || e.length == 0 {
		x.out.WriteHeader(e.status)
		return nil
	}
	if err := web.ChargeMemory(x.out, x.in, x.Service.ReadMemory(&o, e.length)); err != nil {
		return err
	}
	body := x.Service.Open(ctx, x.owner, x.bucket.ID, &o, e.from, e.length)
	defer func() { _ = body.Close() }() // it was only read
	sent, err := io.Copy(&sender{x: x, status: e.status}, body)
	if err == nil && sent != e.length {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// sender sends a body. The status is sent with the first bytes, so that a body that cannot
// be read is an error of the protocol.
type sender struct {
	x      *request
	status int // 0: it was sent
}

func (s *sender) Write(p []byte) (n int, err error) {
	if s.status != 0 {
		s.x.out.WriteHeader(s.status)
		s.status = 0
	}
	n, err = s.x.out.Write(p)
	s.x.Sent.Add(int64(n))
	return n, err
}

// checkVersion refuses versions: every object has the version null.
func (x *request) checkVersion() error {
	if v := x.query.Get("versionId"); v != "" && v != "null" {
		return errVersion
	}
	return nil
}

// extent is a contiguous range of an object's bytes.
type extent struct {
	from, length int64
	status       int              // of the answer
	checksum     buckets.Checksum // of the range, with its type; zero: not known
}

// extent returns the bytes of an object that the request asks for.
func (x *request) extent(o *buckets.Object) (extent, error) {
	header := x.in.Header.Get("Range")
	if number := x.query.Get("partNumber"); number != "" {
		if header != "" {
			return extent{}, invalidRequest("Cannot specify both Range header and partNumber query parameter")
		}
		return x.partExtent(o, number)
	}
	whole := extent{0, o.Length, http.StatusOK, o.Checksum}
	if header == "" || !x.ifRange(o) {
		return whole, nil
	}
	from, length, ok, err := buckets.ParseRange(header, o.Length)
	if err != nil {
		x.out.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(o.Length, 10))
		return extent{}, &Error{Status: errRange.Status, Code: errRange.Code, Message: errRange.Message, Fields: []Field{
			{"RangeRequested", header}, {"ActualObjectSize", strconv.FormatInt(o.Length, 10)},
		}}
	}
	if !ok {
		return whole, nil
	}
	return extent{from: from, length: length, status: http.StatusPartialContent}, nil
}

// ifRange reports whether the range of the request applies to the object.
func (x *request) ifRange(o *buckets.Object) bool {
	header := x.in.Header.Get("If-Range")
	switch {
	case header == "":
		return true
	case strings.HasPrefix(header, `"`):
		return strings.Trim(header, `"`) == o.EntityTag()
	}
	m := date(header)
	return m != 0 && m.Seconds() == o.Modified.Seconds()
}

// partExtent returns the bytes of a part.
func (x *request) partExtent(o *buckets.Object, text string) (extent, error) {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > buckets.MaxParts {
		return extent{}, buckets.ErrPartNumber
	}
	if o.Upload == "" {
		if number > 1 {
			return extent{}, errPart
		}
		return extent{0, o.Length, statusOfPart(o.Length), o.Checksum}, nil
	}
	// Parts are numbered as they were uploaded; S3 counts them from 1. An empty part has no
	// offset of its own, so they are counted.
	from := int64(0)
	for n, after := 0, 0; ; {
		page, err := x.Service.Collector.UploadBodies(x.in.Context(), x.owner, o.Upload, after, maxPage)
		if err != nil {
			return extent{}, err
		}
		if len(page) == 0 {
			return extent{}, errPart
		}
		for i := range page {
			if n++; n == number {
				// The type is that of the object: it says how the checksums of parts are combined.
				sum := page[i].Checksum
				sum.Composite = o.Checksum.Composite
				return extent{from, page[i].Length, statusOfPart(page[i].Length), sum}, nil
			}
			from += page[i].Length
		}
		after = page[len(page)-1].Number
	}
}

// statusOfPart is the status of a part: no Content-Range can express an empty one.
func statusOfPart(length int64) int {
	if length == 0 {
		return http.StatusOK
	}
	return http.StatusPartialContent
}

// deleteObject is DeleteObject, which succeeds if there is no object.
func (x *request) deleteObject() error {
	condition, err := x.condition("")
	if err != nil {
		return err
	}
	if err := x.checkVersion(); err != nil {
		return err
	}
	if x.in.Header.Get("X-Amz-If-Match-Size") != "" || x.in.Header.Get("X-Amz-If-Match-Last-Modified-Time") != "" {
		return errNotImplemented("conditions of directory buckets")
	}
	if err := x.ready(); err != nil {
		return err
	}
	_, err = x.Service.Store.Delete(x.in.Context(), x.owner, x.bucket.BucketRef, x.key, condition, x.now())
	if err != nil && (!errors.Is(err, buckets.ErrNoObject) || condition.IsSet()) {
		return err
	}
	return x.send(http.StatusNoContent)
}
