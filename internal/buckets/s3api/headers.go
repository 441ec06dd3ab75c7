package s3api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"holdfast/internal/buckets"
)

// systemHeaders are stored with an object, like Content-Type.
var systemHeaders = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires", "X-Amz-Website-Redirect-Location",
}

const (
	redirectHeader = "x-amz-website-redirect-location"

	userHeader = "X-Amz-Meta-" // begins user metadata in requests
	userPrefix = buckets.UserPrefix

	defaultType = "binary/octet-stream" // S3's default Content-Type
)

// checkHeaders enforces S3's header limit. It rejects repeated S3 headers, because a proxy might check one value and
// the server use another.
func checkHeaders(h http.Header) error {
	size := 0
	for name, values := range h {
		for _, v := range values {
			size += len(name) + len(v)
		}
		if len(values) > 1 && strings.HasPrefix(name, "X-Amz-") && !strings.HasPrefix(name, userHeader) && name != "X-Amz-Object-Attributes" && name != "X-Amz-Trailer" {
			return invalidArgument(strings.ToLower(name), "The header occurs more than once")
		}
	}
	if size > buckets.MaxHeaders {
		return errHeadersTooLarge
	}
	return nil
}

// metadata returns the content type and the headers to store. Names are in lower case; user metadata begins with
// userPrefix. S3 counts names and values towards buckets.MaxUserMetadata.
func (x *request) metadata() (contentType string, headers map[string]string, err error) {
	contentType = x.in.Header.Get("Content-Type")
	if contentType == "" {
		contentType = defaultType
	}
	headers, size := map[string]string{}, 0
	for name, values := range x.in.Header {
		user, ok := strings.CutPrefix(name, userHeader)
		switch {
		case ok && !buckets.IsHeaderName(user):
			return "", nil, invalidArgument(name, "The name of user metadata must be a valid name of a header")
		case ok:
			value := userText(strings.Join(values, ","))
			size += len(user) + len(value)
			headers[userPrefix+strings.ToLower(user)] = value
		case slices.Contains(systemHeaders, name):
			headers[strings.ToLower(name)] = text(strings.Join(values, ","))
		}
	}
	if size > buckets.MaxUserMetadata {
		return "", nil, errMetadataTooLarge.with(Field{"Size", itoa(size)}, Field{"MaxSizeAllowed", itoa(buckets.MaxUserMetadata)})
	}
	if encoding, ok := headers["content-encoding"]; ok {
		if x.coding.IsChunked() { // otherwise S3 stores the header as it is (versitygw issue 2400)
			encoding = buckets.WithoutFraming(encoding)
		}
		if headers["content-encoding"] = encoding; encoding == "" {
			delete(headers, "content-encoding")
		}
	}
	return text(contentType), headers, nil
}

// text converts Latin-1 header values to UTF-8. It replaces control characters, which only forms can contain, with
// spaces.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, latin1(s))
	return strings.TrimSpace(s)
}

