package s3api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/internal/buckets"
)

// maxPage is S3's limit for entries per page and deletes per request.
const maxPage = 1000

// count parses a page size, at most maxPage; more is not an error in S3.
func (x *request) count(name string) (int, error) {
	return countOf(name, x.query.Get(name), maxPage)
}

// countOf is count for a text that is no query parameter, and another maximum. "" means largest.
func countOf(name, text string, largest int) (int, error) {
	if text == "" {
		return largest, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalidArgument(name, "Provided "+name+" not an integer or within integer range")
	}
	return int(min(n, int64(largest))), nil
}

// encoder returns how keys are written: plain, or encoded with encoding-type=url.
func (x *request) encoder() (func(string) string, error) {
	switch x.query.Get("encoding-type") {
	case "":
		return func(s string) string { return s }, nil
	case "url":
		return urlEncoded, nil
	}
	return nil, invalidArgument("encoding-type", "Invalid Encoding Method specified in Request")
}

// listing is a list of objects while it is written.
type listing struct {
	buckets.Query
	encode func(string) string
	limit  int          // max-keys
	count  int          // entries written so far
	last   string       // last entry, for NextMarker
	page   buckets.Page // last slice
}

// checkText rejects parameters that cannot be keys because they are not UTF-8, contain U+0000, or are too long.
// PostgreSQL rejects the first two, and responses repeat the parameters.
func (x *request) checkText(names ...string) error {
	for _, name := range names {
		switch v := x.query.Get(name); {
		case len(v) > maxParameter:
			return invalidArgument(name, "The parameter is longer than 1024 bytes.")
		case !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0:
			return invalidArgument(name, "The parameter is not UTF-8, or contains the character U+0000.")
		}
	}
	return nil
}

// parseListing reads the parameters that all lists share.
func (x *request) parseListing() (l listing, err error) {
	if err := x.checkText("prefix", "delimiter", "marker", "start-after", "key-marker", "version-id-marker"); err != nil {
		return l, err
	}
	l.Prefix, l.Delimiter = x.parsed.prefix.Value, x.parsed.delimiter.Value
	if l.encode, err = x.encoder(); err != nil {
		return l, err
	}
	l.limit, err = x.count("max-keys")
	l.Limit = l.limit
	return l, err
}

// write writes a page in slices. A page without keys has no next page.
func (l *listing) write(x *request, s *stream, write func(*buckets.Page) error) error {
	if l.limit == 0 {
		return nil
	}
	q := l.Query
	q.Limit, q.Bytes = min(l.limit, buckets.FirstSlice), buckets.SliceBytes
	return s.Slices(min(buckets.SliceMemory, int64(l.limit)*buckets.MaxEntry), func() (bool, error) {
		if err := s.Read(func() (err error) {
			l.page, err = x.Service.List(x.in.Context(), x.owner, x.bucket.ID, q)
			return err
		}); err != nil {
			return false, err
		}
		n := len(l.page.Entries)
		if n == 0 {
			return false, nil
		}
		more := l.page.PerSlice()
		l.count, l.last = l.count+n, l.page.Entries[n-1].Name()
		if err := write(&l.page); err != nil {
			return false, err
		}
		l.page.Entries = nil
		q.Start, q.Limit = l.page.Next, min(l.limit-l.count, more)
		if l.page.More && l.count < l.limit {
			return true, nil
		}
		return false, s.grow(maxEscaped*max(len(l.last), len(q.Start.Name)) + maxFixed)
	})
}

// listObjects serves ListObjects and ListObjectsV2.
func (x *request) listObjects() error {
	if x.query.Get("list-type") == "2" {
		return x.listV2()
	}
	return x.listV1()
}

// listV1 pages by marker. NextMarker is only sent with a delimiter; otherwise the client uses the last key.
func (x *request) listV1() error {
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	marker := x.query.Get("marker")
	l.Query = l.Starting(marker)
	d := x.newStream("ListBucketResult")
	if err := x.beginList(d, &l); err != nil {
		return err
	}
	d.text("Marker", l.encode(marker))
	if err := x.entries(d, &l, true); err != nil {
		return err
	}
	d.flag("IsTruncated", l.page.More)
	if l.page.More && l.Delimiter != "" {
		d.text("NextMarker", l.encode(l.last))
	}
	return d.finish()
}

// maxParameter limits, in bytes, a parameter that the response repeats.
const maxParameter = buckets.MaxObjectName

