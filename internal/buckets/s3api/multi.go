package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/optional"
	"holdfast/internal/web"
)

// createUpload serves CreateMultipartUpload. The metadata is settled here, and CompleteMultipartUpload only adds parts.
func (x *request) createUpload() error {
	if err := x.checkACL(); err != nil {
		return err
	}
	if err := x.allowTagging(); err != nil {
		return err
	}
	if err := x.allowLock(); err != nil {
		return err
	}
	o := x.newObject()
	u := buckets.Upload{Name: o.Name, Creator: o.Creator, ContentType: o.ContentType, Headers: o.Headers, Properties: o.Properties}
	var err error
	if u.Checksum, err = x.chosenChecksum(); err != nil {
		return err
	}
	if err := x.ready(); err != nil {
		return err
	}
	if err := x.checkNow(); err != nil {
		return err
	}
	if u.ID, err = x.Service.CreateUpload(x.in.Context(), x.owner, x.bucket.BucketRef, u); err != nil {
		return err
	}
	if u.Checksum.Algorithm != "" {
		x.out.Header().Set("X-Amz-Checksum-Algorithm", u.Checksum.Algorithm)
		x.out.Header().Set("X-Amz-Checksum-Type", checksumType(u.Checksum))
	}
	d := newDocument("InitiateMultipartUploadResult")
	d.text("Bucket", x.bucket.Name)
	d.text("Key", x.key)
	d.text("UploadId", string(u.ID))
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// checkNow checks the condition of a new upload against the current object, because some clients send it with every
// request of an upload. Only the condition of CompleteMultipartUpload prevents lost updates.
func (x *request) checkNow() error {
	if !x.parsed.condition.IsSet() {
		return nil
	}
	switch o, err := x.Service.Object(x.in.Context(), x.owner, x.bucket.ID, x.key); {
	case errors.Is(err, buckets.ErrNoObject):
		return x.parsed.condition.CheckWrite(nil)
	case err != nil:
		return err
	default:
		return x.parsed.condition.CheckWrite(&o)
	}
}

// chosenChecksum returns the algorithm and type for the whole object. The rules are S3's: CRC64NVME is always of the
// full object, SHA1 and SHA256 are always composite.
func (x *request) chosenChecksum() (c buckets.Checksum, err error) {
	name, kind := x.in.Header.Get("X-Amz-Checksum-Algorithm"), x.in.Header.Get("X-Amz-Checksum-Type")
	if name == "" {
		if kind != "" {
			return c, invalidRequest("The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.")
		}
		return c, nil
	}
	a, ok := checksum.ParseAlgorithm(name)
	if !ok {
		return c, errAlgorithm
	}
	c.Algorithm = a.String()
	sha := a == checksum.SHA1 || a == checksum.SHA256
	switch kind {
	case "":
		c.Composite = a != checksum.CRC64NVME
	case "COMPOSITE":
		if c.Composite = true; a == checksum.CRC64NVME {
			return c, invalidRequest("The COMPOSITE checksum type cannot be used with the crc64nvme checksum algorithm.")
		}
	case "FULL_OBJECT":
		if sha {
			return c, invalidRequest("The FULL_OBJECT checksum type cannot be used with the " + strings.ToLower(c.Algorithm) + " checksum algorithm.")
		}
	default:
		return c, invalidRequest("Value for x-amz-checksum-type header is invalid.")
	}
	return c, nil
}

// upload identifies the upload that the request names.
func (x *request) upload() buckets.UploadKey {
	return buckets.UploadKey{Owner: x.owner, Bucket: x.bucket.BucketRef, Name: x.key, ID: buckets.UploadID(x.query.Get("uploadId"))}
}

// uploadInProgress reads the upload. Policies see the properties that the client gave it, because the object will have
// them. If there is no upload, the policy decides whether the client learns that.
func (x *request) uploadInProgress() (u buckets.Upload, err error) {
	if err = x.checkUploadID(); err == nil {
		err = x.withSlot(func() (err error) {
			u, err = x.Service.Upload(x.in.Context(), x.upload())
			return err
		})
	}
	if errors.Is(err, buckets.ErrNoUpload) {
		if denied := x.allowLate(); denied != nil {
			return u, denied
		}
	}
	p := &x.parsed.object
	p.ContentType, p.Headers, p.Tags, p.Lock = u.ContentType, u.Headers, u.Tags, u.Lock
	return u, err
}

// allowCompletion authorizes a completion. Policies see the metadata that the upload was created with.
func (x *request) allowCompletion() error {
	if x.bucket.Settings.Policy.IsZero() {
		return x.checkUploadID()
	}
	if _, err := x.uploadInProgress(); err != nil {
		return err
	}
	return x.allowLate()
}

// checkUploadID rejects IDs that are not UUIDs, because databases would reject them.
func (x *request) checkUploadID() error {
	text := x.query.Get("uploadId")
	if id, err := buckets.ParseUUID(text); err != nil || id != text {
		return buckets.ErrNoUpload
	}
	return nil
}

// partNumber returns buckets.ErrPartNumber for anything but 1 to 10,000.
func (x *request) partNumber() (int, error) {
	n, err := strconv.Atoi(x.query.Get("partNumber"))
	if err != nil || n < 1 || n > buckets.MaxParts {
		return 0, buckets.ErrPartNumber
	}
	return n, nil
}

// putPart serves UploadPart and UploadPartCopy.
func (x *request) putPart() error {
	if err := x.checkACL(); err != nil {
		return err
	}
	u, err := x.uploadInProgress()
	if err == nil && !x.isCopy() {
		err = x.allowLate()
	}
	number, invalid := x.partNumber()
	if invalid != nil && (err == nil || errors.Is(err, buckets.ErrNoUpload)) {
		return invalid // a wrong number is wrong for every upload, but who may not write learns nothing
	}
	if err != nil {
		return err
	}
	r := buckets.PartRequest{Number: number, Ready: x.ready}
	if x.isCopy() {
		return x.copyPart(r, u.Checksum.Algorithm)
	}
	var compute []checksum.Algorithm
	if a, ok := checksum.ParseAlgorithm(u.Checksum.Algorithm); ok {
		compute = []checksum.Algorithm{a}
	}
	src, size, err := x.source(sigv4.BodyOptions{Compute: compute})
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.in, x.Service.WriteMemory(size)); err != nil {
		return err
	}
	r.Size = size
	p, err := x.Service.PutPart(x.in.Context(), x.upload(), r, source{src.body, u.Checksum.Algorithm})
	if err != nil {
		return err
	}
	x.out.Header().Set("Etag", `"`+hexOf(p.MD5)+`"`)
	if p.Checksum.Algorithm != "" {
		x.out.Header().Set("X-Amz-Checksum-"+p.Checksum.Algorithm, p.Checksum.Value)
	}
	return x.send(http.StatusOK)
}

