package buckets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

const (
	// previewText is how many bytes a preview shows, and sniffed how many bytes decide an image's type.
	previewText  = 64 << 10
	previewImage = 20 << 20 // bytes; larger images are not shown
	sniffed      = 512

	thumbnailWhole = 512 << 10 // bytes; a list shows smaller images as a whole
	thumbnailHead  = 128 << 10 // bytes searched for a photo's thumbnail
)

// head returns a body's first bytes, at most most.
func (s *Buckets) head(ctx context.Context, a buckets.Account, b buckets.Bucket, o *buckets.Object, maxBytes int64) ([]byte, error) {
	n := min(o.Length, maxBytes)
	body := s.opened.Open(ctx, a.ID, b.ID, o, buckets.Span{Length: n})
	defer func() { _ = body.Close() }()
	text := make([]byte, n)
	_, err := io.ReadFull(body, text)
	return text, err
}

// imageType detects image types that browsers may show. It ignores the stored content type.
func imageType(head []byte) string {
	if kind := http.DetectContentType(head); slices.Contains(service.Images, kind) {
		return kind
	}
	return ""
}

// preview shows an image or a text's beginning; other bodies have no preview. The type is detected, because clients may
// store any type.
func (s *Buckets) preview(ctx context.Context, a buckets.Account, b buckets.Bucket, v *buckets.Version) []service.Block {
	o := &v.Object
	head, err := s.head(ctx, a, b, o, previewText)
	switch {
	case err != nil:
		return []service.Block{&service.Notice{State: service.Wrong, Text: "The body cannot be read. The log shows the reason."}}
	case imageType(head) != "" && o.Length <= previewImage:
		return []service.Block{&service.Image{To: objectPage("image", a, b, o.Name, shownVersion(v)), Alt: "Preview of " + path.Base(o.Name)}}
	case len(head) == 0 || bytes.IndexByte(head, 0) >= 0:
		return nil
	}
	title := "Preview"
	if o.Length > previewText {
		title = "Preview of the first " + service.FormatBytes(previewText)
		// The limit may cut a character.
		for i := 0; i < utf8.UTFMax && !utf8.Valid(head); i++ {
			head = head[:len(head)-1]
		}
	}
	if !utf8.Valid(head) {
		return nil
	}
	return []service.Block{&service.Text{Title: title, Body: indented(head), Copy: true}}
}

// mostNested limits indentation, because each level widens every line.
const mostNested = 20

// indented indents JSON, and returns other texts, and JSON that is nested too deep, unchanged.
func indented(text []byte) string {
	depth, d := 0, json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth > mostNested {
			return string(text)
		}
	}
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return out.String()
}

// sendImage sends a body that is shown as an image. It detects the type again, so that the browser is never told to
// show anything else.
func (s *Buckets) sendImage(ctx context.Context, r *service.PageRequest) (*service.File, error) {
	a, b, v, err := s.sent(ctx, r)
	if err != nil {
		return nil, err
	}
	head, err := s.head(ctx, a, b, &v.Object, sniffed)
	if err != nil {
		return nil, err
	}
	kind := imageType(head)
	if kind == "" || v.Length > previewImage {
		return nil, errcode.New(errcode.Invalid, "the object is not an image that the console shows")
	}
	f := s.file(ctx, a, b, &v.Object)
	f.Image = kind
	return f, nil
}

// mayHaveThumbnail decides by the stored type and the size, without reading the body. sendThumbnail may still find
// none.
func mayHaveThumbnail(o *buckets.Object) bool {
	return slices.Contains(service.Images, o.ContentType) && o.Length > 0 && (o.Length <= thumbnailWhole || o.ContentType == "image/jpeg")
}

