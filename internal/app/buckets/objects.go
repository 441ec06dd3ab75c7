package buckets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// maxObject is the largest object that objects/put stores, in bytes, as with a PUT in S3.
const maxObject = 5 << 30

// objectOperations declares the objects themselves. The console has its own pages for them, with uploads of several files.
func (s *Buckets) objectOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "objects", Doc: "List a bucket's objects", Title: "Objects", Empty: "There are no objects here.",
			Group:   "List, read, store and delete objects",
			More:    "With --delimiter /, objects in folders below the prefix are not listed; each folder is a row.",
			Example: "main photos\nmain photos --prefix 2026/ --delimiter /\nmain photos --json --metadata\n",
		}, on(s, s.objectList)),
		operate.NewDownload(operate.About{
			Access: operate.ForAdmins, Path: "objects/get", Doc: "Write an object's body to standard output or a file", Button: "Download",
			Media: octetStream, Memory: buckets.ReadChunks * buckets.ChunkSize, Counts: "bytes",
			More: "With --output, the file gets its name when it is complete. With --version, a noncurrent version is read: versions list\n" +
				"shows them.",
			Example: "main photos hello.txt\nmain photos 2026/harbour.jpg -o harbour.jpg\n",
		}, s.getObject),
		operate.NewUpload(operate.About{
			Path: "objects/put", Doc: "Store a file as an object", Title: "Store a file", Button: "Store the file",
			Media: octetStream, Memory: buckets.WriteChunks * buckets.ChunkSize, Largest: maxObject, MayBeStdin: true, NewRow: true,
			More: "The file, or standard input, is stored as an S3 client stores it: quotas, versioning, default retention and\n" +
				"notifications apply. It is at most 5 GiB. An existing object is replaced, unless a condition refuses it.",
			Example: "main photos 2026/harbour.jpg harbour.jpg\nmain photos notes.txt --content-type text/plain --metadata '{\"author\":\"Ada\"}' <notes.txt\n" +
				"main photos hello.txt --if-none-match '*' hello.txt\n",
		}, s.putObject),
		operate.NewChange(operate.About{
			Path: "objects/delete", Doc: "Delete an object", Alias: "rm", Title: "Delete the object", Button: "Delete object", Danger: true,
			Ask:     "In a bucket without versioning, this cannot be undone.",
			More:    "With versioning, a delete marker hides the object, and its versions stay: versions delete deletes a version.",
			Example: "main photos hello.txt\n",
		}, on(s, s.deleteObject)),
	}
}

const octetStream = "application/octet-stream"

// objectsInput selects a bucket's objects.
type objectsInput struct {
	bucketInput
	Prefix    string `flag:"prefix" doc:"only objects with this name prefix"`
	Delimiter string `flag:"delimiter" doc:"group names up to this text after the prefix, e.g. /"`
	Metadata  bool   `flag:"metadata" doc:"with the objects' user metadata, in JSON"`
	operate.Page[string]
}

// objectOutput is an object, or the common prefix of several. The other fields of a prefix are zero.
type objectOutput struct {
	Name string `json:"-" title:"Object"`

	Object   string            `json:"object,omitempty" subject:"object" doc:"missing: a common prefix" example:"2026/harbour.jpg"`
	Prefix   string            `json:"prefix,omitempty" doc:"common prefix of several objects; missing: an object" example:"2026/"`
	Bytes    service.Bytes     `json:"bytes" title:"Bytes" least:"0"`
	Modified *time.Time        `json:"modified,omitempty" title:"Modified" zero:"-"`
	Type     string            `json:"contentType,omitempty" title:"Type" zero:"-" example:"image/jpeg"`
	ETag     string            `json:"etag,omitempty" title:"ETag" zero:"-" example:"b1946ac92492d2347c6235b4d2611184"`
	Class    string            `json:"storageClass,omitempty" title:"Class" zero:"-" example:"STANDARD"`
	Metadata map[string]string `json:"metadata,omitempty" doc:"user metadata, if the input metadata is true"`

	Next string `json:"-" cursor:""`
}

// objectList orders by name.
func (s *Buckets) objectList(ctx context.Context, in objectsInput) (all []objectOutput, err error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return nil, err
	}
	q := buckets.Query{Prefix: in.Prefix, Delimiter: in.Delimiter, Limit: min(in.Limit, buckets.MaxPage), Metadata: in.Metadata}
	if in.After != "" {
		q = q.Starting(in.After)
	}
	page, err := s.opened.List(ctx, a.ID, b.ID, q)
	for i := range page.Entries {
		all = append(all, outputOfEntry(&page.Entries[i]))
	}
	return all, err
}

