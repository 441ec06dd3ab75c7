package s3api

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/internal/buckets"
)

// maxPage is S3's largest number of entries of a page, and of objects that one request
// deletes.
const maxPage = 1000

// count reads a parameter that is a number of entries, from 0 to most: more is most, as
// in S3.
func (x *request) count(name string, most int) (int, error) {
	return countOf(name, x.query.Get(name), most)
}

func countOf(name, text string, most int) (int, error) {
	if text == "" {
		return most, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalidArgument(name, "Provided "+name+" not an integer or within integer range")
	}
	return int(min(n, int64(most))), nil
}

// encoder returns how the answer to a list writes keys.
func (x *request) encoder() (func(string) string, error) {
	switch x.query.Get("encoding-type") {
	case "":
		return func(s string) string { return s }, nil
	case "url":
		return urlEncoded, nil
	}
	return nil, invalidArgument("encoding-type", "Invalid Encoding Method specified in Request")
}

// listing is what the two versions of ListObjects share.
type listing struct {
	buckets.Query
	encode func(string) string
	limit  int
	page   buckets.Page
}

// checkText rejects parameters that are not UTF-8 or contain U+0000: no key does, and
// PostgreSQL accepts neither.
func (x *request) checkText(names ...string) error {
	for _, name := range names {
		if v := x.query.Get(name); !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
			return invalidArgument(name, "The parameter is not UTF-8, or contains the character U+0000.")
		}
	}
	return nil
}

func (x *request) parseListing() (l listing, err error) {
	if err := x.checkText("prefix", "delimiter", "marker", "start-after", "key-marker", "version-id-marker"); err != nil {
		return l, err
	}
	l.Prefix, l.Delimiter = x.query.Get("prefix"), x.query.Get("delimiter")
	if l.encode, err = x.encoder(); err != nil {
		return l, err
	}
	l.limit, err = x.count("max-keys", maxPage)
	l.Limit = l.limit
	return l, err
}

// read reads the page. A page of no keys is empty and has none after it.
func (l *listing) read(x *request) (err error) {
	if l.limit > 0 {
		l.page, err = x.Service.Store.List(x.in.Context(), x.owner, x.bucket.ID, l.Query)
	}
	return err
}

// listObjects is ListObjects in both versions.
func (x *request) listObjects() error {
	if x.query.Get("list-type") == "2" {
		return x.listV2()
	}
	return x.listV1()
}

func (x *request) listV1() error {
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	marker := x.query.Get("marker")
	l.Query = l.Starting(marker)
	if err := l.read(x); err != nil {
		return err
	}
	d := newDocument("ListBucketResult")
	d.text("Name", x.bucket.Name)
	d.text("Prefix", l.encode(l.Prefix))
	d.text("Marker", l.encode(marker))
	d.number("MaxKeys", int64(l.limit))
	d.optional("Delimiter", l.encode(l.Delimiter))
	d.optional("EncodingType", x.query.Get("encoding-type"))
	d.flag("IsTruncated", l.page.More)
	if l.page.More && l.Delimiter != "" {
		d.text("NextMarker", l.encode(last(l.page.Entries)))
	}
	x.entries(d, &l, true)
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// last returns the name or group of the last entry.
func last(entries []buckets.Entry) string { return entries[len(entries)-1].Name() }

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
	if err := l.read(x); err != nil {
		return err
	}
	d := newDocument("ListBucketResult")
	d.text("Name", x.bucket.Name)
	d.text("Prefix", l.encode(l.Prefix))
	d.number("MaxKeys", int64(l.limit))
	d.number("KeyCount", int64(len(l.page.Entries)))
	d.optional("Delimiter", l.encode(l.Delimiter))
	d.optional("EncodingType", x.query.Get("encoding-type"))
	d.optional("ContinuationToken", token)
	d.optional("StartAfter", l.encode(after))
	d.flag("IsTruncated", l.page.More)
	if l.page.More {
		d.text("NextContinuationToken", formatToken(l.page.Next))
	}
	x.entries(d, &l, x.query.Get("fetch-owner") == "true")
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// A continuation token is the position in base64. It is not a secret.
func formatToken(p buckets.Position) string {
	kind := "a"
	if p.Inclusive {
		kind = "i"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + p.Name))
}

func parseToken(token string) (buckets.Position, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(text) < 2 || text[0] != 'a' && text[0] != 'i' || buckets.CheckObjectName(string(text[1:])) != nil {
		return buckets.Position{}, invalidArgument("continuation-token", "The continuation token provided is incorrect")
	}
	return buckets.Position{Name: string(text[1:]), Inclusive: text[0] == 'i'}, nil
}

// entryBytes is about what an entry of a page takes.
const entryBytes = 300

// entries writes the keys and the groups of a page.
func (x *request) entries(d *document, l *listing, owner bool) {
	d.b = slices.Grow(d.b, entryBytes*len(l.page.Entries))
	for i := range l.page.Entries {
		e := &l.page.Entries[i]
		if e.Group != "" {
			continue
		}
		o := e.Object
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
			x.writeOwner(d, "Owner")
		}
		d.text("StorageClass", "STANDARD")
		d.end()
	}
	for i := range l.page.Entries {
		if group := l.page.Entries[i].Group; group != "" {
			d.begin("CommonPrefixes")
			d.text("Prefix", l.encode(group))
			d.end()
		}
	}
}

func (x *request) writeOwner(d *document, name string) {
	d.begin(name)
	d.text("ID", string(x.owner))
	if x.owner == x.account.ID { // its name is known
		d.text("DisplayName", x.account.Name)
	}
	d.end()
}

func checksumType(c buckets.Checksum) string {
	if c.Composite {
		return "COMPOSITE"
	}
	return "FULL_OBJECT"
}

// listVersions is ListObjectVersions of a bucket without versioning: each object has the
// version null.
func (x *request) listVersions() error {
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	marker := x.query.Get("key-marker")
	l.Query = l.Starting(marker)
	if err := l.read(x); err != nil {
		return err
	}
	d := newDocument("ListVersionsResult")
	d.text("Name", x.bucket.Name)
	d.text("Prefix", l.encode(l.Prefix))
	d.text("KeyMarker", l.encode(marker))
	d.text("VersionIdMarker", x.query.Get("version-id-marker"))
	d.number("MaxKeys", int64(l.limit))
	d.optional("Delimiter", l.encode(l.Delimiter))
	d.optional("EncodingType", x.query.Get("encoding-type"))
	d.flag("IsTruncated", l.page.More)
	if l.page.More {
		d.text("NextKeyMarker", l.encode(last(l.page.Entries)))
		d.text("NextVersionIdMarker", "null")
	}
	for i := range l.page.Entries {
		e := &l.page.Entries[i]
		if e.Group != "" {
			d.begin("CommonPrefixes")
			d.text("Prefix", l.encode(e.Group))
			d.end()
			continue
		}
		d.begin("Version")
		d.text("Key", l.encode(e.Object.Name))
		d.text("VersionId", "null")
		d.flag("IsLatest", true)
		d.moment("LastModified", e.Object.Modified)
		d.etag(e.Object)
		d.number("Size", e.Object.Length)
		x.writeOwner(d, "Owner")
		d.text("StorageClass", "STANDARD")
		d.end()
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}
