package s3api

import (
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/web"
)

const (
	// Limits for form uploads.
	maxFields = 100
	maxField  = 20 << 10 // total size of all fields, as in S3
	maxBefore = 64 << 10 // total size of everything before the file
)

// isForm reports whether a POST on a bucket is a form upload from a browser.
func isForm(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data"
}

var (
	errForm       = refuse(http.StatusBadRequest, "MalformedPOSTRequest", "The body of your POST request is not well-formed multipart/form-data.")
	errBeforeFile = refuse(http.StatusBadRequest, "MaxPostPreDataLengthExceeded", "Your POST request fields preceding the upload file were too large.")
)

// postForm serves PostObject. The signature is a form field, so the fields are read before anybody is authenticated;
// their size is limited. The file streams after all checks.
func (x *request) postForm() error {
	if err := x.parseCoding(); err != nil {
		return err
	}
	if err := web.ChargeMemory(x.in, x.Service.WriteMemory(-1)); err != nil {
		return err
	}
	web.StreamBody(x.in)
	before := &io.LimitedReader{R: x.in.Body, N: maxBefore}
	x.in.Body = struct {
		io.Reader
		io.Closer
	}{before, x.in.Body}
	parts, err := x.in.MultipartReader()
	if err != nil {
		return errForm
	}
	fields, file, err := readForm(parts)
	if before.N <= 0 {
		return errBeforeFile
	}
	before.N = math.MaxInt64
	if err != nil {
		return err
	}
	form, err := x.Verifier.VerifyForm(x.in.Context(), fields, x.lookup)
	if err != nil {
		return err
	}
	x.signed = &sigv4.Signed{
		AccessKeyID: form.AccessKeyID, Region: form.Region, Time: form.Time, Version2: form.Version2, Payload: sigv4.UnsignedPayload,
	}
	if err := x.admit(); err != nil {
		return err
	}
	x.op = formUpload
	if err := x.resolve(); err != nil {
		return err
	}
	x.allowOrigin()
	if fields["key"] == "" {
		return buckets.ErrObjectNameEmpty
	}
	fields["key"] = strings.ReplaceAll(fields["key"], "${filename}", file.FileName())
	fields["bucket"] = x.bucket.Name
	if err := form.Policy.Check(fields); err != nil {
		return err
	}
	x.key = fields["key"]
	if err := buckets.CheckObjectName(x.key); err != nil {
		return err
	}
	return x.putForm(fields, file, form.Policy)
}

// readForm reads all fields before the file, with names in lower case. Fields after the file are ignored, as S3 does.
func readForm(parts *multipart.Reader) (map[string]string, *multipart.Part, error) {
	fields, size := map[string]string{}, 0
	for range maxFields {
		p, err := parts.NextRawPart()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil, nil, refuse(http.StatusBadRequest, "InvalidArgument", "POST requires exactly one file upload per request.")
			}
			return nil, nil, errForm
		}
		name := strings.ToLower(p.FormName())
		if name == "file" {
			return fields, p, nil
		}
		value, err := io.ReadAll(io.LimitReader(p, maxField+1))
		if err != nil {
			return nil, nil, errForm
		}
		if size += len(name) + len(value); size > maxField {
			return nil, nil, errBeforeFile
		}
		if _, ok := fields[name]; ok {
			return nil, nil, invalidArgument(name, "The form has the field twice")
		}
		fields[name] = string(value)
	}
	return nil, nil, errForm
}

// putForm stores the file. The fields become request headers meanwhile, so that the same parsers serve forms and PUTs.
func (x *request) putForm(fields map[string]string, file io.Reader, limits sigv4.Policy) (err error) {
	header := x.in.Header
	x.in.Header = http.Header{}
	defer func() {
		err = x.explain(err) // an error may name a field
		x.in.Header = header
	}()
	for name, value := range fields {
		if user, ok := strings.CutPrefix(name, "x-amz-meta-"); ok {
			name = userHeader + user // even if it is not a valid header name
		} else {
			name = textproto.CanonicalMIMEHeaderKey(name)
		}
		x.in.Header[name] = []string{value}
	}
	if acl := fields["acl"]; acl != "" {
		x.in.Header.Set("X-Amz-Acl", acl)
	}
	x.sent = policy.Client{UserAgent: header["User-Agent"], Referer: header["Referer"]}
	if err := x.parseForm(fields["tagging"]); err != nil {
		return err
	}
	if err := x.checkACL(); err != nil {
		return err
	}
	if err := x.allow(access{right: buckets.RightWrite, key: x.key, actions: x.needs().actions}); err != nil {
		return err
	}
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
	body, err := sigv4.NewFormBody(fields, file, sigv4.BodyOptions{MinSize: limits.MinSize, MaxSize: min(limits.MaxSize, maxObject), Cores: x.Cores})
	if err != nil {
		return err
	}
	w, err := x.Service.PutObject(x.writing(), x.owner, x.bucket.BucketRef, buckets.PutRequest{Object: o, Condition: x.parsed.condition, Size: -1, Ready: x.ready, Event: buckets.EventPost}, source{body: body})
	if err != nil {
		return err
	}
	x.versionHeader(w.Version)
	return x.sendForm(fields, &w.Object)
}

// parseForm parses the fields of a form upload, which are in x.in.Header. The tags are XML.
func (x *request) parseForm(tags string) (err error) {
	x.parsed = parsed{}
	if err := x.parseConditions(); err != nil {
		return err
	}
	if err := x.parseFeatures(); err != nil {
		return err
	}
	o := &x.parsed.object
	if o.ContentType, o.Headers, err = x.metadata(); err != nil {
		return err
	}
	if o.Tags, err = formTags(tags); err != nil {
		return err
	}
	o.Lock, err = x.parseLock()
	return err
}

// formTags parses the field tagging, which is XML, unlike the header.
func formTags(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no tags
	}
	var set tagSet
	if err := decodeXML(strings.NewReader(text), &set); err != nil {
		return nil, err
	}
	return set.tags(buckets.MaxObjectTags)
}

// sendForm answers with a redirect, 201 with a document, 200 or 204, as the fields ask.
func (x *request) sendForm(fields map[string]string, o *buckets.Object) error {
	h := x.out.Header()
	tag := `"` + o.EntityTag() + `"`
	h.Set("Etag", tag)
	x.writeExpiration(o)
	location := x.at.Origin.String() + strings.TrimSuffix(resource(x.in), "/") + "/" + urlEncoded(o.Name)
	h.Set("Location", location)
	if to, err := url.Parse(firstOf(fields["success_action_redirect"], fields["redirect"])); err == nil && (to.Scheme == "http" || to.Scheme == "https") {
		q := to.Query()
		q.Set("bucket", x.bucket.Name)
		q.Set("key", o.Name)
		q.Set("etag", tag)
		to.RawQuery = q.Encode()
		h.Set("Location", to.String())
		return x.send(http.StatusSeeOther)
	}
	switch fields["success_action_status"] {
	case "200":
		return x.send(http.StatusOK)
	case "201":
		d := &document{b: []byte(xmlHeader)}
		d.begin("PostResponse")
		d.text("Location", location)
		d.text("Bucket", x.bucket.Name)
		d.text("Key", o.Name)
		d.text("ETag", tag)
		sendXML(x.out, http.StatusCreated, d)
		return nil
	}
	return x.send(http.StatusNoContent)
}