// outputOfEntry converts an object or a common prefix.
func outputOfEntry(e *buckets.Entry) objectOutput {
	if e.Group != "" {
		return objectOutput{Name: e.Group, Prefix: e.Group, Next: e.Group}
	}
	o := e.Object
	modified := o.Modified.Time()
	return objectOutput{
		Name: o.Name, Object: o.Name, Bytes: service.Bytes(o.Length), Modified: &modified, Type: o.ContentType, ETag: o.EntityTag(), Class: o.Class.Name(),
		Metadata: userMetadata(o.Headers), Next: o.Name,
	}
}

// userMetadata returns the headers that clients set as user metadata, or nil.
func userMetadata(headers map[string]string) map[string]string {
	var own map[string]string
	for name, value := range headers {
		if user, ok := strings.CutPrefix(name, buckets.UserPrefix); ok {
			if own == nil {
				own = map[string]string{}
			}
			own[user] = value
		}
	}
	return own
}

// objectInput names an object, which need not exist.
type objectInput struct {
	bucketInput
	Object string `subject:"object" doc:"object name"`
}

// Check refuses a name that no object can have.
func (in objectInput) Check() error {
	if err := buckets.CheckObjectName(in.Object); err != nil {
		return &operate.InputError{Input: "object", Reason: errcode.Message(err)}
	}
	return nil
}

// getInput names a version; "" is the current object.
type getInput struct {
	objectInput
	Version string `flag:"version" doc:"version ID, or null (default: the current object)"`
}

// getObject reads no body yet; see objectFile.
func (s *Buckets) getObject(ctx context.Context, in getInput, _ operate.Progress) (operate.File, error) {
	return on(s, s.objectFile)(ctx, in)
}

// objectFile finds the version before the download begins, so that an error can still be answered.
func (s *Buckets) objectFile(ctx context.Context, in getInput) (f operate.File, err error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return f, err
	}
	v, err := s.versionIn(ctx, a, b, in.Object, in.Version)
	if err == nil && v.Marker {
		err = errcode.New(errcode.NotFound, errcode.Message(buckets.ErrMarker))
	}
	if err != nil {
		return f, about(in.Object, err)
	}
	sent := s.file(ctx, a, b, &v.Object)
	return operate.File{Name: sent.Name, Size: sent.Size, Write: func(to io.Writer) error {
		return s.withNodes(ctx, func(ctx context.Context) error { return s.file(ctx, a, b, &v.Object).Write(to) })
	}}, nil
}

// matchInput is the expected state of an object.
type matchInput struct {
	IfMatch string `flag:"if-match" value:"ETAG" doc:"only if the object has this ETAG; *: only if it exists"`
}

// putInput describes a new object.
type putInput struct {
	objectInput
	ContentType string `flag:"content-type" value:"TYPE" doc:"content TYPE (default: by the extension of the object's name)"`
	Metadata    string `flag:"metadata" value:"JSON" doc:"user metadata as a JSON object, e.g. {\"author\":\"Ada\"}"`
	matchInput
	IfNoneMatch string `flag:"if-none-match" value:"ETAG" doc:"only if the object does not have this ETAG; *: only if it does not exist"`
}

// Check refuses values before the file is read.
func (in putInput) Check() error {
	_, err := in.request()
	return err
}

// request returns the write, without its size. The error is an *operate.InputError.
func (in putInput) request() (r buckets.PutRequest, err error) {
	r.Object = buckets.Object{Name: in.Object, ContentType: cmp.Or(in.ContentType, mime.TypeByExtension(path.Ext(in.Object)), octetStream), Headers: map[string]string{}}
	if !isHeaderValue(r.Object.ContentType) {
		return r, &operate.InputError{Input: "content-type", Reason: "must not contain control characters"}
	}
	own := map[string]string{}
	if in.Metadata != "" && (json.Unmarshal([]byte(in.Metadata), &own) != nil || own == nil) {
		return r, &operate.InputError{Input: "metadata", Reason: `expected a JSON object with texts, e.g. {"author":"Ada"}`}
	}
	for name, value := range own {
		if !isHeaderValue(value) {
			return r, &operate.InputError{Input: "metadata", Reason: "must not contain control characters"}
		}
		r.Object.Headers[buckets.UserPrefix+strings.ToLower(name)] = value
	}
	if err := buckets.CheckMetadata(r.Object.ContentType, r.Object.Headers); err != nil {
		return r, &operate.InputError{Input: "metadata", Reason: errcode.Message(err)}
	}
	if r.Condition.Match, err = parseTags("if-match", in.IfMatch); err != nil {
		return r, err
	}
	r.Condition.NoneMatch, err = parseTags("if-none-match", in.IfNoneMatch)
	return r, err
}