// repeated returns the maximum number of bytes by which repeated parameters enlarge the response.
func (x *request) repeated() int {
	const parameters = 5
	return min(len(x.in.URL.RawQuery), parameters*maxParameter)*maxEscaped + maxFixed
}

// beginList writes the elements that all lists repeat from the request.
func (x *request) beginList(d *stream, l *listing) error {
	if err := d.grow(x.repeated()); err != nil {
		return err
	}
	d.text("Name", x.bucket.Name)
	d.text("Prefix", l.encode(l.Prefix))
	d.number("MaxKeys", int64(l.limit))
	d.optional("Delimiter", l.encode(l.Delimiter))
	d.optional("EncodingType", x.query.Get("encoding-type"))
	return nil
}

// listV2 pages by continuation token, which takes precedence over start-after.
func (x *request) listV2() error {
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	token, after := x.query.Get("continuation-token"), x.query.Get("start-after")
	if x.has("continuation-token") {
		if l.Start, err = parseToken(token); err != nil {
			return err
		}
	} else {
		l.Query = l.Starting(after)
	}
	d := x.newStream("ListBucketResult")
	if err := x.beginList(d, &l); err != nil {
		return err
	}
	d.optional("ContinuationToken", token)
	d.optional("StartAfter", l.encode(after))
	if err := x.entries(d, &l, x.query.Get("fetch-owner") == "true"); err != nil {
		return err
	}
	d.number("KeyCount", int64(l.count))
	d.flag("IsTruncated", l.page.More)
	if l.page.More {
		d.text("NextContinuationToken", formatToken(l.page.Next))
	}
	return d.finish()
}

// formatToken returns the position in base64. A continuation token is not secret.
func formatToken(p buckets.Position) string {
	kind := "a"
	if p.Inclusive {
		kind = "i"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + p.Name))
}

var errToken = invalidArgument("continuation-token", "The continuation token provided is incorrect")

// parseToken reads a token from formatToken: "a" (after) or "i" (inclusive), then a name. Any token is safe, because it
// only says where to begin.
func parseToken(token string) (buckets.Position, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(text) < 2 || text[0] != 'a' && text[0] != 'i' || buckets.CheckObjectName(string(text[1:])) != nil {
		return buckets.Position{}, errToken
	}
	return buckets.Position{Name: string(text[1:]), Inclusive: text[0] == 'i'}, nil
}

// entries writes objects and groups. owner adds the owner to each object.
func (x *request) entries(d *stream, l *listing, owner bool) error {
	return l.write(x, d, func(p *buckets.Page) error {
		for i := range p.Entries {
			o := p.Entries[i].Object
			if o == nil {
				continue
			}
			if err := d.grow(maxEscaped*len(o.Name) + maxFixed); err != nil {
				return err
			}
			d.begin("Contents")
			d.text("Key", l.encode(o.Name))
			d.moment("LastModified", o.Modified)
			d.etag(o)
			if o.Checksum.Algorithm != "" {
				d.text("ChecksumAlgorithm", o.Checksum.Algorithm)
				d.text("ChecksumType", checksumType(o.Checksum))
			}
			d.number("Size", o.Length)
			if owner {
				x.writeOwner(d.document, "Owner")
			}
			d.text("StorageClass", o.Class.Name())
			d.end()
		}
		return l.groups(d, p)
	})
}

// groups writes the common prefixes of a slice. They follow the objects of the same slice.
func (l *listing) groups(d *stream, p *buckets.Page) error {
	for i := range p.Entries {
		group := p.Entries[i].Group
		if group == "" {
			continue
		}
		if err := d.grow(maxEscaped*len(group) + maxFixed); err != nil {
			return err
		}
		d.begin("CommonPrefixes")
		d.text("Prefix", l.encode(group))
		d.end()
	}
	return nil
}

// writeOwner writes the bucket's owner under an element name, e.g. Initiator.
func (x *request) writeOwner(d *document, name string) {
	d.begin(name)
	d.text("ID", string(x.owner))
	if x.owner == x.account.ID { // the signer's own name is known
		d.text("DisplayName", x.account.Name)
	}
	d.end()
}

// checksumType returns S3's name for how the parts' checksums are combined.
func checksumType(c buckets.Checksum) string {
	if c.Composite {
		return "COMPOSITE"
	}
	return "FULL_OBJECT"
}
