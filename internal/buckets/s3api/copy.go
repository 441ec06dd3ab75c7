package s3api

import (
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/checksum"
	"holdfast/internal/web"
)

// hexOf formats an MD5 as entity tags contain it.
func hexOf(b []byte) string { return hex.EncodeToString(b) }

// copied is a stored object as the body for a copy. Its checksums are computed while it is read.
type copied struct {
	source
	stored *stored
}

// stored remembers read errors, because they are not the client's fault.
type stored struct {
	io.Reader
	err error // the read error, which the body reader would report as the client's
}

func (s *stored) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// newCopied prepares to copy size bytes from r. algorithm is a checksum to compute, or "".
func (x *request) newCopied(r io.Reader, size int64, algorithm string) (*copied, error) {
	o := sigv4.BodyOptions{MaxSize: maxObject, Cores: x.Cores}
	if a, ok := checksum.ParseAlgorithm(algorithm); ok {
		o.Compute = []checksum.Algorithm{a}
	}
	from := &stored{Reader: r}
	body, err := sigv4.NewBody(sigv4.Request{ContentLength: size}, from, o)
	return &copied{source{body, algorithm}, from}, err
}

// Read returns the source's own error, so that a missing copy is not reported as an invalid request.
func (c *copied) Read(p []byte) (int, error) {
	n, err := c.source.Read(p)
	if c.stored.err != nil {
		return 0, c.stored.err
	}
	return n, err
}

// readSource is the operation that a copy needs on its source.
var readSource = operation{
	right: buckets.RightRead, public: true, object: true,
	need: need{actions: []policy.Action{policy.GetObject}, keys: []policy.Key{policy.VersionID, policy.ExistingObjectTag}},
}

// copySource resolves the source of a copy, and returns the request for it.
func (x *request) copySource() (from *request, o buckets.Object, err error) {
	p := x.parsed.from
	other := *x
	other.hosted, other.route.account, other.route.bucket, other.key = false, p.account, p.bucket, p.key
	other.object, other.op, other.parsed, other.query = found{wanted: true}, readSource, parsed{}, nil
	if p.version != "" {
		other.query = url.Values{"versionId": {p.version}}
	}
	defer func() { err = other.explain(err) }() // an error names the source
	if err := other.resolve(); err != nil {
		return nil, o, err
	}
	if err := other.expectOwner("X-Amz-Source-Expected-Bucket-Owner"); err != nil {
		return nil, o, err
	}
	v, err := other.readVersion()
	switch {
	case err != nil:
		return nil, o, err
	case v.Marker && p.version != "":
		return nil, o, invalidRequest("The source of a copy request may not specifically refer to a delete marker by version id.")
	case v.Marker:
		return nil, o, buckets.ErrNoObject
	}
	o = v.Object
	if other.bucket.Versioning != buckets.VersioningOff {
		x.out.Header().Set("X-Amz-Copy-Source-Version-Id", string(o.VersionID()))
	}
	if err := x.parsed.sourceCondition.CheckRead(&o); err != nil {
		return nil, o, failedSourceCondition(x.parsed.sourceCondition, &o)
	}
	x.parsed.source, err = x.nameSource(&other)
	return &other, o, err
}

// nameSource names the source for policies. A plain name means a bucket of the account that owns the policy's bucket.
// Otherwise a requester could make a bucket with the name that a policy allows.
func (x *request) nameSource(from *request) (string, error) {
	name := from.bucket.Name + "/" + from.key
	switch {
	case x.bucket.Settings.Policy.IsZero():
		return "", nil
	case from.owner == x.owner:
		return name, nil
	case from.owner == x.account.ID:
		return x.account.Name + ":" + name, nil
	}
	var a buckets.Account
	err := x.withSlot(func() (err error) {
		a, err = x.Service.AccountByID(x.in.Context(), from.owner)
		return err
	})
	return a.Name + ":" + name, err
}

// copyObject serves CopyObject. Tags, metadata and locks are settled before the body is read, because policies decide
// on them. A copy onto itself without versions only changes metadata.
func (x *request) copyObject() error {
	from, o, err := x.copySource()
	if err != nil {
		return err
	}
	p := &x.parsed
	itself := from.owner == x.owner && from.bucket.ID == x.bucket.ID && o.Name == x.key
	if !p.replace {
		p.object.ContentType, p.object.Headers = o.ContentType, withRedirect(o.Headers, p.object.Headers)
	}
	if !p.retag {
		if err := from.allowTags(&o); err != nil {
			return err
		}
		p.object.Tags = o.Tags
	}
	if err := x.allowLate(); err != nil {
		return err
	}
	if itself && p.changesNothing() {
		return invalidRequest("This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.")
	}
	if err := x.allowTagging(); err != nil {
		return err
	}
	if err := x.allowLock(); err != nil {
		return err
	}
	made := x.newObject()
	made.Extra = o.Extra
	if !itself || x.bucket.Versioning != buckets.VersioningOff || x.in.Header.Get("X-Amz-Checksum-Algorithm") != "" {
		return x.copyBody(from, o, made, p.condition)
	}
	if made, err = x.updateItself(o, made, p.condition); err != nil {
		return err
	}
	x.writeExpiration(&made)
	sendXML(x.out, http.StatusOK, copyResult(&made))
	return nil
}

// withRedirect returns the source's headers with the request's redirect. S3 never copies a redirect, because it is
// unique to each object.
func withRedirect(source, sent map[string]string) map[string]string {
	all := maps.Clone(source)
	delete(all, redirectHeader)
	if to, ok := sent[redirectHeader]; ok {
		if all == nil {
			all = map[string]string{}
		}
		all[redirectHeader] = to
	}
	return all
}