// partMarker parses a marker, after which parts are listed. "" is 0.
func partMarker(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	marker, err := strconv.Atoi(text)
	if err != nil || marker < 0 {
		return 0, invalidArgument("part-number-marker", "Argument part-number-marker must be an integer between 0 and 2147483647")
	}
	return marker, nil
}

// listParts serves ListParts.
func (x *request) listParts() error {
	if err := x.checkUploadID(); err != nil {
		return err
	}
	limit, err := x.count("max-parts")
	if err != nil {
		return err
	}
	marker, err := partMarker(x.query.Get("part-number-marker"))
	if err != nil {
		return err
	}
	u, err := x.Service.Upload(x.in.Context(), x.upload())
	if err != nil {
		return err
	}
	d := x.newStream("ListPartsResult")
	if err := d.grow(maxEscaped*len(x.key) + 2*maxFixed); err != nil {
		return err
	}
	d.text("Bucket", x.bucket.Name)
	d.text("Key", x.key)
	d.text("UploadId", string(u.ID))
	x.writeOwner(d.document, "Initiator")
	x.writeOwner(d.document, "Owner")
	d.text("StorageClass", u.Class.Name())
	if u.Checksum.Algorithm != "" {
		d.text("ChecksumAlgorithm", u.Checksum.Algorithm)
		d.text("ChecksumType", checksumType(u.Checksum))
	}
	d.number("PartNumberMarker", int64(marker))
	d.number("MaxParts", int64(limit))
	next, more, err := x.writeParts(d, min(marker, buckets.MaxParts), limit)
	if err != nil {
		return err
	}
	d.number("NextPartNumberMarker", int64(next))
	d.flag("IsTruncated", more)
	return d.finish()
}

const (
	partSlice  = 256     // parts read at once
	partMemory = 1 << 10 // bytes per part in memory
)