// sendThumbnail sends a small image as a whole, or the thumbnail embedded in a photo. It decodes nothing, because a
// few bytes may expand to a billion pixels.
func (s *Buckets) sendThumbnail(ctx context.Context, r *service.PageRequest) (*service.File, error) {
	a, b, v, err := s.sent(ctx, r)
	if err != nil {
		return nil, err
	}
	head, err := s.head(ctx, a, b, &v.Object, thumbnailHead)
	if err != nil {
		return nil, err
	}
	if kind := imageType(head); kind != "" && v.Length <= thumbnailWhole {
		f := s.file(ctx, a, b, &v.Object)
		f.Image = kind
		return f, nil
	}
	small := exifThumbnail(head)
	if small == nil {
		return nil, errcode.New(errcode.NotFound, "the object has no thumbnail")
	}
	return &service.File{Name: path.Base(v.Name), Size: int64(len(small)), Image: "image/jpeg", Write: func(to io.Writer) error {
		_, err := to.Write(small)
		return err
	}}, nil
}

// uploadForm returns the form for uploads into a folder.
func uploadForm(a buckets.Account, b buckets.Bucket, folder string) *service.Form {
	return &service.Form{
		Title: "Upload files", Text: "Choose files, or drop them here.", Action: "upload", Submit: "Upload",
		Keep: map[string]string{"account": a.Name, "bucket": b.Name},
		Fields: []service.Field{
			{Name: "folder", Label: "Folder", Value: folder, Optional: true, Help: "E.g. photos/2026/, or empty."},
			{Name: "replace", Label: "Replace objects that exist", Checkbox: true},
			{Name: "files", Label: "Files", File: true},
		},
	}
}

// uploadObjects stores the files of a form. If a file fails, the files before it remain stored.
func (s *Buckets) uploadObjects(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a, b, err := s.bucket(ctx, r)
	if err != nil {
		return o, err
	}
	folder := asFolder(r.Value("folder"))
	var condition buckets.Condition
	condition.NoneMatch.Any = r.Value("replace") != "yes"
	var names []string
	defer func() { r.Values.Set("objects", strings.Join(names, ", ")) }()
	for {
		file, err := r.NextFile()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return o, err
		}
		name := folder + file.Name
		if err := s.storeFile(ctx, a, b, buckets.PutRequest{Object: buckets.Object{Name: name}, Condition: condition, Size: -1}, file); err != nil {
			return o, uploadError(name, names, err)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return o, service.Usagef("choose at least one file")
	}
	o.Notice, o.Next = "uploaded "+service.Count(int64(len(names)), "object"), service.PageLink("objects", "account", a.Name, "bucket", b.Name, "prefix", folder)
	return o, nil
}

// asFolder adds the slash at the end of a folder's name; "" stays.
func asFolder(name string) string {
	if name != "" && !strings.HasSuffix(name, "/") {
		name += "/"
	}
	return name
}

// uploadError makes an error about a file readable. stored names the files that were stored before it. Internal errors
// stay, so that they are logged.
func uploadError(name string, stored []string, err error) error {
	code, text := errcode.Of(err), errcode.Message(err)
	if code == errcode.Internal || text == "" {
		return err
	}
	if code == errcode.Precondition {
		text = "an object with this name exists"
	}
	if len(stored) > 0 {
		text += "; stored before it: " + service.Count(int64(len(stored)), "object")
	}
	return errcode.Rephrase(err, name+": "+text)
}

// storeFile stores a file with its media type, if the browser sent a valid type.
func (s *Buckets) storeFile(ctx context.Context, a buckets.Account, b buckets.Bucket, put buckets.PutRequest, file *service.Upload) error {
	if err := buckets.CheckObjectName(put.Object.Name); err != nil {
		return err
	}
	put.Object.ContentType = "application/octet-stream"
	if parsed, params, err := mime.ParseMediaType(file.Type); err == nil {
		put.Object.ContentType = mime.FormatMediaType(parsed, params)
	}
	_, err := s.opened.PutObject(ctx, a.ID, b.BucketRef, put, newSummed(file.Body, ""))
	return err
}