// isControl reports characters that may not occur in a header value.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// latin1 reads invalid UTF-8 as Latin-1, which HTTP headers used to be.
func latin1(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// checkACL rejects a public ACL in a bucket that is not public, because an object has the ACL of its bucket.
func (x *request) checkACL() error {
	if !x.parsed.public {
		return nil
	}
	if err := x.checkPublicACL(); err != nil || x.bucket.Settings.PublicRead {
		return err
	}
	return errNoACL
}

// checkGrants refuses grants to single accounts: a bucket policy does that.
func (x *request) checkGrants() error {
	for name := range x.in.Header {
		if strings.HasPrefix(name, "X-Amz-Grant") {
			return errHeader(strings.ToLower(name), "")
		}
	}
	return nil
}

// tagsHeader parses X-Amz-Tagging.
func (x *request) tagsHeader() (map[string]string, error) {
	header := x.in.Header.Get("X-Amz-Tagging")
	if header == "" {
		return nil, nil //nolint:nilnil // no tags
	}
	values, err := url.ParseQuery(header)
	if err != nil {
		return nil, errTagsHeader
	}
	var list []buckets.Tag
	for name, all := range values {
		if name == "" || len(all) > 1 || !utf8.ValidString(name) || !utf8.ValidString(all[0]) {
			return nil, errTagsHeader
		}
		list = append(list, buckets.Tag{Key: name, Value: all[0]})
	}
	tags, invalid := buckets.TagsOf(list, buckets.MaxObjectTags)
	if invalid != nil {
		return nil, refusedTags(invalid)
	}
	return tags, nil
}

// errTagsHeader is S3's error for a header that is not an encoded tag list; a tag with characters that are not
// allowed is InvalidTag. See versitygw issue 1215 and pull request 1243.
var errTagsHeader = invalidArgument("x-amz-tagging", "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.")

// refusedTags returns the S3 error for invalid tags.
func refusedTags(invalid *buckets.TagError) error {
	message := "The TagValue you have provided is invalid"
	switch invalid.Problem {
	case buckets.TagsTooMany:
		return refuse(http.StatusBadRequest, "BadRequest", "There cannot be more than "+itoa(invalid.Most)+" tags")
	case buckets.TagTwice:
		message = "Cannot provide multiple Tags with the same key"
	case buckets.TagSystem:
		message = "System tags cannot be added or updated by requester"
	case buckets.TagKey:
		message = "The TagKey you have provided is invalid"
	case buckets.TagValue:
		return refuse(http.StatusBadRequest, "InvalidTag", message).with(Field{"TagKey", invalid.Tag.Key}, Field{"TagValue", invalid.Tag.Value})
	}
	return refuse(http.StatusBadRequest, "InvalidTag", message).with(Field{"TagKey", invalid.Tag.Key})
}

// writeMetadata sets the headers that describe an object, except for length and checksum.
func (x *request) writeMetadata(o *buckets.Object) {
	h := x.out.Header()
	h.Set("Etag", `"`+o.EntityTag()+`"`)
	h.Set("Last-Modified", httpTime(o.Modified))
	h.Set("Accept-Ranges", "bytes")
	if o.ContentType != "" {
		h.Set("Content-Type", text(o.ContentType))
	}
	for name, value := range o.Headers {
		if user, ok := strings.CutPrefix(name, userPrefix); ok {
			// SDKs use this text as the metadata name and expect lower case, as S3 sends it.
			h[strings.ToLower(userHeader)+user] = []string{encodeWords(text(value))}
			continue
		}
		if !slices.Contains(systemHeaders, http.CanonicalHeaderKey(name)) {
			continue // set by the native API
		}
		h.Set(name, text(value))
	}
	if o.Class != "" { // S3 omits STANDARD
		h.Set("X-Amz-Storage-Class", o.Class.Name())
	}
	if len(o.Tags) > 0 {
		h.Set("X-Amz-Tagging-Count", itoa(len(o.Tags)))
	}
}

// writeChecksum sets the checksum headers, if there is a checksum.
func (x *request) writeChecksum(c buckets.Checksum) {
	if c.Algorithm == "" {
		return
	}
	x.out.Header().Set("X-Amz-Checksum-"+c.Algorithm, c.Value)
	x.out.Header().Set("X-Amz-Checksum-Type", checksumType(c))
}

// overrides maps query parameters to the response headers that they replace.
var overrides = map[string]string{
	"response-cache-control": "Cache-Control", "response-content-disposition": "Content-Disposition",
	"response-content-encoding": "Content-Encoding", "response-content-language": "Content-Language",
	"response-content-type": "Content-Type", "response-expires": "Expires",
}

// override applies parameters such as response-content-type. S3 refuses them without a signature.
func (x *request) override() error {
	if len(x.query) == 0 {
		return nil
	}
	for name, header := range overrides {
		if !x.has(name) {
			continue
		}
		if x.signed == nil {
			return invalidRequest("Request specific response headers cannot be used for anonymous GET requests.")
		}
		if value := x.query.Get(name); strings.IndexFunc(value, isControl) < 0 {
			x.out.Header().Set(header, value)
		}
	}
	return nil
}
