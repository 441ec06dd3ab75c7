package s3api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/download"
	"holdfast/internal/web"
)

func itoa(n int) string { return strconv.Itoa(n) }

// putOrCopy serves PutObject and CopyObject.
func (x *request) putOrCopy() error {
	if err := x.checkACL(); err != nil {
		return err
	}
	if x.query.Has("partNumber") { // without uploadId, which would select UploadPart
		return invalidArgument("uploadId", "A part needs the parameter uploadId")
	}
	if x.isCopy() {
		if err := x.identifyBucket(); err != nil {
			return err
		}
		return x.copyObject()
	}
	return x.putObject()
}

// putObject serves PutObject. A small unconditional write needs only the bucket's name; others look the bucket up
// first.
func (x *request) putObject() error {
	if err := x.allowTagging(); err != nil {
		return err
	}
	if err := x.checkLockDigest(); err != nil {
		return err
	}
	if err := x.allowLock(); err != nil {
		return err
	}
	o := x.newObject()
	src, size, err := x.source(sigv4.BodyOptions{})
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.in, x.Service.WriteMemory(size)); err != nil {
		return err
	}
	condition := x.parsed.condition
	if condition.IsSet() || !x.Service.IsInline(size) {
		if err := x.identifyBucket(); err != nil {
			return err
		}
	}
	w, err := x.Service.PutObject(x.writing(), x.owner, x.bucket.BucketRef, buckets.PutRequest{
		Object: o, Condition: condition, Size: size, Ready: x.ready, Early: x.withSlot,
	}, src)
	if err != nil {
		return err
	}
	x.out.Header().Set("Etag", `"`+w.Object.EntityTag()+`"`)
	x.writeChecksum(w.Object.Checksum)
	x.writeExpiration(&w.Object)
	x.versionHeader(w.Version)
	return x.send(http.StatusOK)
}

// getObject serves GetObject and HeadObject. The steps follow RFC 9110: conditions before ranges.
func (x *request) getObject() error {
	o, err := x.storedVersion()
	if err != nil {
		if x.signed == nil && errors.Is(err, buckets.ErrNoObject) {
			return errNoSuchKey
		}
		return err
	}
	if err := x.parsed.condition.CheckRead(&o); err != nil {
		x.writeMetadata(&o)
		return err
	}
	e, err := x.extent(&o)
	if err != nil {
		return err
	}
	x.writeMetadata(&o)
	x.writeLock(&o)
	x.writeExpiration(&o)
	if err := x.override(); err != nil {
		return err
	}
	if o.Parts > 0 && x.has("partNumber") {
		x.out.Header().Set("X-Amz-Mp-Parts-Count", itoa(o.Parts))
	}
	if strings.EqualFold(x.in.Header.Get("X-Amz-Checksum-Mode"), "ENABLED") {
		x.writeChecksum(e.checksum)
	}
	e.SetHeader(x.out.Header(), o.Length)
	body := download.Body{Service: x.Service, Owner: x.owner, Bucket: x.bucket.ID, Object: &o}
	return body.Send(x.out, x.in, e.Extent, func() { x.out.WriteHeader(e.Status) }, func(n int) { x.Sent.Add(int64(n)) })
}

// extent is the range to send, with the checksum of exactly these bytes.
type extent struct {
	download.Extent
	checksum buckets.Checksum // zero if unknown
}

// extent resolves Range or partNumber.
func (x *request) extent(o *buckets.Object) (extent, error) {
	header := x.in.Header.Get("Range")
	if number := x.query.Get("partNumber"); number != "" {
		if header != "" {
			return extent{}, invalidRequest("Cannot specify both Range header and partNumber query parameter")
		}
		return x.partExtent(o, number)
	}
	e, err := download.Requested(x.out, x.in, o, o.EntityTag())
	switch {
	case err != nil:
		return extent{}, errRange.with(Field{"RangeRequested", header}, Field{"ActualObjectSize", strconv.FormatInt(o.Length, 10)})
	case e.Status == http.StatusOK:
		return extent{e, o.Checksum}, nil
	}
	return extent{Extent: e}, nil
}

// partExtent finds a part by its position. An object that was not uploaded in parts has a single part.
func (x *request) partExtent(o *buckets.Object, text string) (extent, error) {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > buckets.MaxParts {
		return extent{}, buckets.ErrPartNumber
	}
	if o.Upload == "" {
		if number > 1 {
			return extent{}, errPart.with(Field{"PartNumberRequested", text}, Field{"ActualPartCount", "1"})
		}
		return extent{ofPart(0, o.Length), o.Checksum}, nil
	}
	// S3 counts the parts of an object from 1, but the stored parts keep the numbers of the upload. Parts must be
	// counted, because empty parts have the same offset as the next part.
	from := int64(0)
	for n, after := 0, 0; ; {
		page, err := x.Service.BodiesOf(x.in.Context(), x.owner, o, after, maxPage)
		if err != nil {
			return extent{}, err
		}
		if len(page) == 0 {
			return extent{}, errPart.with(Field{"PartNumberRequested", text}, Field{"ActualPartCount", itoa(n)})
		}
		for i := range page {
			if n++; n == number {
				// The object's checksum type determines how to combine the parts' checksums.
				sum := page[i].Checksum
				sum.Composite = o.Checksum.Composite
				return extent{ofPart(from, page[i].Length), sum}, nil
			}
			from += page[i].Length
		}
		after = page[len(page)-1].Number
	}
}

// ofPart returns a part's extent. For an empty part the status is 200, because Content-Range cannot express it.
func ofPart(from, length int64) download.Extent {
	if length == 0 {
		return download.Extent{From: from, Status: http.StatusOK}
	}
	return download.Extent{From: from, Length: length, Status: http.StatusPartialContent}
}

// newObject returns the object to store, from the parsed headers.
func (x *request) newObject() buckets.Object {
	o := x.parsed.object
	o.Name, o.Creator = x.key, x.account.ID
	return o
}

// deleteObject succeeds even if the object is missing.
func (x *request) deleteObject() error {
	condition := x.parsed.condition
	id, err := x.versionID()
	if err != nil {
		return err
	}
	d := buckets.Delete{Name: x.key, Version: id, Condition: condition}
	if id != "" {
		if d.Bypass, err = x.bypasses(x.key, string(id)); err != nil {
			return err
		}
	}
	if err := x.ready(); err != nil {
		return err
	}
	done, err := x.Service.TakeObject(x.writing(), x.owner, x.bucket.BucketRef, d)
	if err != nil && (!errors.Is(err, buckets.ErrNoObject) && !errors.Is(err, buckets.ErrNoVersion) || condition.IsSet()) {
		return err
	}
	if x.versionHeader(done.Version); done.Marker {
		x.out.Header().Set("X-Amz-Delete-Marker", "true")
	}
	return x.send(http.StatusNoContent)
}