// writeParts writes at most limit parts. next is the last number written.
func (x *request) writeParts(d *stream, after, limit int) (next int, more bool, err error) {
	if limit == 0 {
		return 0, false, nil
	}
	left := limit
	err = d.Slices(int64(min(limit, partSlice)+1)*partMemory, func() (bool, error) {
		var page []buckets.Part
		if err := d.Read(func() (err error) {
			page, more, err = x.Service.Parts(x.in.Context(), x.upload(), after, min(left, partSlice))
			return err
		}); err != nil {
			return false, err
		}
		for i := range page {
			if err := d.grow(maxFixed); err != nil {
				return false, err
			}
			d.part(&page[i])
			next = page[i].Number
		}
		after = next
		left -= len(page)
		if more && left > 0 {
			return true, nil
		}
		return false, d.grow(maxFixed)
	})
	return next, more, err
}

// part writes a part in a list.
func (d *stream) part(p *buckets.Part) {
	d.begin("Part")
	d.number("PartNumber", int64(p.Number))
	d.moment("LastModified", p.Created)
	d.text("ETag", `"`+hexOf(p.MD5)+`"`)
	d.number("Size", p.Length)
	if p.Checksum.Algorithm != "" {
		d.text("Checksum"+p.Checksum.Algorithm, p.Checksum.Value)
	}
	d.end()
}

// listUploads serves ListMultipartUploads. upload-id-marker counts only with key-marker.
func (x *request) listUploads() error {
	limit, err := x.count("max-uploads")
	if err != nil {
		return err
	}
	encode, err := x.encoder()
	if err != nil {
		return err
	}
	if err := x.checkText("prefix", "delimiter", "key-marker"); err != nil {
		return err
	}
	q := buckets.UploadQuery{
		Prefix: x.parsed.prefix.Value, Delimiter: x.parsed.delimiter.Value, Limit: limit,
		After: x.query.Get("key-marker"),
	}
	if id := x.query.Get("upload-id-marker"); q.After != "" && id != "" {
		if id, err = buckets.ParseUUID(id); err != nil {
			return invalidArgument("upload-id-marker", "Invalid uploadId marker")
		}
		q.AfterID = buckets.UploadID(id)
	}
	d := x.newStream("ListMultipartUploadsResult")
	if err := d.grow(x.repeated()); err != nil {
		return err
	}
	d.text("Bucket", x.bucket.Name)
	d.text("KeyMarker", encode(q.After))
	d.text("UploadIdMarker", string(q.AfterID))
	d.optional("Prefix", encode(q.Prefix))
	d.optional("Delimiter", encode(q.Delimiter))
	d.optional("EncodingType", x.query.Get("encoding-type"))
	d.number("MaxUploads", int64(limit))
	page, err := x.writeUploads(d, q, encode)
	if err != nil {
		return err
	}
	d.text("NextKeyMarker", encode(page.After))
	d.text("NextUploadIdMarker", string(page.AfterID))
	d.flag("IsTruncated", page.More)
	return d.finish()
}

// writeUploads writes slice by slice, and returns where the next page begins.
func (x *request) writeUploads(d *stream, q buckets.UploadQuery, encode func(string) string) (page buckets.UploadPage, err error) {
	left := q.Limit
	if left == 0 {
		return page, nil
	}
	q.Bytes = buckets.SliceBytes
	err = d.Slices(min(buckets.SliceMemory, int64(left)*buckets.MaxEntry), func() (bool, error) {
		q.Limit = min(left, buckets.FirstSlice)
		if err := d.Read(func() (err error) {
			page, err = x.Service.ListUploads(x.in.Context(), x.owner, x.bucket.ID, q)
			return err
		}); err != nil {
			return false, err
		}
		for i := range page.Uploads {
			u := &page.Uploads[i]
			if err := d.grow(maxEscaped*len(u.Name) + maxFixed); err != nil {
				return false, err
			}
			x.writeUpload(d, u, encode)
		}
		for _, g := range page.Groups {
			if err := d.grow(maxEscaped*len(g) + maxFixed); err != nil {
				return false, err
			}
			d.begin("CommonPrefixes")
			d.text("Prefix", encode(g))
			d.end()
		}
		left -= len(page.Uploads) + len(page.Groups)
		q.After, q.AfterID = page.After, page.AfterID
		page.Uploads, page.Groups = nil, nil
		if page.More && left > 0 {
			return true, nil
		}
		return false, d.grow(maxEscaped*len(page.After) + maxFixed)
	})
	return page, err
}