// isHeaderValue reports whether a text can be sent as a header.
func isHeaderValue(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}

// parseTags parses an entity tag as in the header with the same name; "" is no condition.
func parseTags(input, text string) (t buckets.Tags, err error) {
	if text == "" {
		return t, nil
	}
	if t, err = buckets.ParseTags([]string{text}); err != nil {
		err = &operate.InputError{Input: input, Reason: "expected an ETag, or *"}
	}
	return t, err
}

// putOutput is the stored object.
type putOutput struct {
	Account string        `json:"account" subject:"account" example:"main"`
	Bucket  string        `json:"bucket" subject:"bucket" example:"photos"`
	Object  string        `json:"object" subject:"object" example:"2026/harbour.jpg"`
	Version string        `json:"version,omitempty" subject:"version" doc:"missing: the bucket has no versioning" example:"7ff9b3a2-7a40-7c00-8000-0123456789ab"`
	ETag    string        `json:"etag" example:"b1946ac92492d2347c6235b4d2611184"`
	Bytes   service.Bytes `json:"bytes" least:"0"`
}

// Notice implements operate.Changed.
func (o putOutput) Notice() string {
	if o.ETag == "" {
		return ""
	}
	return fmt.Sprintf("stored %s: %s, ETag %s", o.Object, service.Count(int64(o.Bytes), "byte"), o.ETag)
}

// putObject streams the file to the storage nodes. Nothing is stored if it ends early.
func (s *Buckets) putObject(ctx context.Context, in putInput, file operate.Body, progress operate.Progress) (out putOutput, err error) {
	return onNodes(s, func(ctx context.Context, in putInput, _ operate.Progress) (out putOutput, err error) {
		a, b, err := s.bucketOf(ctx, in.bucketInput)
		if err != nil {
			return out, err
		}
		r, err := in.request()
		if err != nil {
			return out, err
		}
		if r.Size = -1; file.Size > 0 {
			r.Size = file.Size
		}
		w, err := s.opened.PutObject(ctx, a.ID, b.BucketRef, r, newSummed(file, ""))
		if err != nil {
			return out, aboutCondition(in.Object, err)
		}
		return putOutput{a.Name, b.Name, w.Object.Name, string(w.Version), w.Object.EntityTag(), service.Bytes(w.Object.Length)}, nil
	})(ctx, in, progress)
}

// aboutCondition says why a conditional write was refused. Other errors are those of aboutLock.
func aboutCondition(name string, err error) error {
	if errors.Is(err, buckets.ErrPrecondition) {
		return errcode.New(errcode.Precondition, name+": the condition does not hold: the object exists with another ETag, or does not exist")
	}
	return aboutLock(name, err)
}

// deleteInput may make the deletion depend on the object's state.
type deleteInput struct {
	objectInput
	matchInput
}

// Check refuses a malformed condition.
func (in deleteInput) Check() error {
	_, err := parseTags("if-match", in.IfMatch)
	return err
}

// deletedObject also lists the backups that still hold the object.
type deletedObject struct {
	Account string `json:"account" subject:"account" example:"main"`
	Bucket  string `json:"bucket" subject:"bucket" example:"photos"`
	Object  string `json:"object" subject:"object" example:"2026/harbour.jpg"`
	Marker  string `json:"marker,omitempty" doc:"version ID of the delete marker; missing: the object was deleted for good" example:"7ff9b3a2-7a40-7c00-8000-0123456789ab"`
	service.Deleted
}

// Notice implements operate.Changed.
func (d deletedObject) Notice() string {
	if d.Marker != "" {
		return "deleted " + d.Object + "; its versions stay behind a delete marker"
	}
	return "deleted " + d.Object + d.Retained.Notice()
}

// deleteObject deletes the current object, or adds a delete marker in a bucket with versioning.
func (s *Buckets) deleteObject(ctx context.Context, in deleteInput) (d deletedObject, err error) {
	d = deletedObject{Account: in.Account, Bucket: in.Bucket, Object: in.Object}
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return d, err
	}
	r := buckets.Delete{Name: in.Object}
	if r.Condition.Match, err = parseTags("if-match", in.IfMatch); err != nil {
		return d, err
	}
	done, err := s.opened.TakeObject(ctx, a.ID, b.BucketRef, r)
	if err != nil {
		return d, aboutCondition(in.Object, err)
	}
	if done.Marker {
		d.Marker, d.Retained = string(done.Version), service.Copies{}
		return d, nil
	}
	d.Deleted, err = s.deps.Deleted(done.Object.Created.Time(), Name)
	return d, err
}