// changesNothing reports whether copying the current version onto itself is refused.
func (p *parsed) changesNothing() bool {
	_, redirects := p.object.Headers[redirectHeader]
	return !p.replace && !p.retag && p.class == "" && !redirects && p.from.version == ""
}

func copyResult(o *buckets.Object) *document {
	d := newDocument("CopyObjectResult")
	d.moment("LastModified", o.Modified)
	d.text("ETag", `"`+o.EntityTag()+`"`)
	if o.Checksum.Algorithm != "" {
		d.text("Checksum"+o.Checksum.Algorithm, o.Checksum.Value)
		d.text("ChecksumType", checksumType(o.Checksum))
	}
	return d
}

// updateItself handles a copy of an object onto itself, if the object is unchanged.
func (x *request) updateItself(o, made buckets.Object, c buckets.Condition) (buckets.Object, error) {
	if err := x.ready(); err != nil {
		return o, err
	}
	if err := c.CheckWrite(&o); err != nil {
		return o, err
	}
	made, err := x.Service.UpdateObject(x.in.Context(), x.owner, x.bucket.BucketRef, buckets.Update{
		Name: o.Name, ContentType: &made.ContentType, Headers: made.Headers, Tags: &made.Tags, Class: &made.Class, Touch: true,
		Condition: buckets.Condition{Match: buckets.Tags{Tags: []string{string(o.ID)}}},
	})
	if errors.Is(err, buckets.ErrPrecondition) || errors.Is(err, buckets.ErrNoObject) {
		err = errInProgress
	}
	return made, err
}

// copyBody writes a new object with the source's bytes. A long copy keeps the connection alive, so errors may come with
// status 200.
func (x *request) copyBody(from *request, o, made buckets.Object, c buckets.Condition) error {
	if o.Length > maxObject {
		return invalidRequest("The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
	}
	if err := web.ChargeMemory(x.in, x.Service.ReadMemory(&o, o.Length)+x.Service.WriteMemory(o.Length)); err != nil {
		return err
	}
	algorithm, err := x.copyAlgorithm(&o)
	if err != nil {
		return err
	}
	body := x.Service.Open(x.in.Context(), from.owner, from.bucket.ID, &o, buckets.Span{Length: o.Length})
	defer func() { _ = body.Close() }()
	src, err := x.newCopied(body, o.Length, algorithm)
	if err != nil {
		return err
	}
	k := x.keepAlive()
	defer k.stop()
	w, err := x.Service.PutObject(x.writing(), x.owner, x.bucket.BucketRef, buckets.PutRequest{
		Object: made, Condition: c, Size: o.Length, Ready: k.ready, Early: x.withSlot, Event: buckets.EventCopy,
	}, src)
	k.writeExpiration(&w.Object, err)
	x.versionHeader(w.Version)
	return k.answer(copyResult(&w.Object), err)
}

// copyAlgorithm returns the requested checksum algorithm, or else the source's. The checksum is computed again, because
// the source's may be composite, and a copy has no parts.
func (x *request) copyAlgorithm(o *buckets.Object) (string, error) {
	name := x.in.Header.Get("X-Amz-Checksum-Algorithm")
	if name == "" {
		return o.Checksum.Algorithm, nil
	}
	if _, ok := checksum.ParseAlgorithm(name); !ok {
		return "", errAlgorithm
	}
	return name, nil
}

// directive parses COPY (the default) or REPLACE.
func (x *request) directive(name string) (replace bool, err error) {
	switch x.in.Header.Get(name) {
	case "", "COPY":
		return false, nil
	case "REPLACE":
		return true, nil
	}
	return false, invalidArgument(strings.ToLower(name), "Unknown metadata directive.")
}

// copyPart serves UploadPartCopy. Unlike a GET, the range must be exact: bytes=first-last within the source.
func (x *request) copyPart(r buckets.PartRequest, algorithm string) error {
	from, o, err := x.copySource()
	if err != nil {
		return err
	}
	if err := x.allowLate(); err != nil {
		return err
	}
	start, length := int64(0), o.Length
	if values := x.in.Header["X-Amz-Copy-Source-Range"]; len(values) > 0 {
		header := values[0]
		var ok bool
		start, length, ok, err = buckets.ParseRange(header, o.Length)
		_, last, _ := strings.Cut(header, "-")
		if end, invalid := strconv.ParseInt(last, 10, 64); strings.HasPrefix(header, "bytes=-") || !ok || err != nil || invalid != nil || end >= o.Length {
			return invalidArgument("x-amz-copy-source-range", "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
		}
	}
	if length > maxObject {
		return errTooLarge
	}
	if err := web.ChargeMemory(x.in, x.Service.ReadMemory(&o, length)+x.Service.WriteMemory(length)); err != nil {
		return err
	}
	body := x.Service.Open(x.in.Context(), from.owner, from.bucket.ID, &o, buckets.Span{From: start, Length: length})
	defer func() { _ = body.Close() }()
	src, err := x.newCopied(body, length, algorithm)
	if err != nil {
		return err
	}
	k := x.keepAlive()
	defer k.stop()
	r.Size, r.Ready = length, k.ready
	p, err := x.Service.PutPart(x.in.Context(), x.upload(), r, src)
	d := newDocument("CopyPartResult")
	d.moment("LastModified", p.Created)
	d.text("ETag", `"`+hexOf(p.MD5)+`"`)
	if p.Checksum.Algorithm != "" {
		d.text("Checksum"+p.Checksum.Algorithm, p.Checksum.Value)
	}
	return k.answer(d, err)
}