// writeUpload writes an upload in a list.
func (x *request) writeUpload(d *stream, u *buckets.Upload, encode func(string) string) {
	d.begin("Upload")
	d.text("Key", encode(u.Name))
	d.text("UploadId", string(u.ID))
	x.writeOwner(d.document, "Initiator")
	x.writeOwner(d.document, "Owner")
	d.text("StorageClass", u.Class.Name())
	d.moment("Initiated", u.Created)
	if u.Checksum.Algorithm != "" {
		d.text("ChecksumAlgorithm", u.Checksum.Algorithm)
		d.text("ChecksumType", checksumType(u.Checksum))
	}
	d.end()
}

// completion is the body for CompleteMultipartUpload.
type completion struct {
	XMLName xml.Name `xml:"CompleteMultipartUpload"`

	Parts partList `xml:"Part"`
}

// listedPart is a part in a completion. At most a single checksum is set.
type listedPart struct {
	Number    int    `xml:"PartNumber"`
	ETag      string `xml:"ETag"`
	CRC32     string `xml:"ChecksumCRC32"`
	CRC32C    string `xml:"ChecksumCRC32C"`
	CRC64NVME string `xml:"ChecksumCRC64NVME"`
	SHA1      string `xml:"ChecksumSHA1"`
	SHA256    string `xml:"ChecksumSHA256"`
}

type partList []listedPart

// UnmarshalXML limits the list and shortens texts while they are decoded, so that memory stays bounded.
func (l *partList) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if err := appendXML((*[]listedPart)(l), buckets.MaxParts, d, start); err != nil {
		return err
	}
	p := &(*l)[len(*l)-1]
	for _, text := range []*string{&p.ETag, &p.CRC32, &p.CRC32C, &p.CRC64NVME, &p.SHA1, &p.SHA256} {
		*text = cut(*text, maxTagText) // longer texts match nothing
	}
	return nil
}

// completeUpload serves CompleteMultipartUpload. It may take long, so it keeps the connection alive; an error may come
// with status 200. Checksum headers describe the object, not this body.
func (x *request) completeUpload() error {
	if err := x.allowCompletion(); err != nil {
		return err
	}
	var list completion
	if err := x.readXML(&list, sigv4.BodyOptions{IgnoreChecksums: true}); err != nil {
		return err
	}
	c := buckets.Completion{Condition: x.parsed.condition, Expected: x.expected()}
	for i := range list.Parts {
		p := &list.Parts[i]
		c.Parts = append(c.Parts, buckets.PartRef{
			Number: p.Number, ETag: strings.Trim(p.ETag, `"`), Checksum: firstOf(p.CRC32, p.CRC32C, p.CRC64NVME, p.SHA1, p.SHA256),
		})
	}
	k := x.keepAlive()
	defer k.stop()
	w, err := x.Service.CompleteUpload(x.writing(), x.upload(), c)
	d := newDocument("CompleteMultipartUploadResult")
	d.text("Location", x.at.Origin.String()+cut(resource(x.in), maxEscaped*buckets.MaxObjectName))
	d.text("Bucket", x.bucket.Name)
	d.text("Key", x.key)
	d.text("ETag", `"`+w.Object.EntityTag()+`"`)
	if s := w.Object.Checksum; s.Algorithm != "" {
		d.text("Checksum"+s.Algorithm, s.Value)
		d.text("ChecksumType", checksumType(s))
	}
	k.writeExpiration(&w.Object, err)
	x.versionHeader(w.Version)
	return k.answer(d, err)
}

// firstOf returns the first text that is not empty.
func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// expected reads the client's expectations about the finished object. An invalid size becomes -1, which matches nothing,
// because S3 compares instead of parsing.
func (x *request) expected() (e buckets.Expected) {
	if values := x.in.Header["X-Amz-Mp-Object-Size"]; len(values) > 0 {
		text := values[0]
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(size, 10) != text {
			size = -1 // matches no object
		}
		e.Size = optional.Some(size)
	}
	for a := range checksum.Algorithm(checksum.NumAlgorithms) {
		if value := x.in.Header.Get(a.Header()); value != "" {
			e.Checksums = append(e.Checksums, buckets.Checksum{Algorithm: a.String(), Value: value})
		}
	}
	return e
}

// abortUpload serves AbortMultipartUpload.
func (x *request) abortUpload() error {
	if err := x.checkUploadID(); err != nil {
		return err
	}
	if err := x.ready(); err != nil {
		return err
	}
	err := x.Service.AbortUpload(x.in.Context(), x.upload())
	if err != nil {
		return err
	}
	return x.send(http.StatusNoContent)
}
