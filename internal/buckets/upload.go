package buckets

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol's entity tag, not a security measure
	"encoding/hex"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// Upload is an incomplete multipart upload with the metadata of the future object.
type Upload struct {
	ID          UploadID
	Name        string
	Created     Moment
	Creator     AccountID // the initiator in S3
	ContentType string
	// as in Object
	Headers    map[string]string
	Roles      []string
	Properties // the client's choice is a Checksum without Value
}

// Part is an uploaded part that no object uses yet.
type Part struct {
	Number int // 1 to MaxParts
	Body
	// zero unless the client asked for it
	Checksum Checksum
	Created  Moment
}

// PartRef names a part in a completion.
type PartRef struct {
	Number   int
	ETag     string // Part.MD5 in hex, as UploadPart returned it
	Checksum string // base64; may be empty
}

const (
	MaxParts = 10000   // S3's limit
	MinPart  = 5 << 20 // minimum bytes per part, except the last
)

var (
	ErrNoUpload     = errcode.New(errcode.NotFound, "the upload does not exist: it was completed or aborted, or never created")
	ErrPartNumber   = errcode.New(errcode.Invalid, "a part number is 1 to 10,000")
	ErrNoParts      = errcode.New(errcode.Invalid, "an upload needs at least one part to be completed")
	ErrPartOrder    = errcode.New(errcode.Invalid, "the parts must be listed in ascending order")
	ErrPart         = errcode.New(errcode.Invalid, "a listed part was not uploaded, or its entity tag or checksum differs")
	ErrPartTooSmall = errcode.New(errcode.Invalid, "every part except the last must be at least 5 MiB")
)

// PartError is ErrPart or ErrPartTooSmall for a part in a completion.
type PartError struct {
	Err    error
	Number int
	ETag   string // as listed by the client
	Length int64  // bytes; only for ErrPartTooSmall
	Least  int64  // minimum bytes; only for ErrPartTooSmall
}

// Error returns Err's text.
func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

// Assembly is the object that a completion makes from its parts.
type Assembly struct {
	ETag   string
	Length int64      // bytes in the used parts
	Used   []Segment  // with Start, in order
	Sums   []Checksum // the used parts' checksums
	Unused []Part     // not in the completion list
}

// Assemble validates a completion list against the stored parts, ordered by number. The error is ErrNoParts, ErrPartOrder
// or a *PartError.
func Assemble(stored []Part, list []PartRef, minPart int64) (a Assembly, err error) {
	if len(list) == 0 {
		return a, ErrNoParts
	}
	for i := range list[1:] {
		if list[i].Number >= list[i+1].Number {
			return a, ErrPartOrder
		}
	}
	sum := md5.New() //nolint:gosec // see above
	next := 0
	for i, ref := range list {
		for next < len(stored) && stored[next].Number < ref.Number {
			a.Unused = append(a.Unused, stored[next])
			next++
		}
		if next == len(stored) || stored[next].Number != ref.Number {
			return Assembly{}, &PartError{Err: ErrPart, Number: ref.Number, ETag: ref.ETag}
		}
		p := &stored[next]
		next++
		tag, err := hex.DecodeString(ref.ETag)
		if err != nil || !bytes.Equal(tag, p.MD5) || ref.Checksum != "" && ref.Checksum != p.Checksum.Value {
			return Assembly{}, &PartError{Err: ErrPart, Number: ref.Number, ETag: ref.ETag}
		}
		if p.Length < minPart && i < len(list)-1 {
			return Assembly{}, &PartError{ErrPartTooSmall, ref.Number, ref.ETag, p.Length, minPart}
		}
		sum.Write(p.MD5)
		a.Used = append(a.Used, Segment{Body: p.Body, Number: p.Number, Start: a.Length})
		a.Sums = append(a.Sums, p.Checksum)
		a.Length += p.Length
	}
	a.Unused = append(a.Unused, stored[next:]...)
	a.ETag = hex.EncodeToString(sum.Sum(nil)) + "-" + strconv.Itoa(len(list))
	return a, nil
}

// UploadQuery selects a page of a bucket's uploads by name and ID.
type UploadQuery struct {
	Prefix    string
	Delimiter string // groups as in Query
	After     string // exclusive, unless AfterID is set
	AfterID   UploadID
	Limit     int // uploads and groups
	Bytes     int // if positive, limits the page's memory
}

// UploadPage is a slice from a list.
type UploadPage struct {
	Uploads []Upload
	Groups  []string
	More    bool
	After   string // where the next page starts, with AfterID
	AfterID UploadID
}

// errUnverified means that the upload is Restored, so Service.CompleteUpload must verify the bodies of its parts first.
var errUnverified = errcode.New(errcode.Internal, "the parts of a restored upload are not verified")

// Object returns an error if the client expects a different object.
func (a *Assembly) Object(u Upload, c Completion) (Object, error) {
	if u.Restored && !c.Verified {
		return Object{}, errUnverified
	}
	u.Restored = false
	o := Object{
		Name: u.Name, Created: c.Now, Modified: c.Now, Creator: u.Creator, ContentType: u.ContentType,
		Headers: u.Headers, Roles: u.Roles, Properties: u.Properties,
		Body: Body{ID: c.Object, Length: a.Length},
	}
	o.ETag, o.Upload, o.Parts, o.Checksum = a.ETag, u.ID, len(a.Used), a.checksum(u.Checksum)
	return o, c.Expected.check(&o)
}

// UnusedBytes returns how much the usage shrinks, because unlisted parts become garbage.
func (a *Assembly) UnusedBytes() (n int64) {
	for i := range a.Unused {
		n += a.Unused[i].Length
	}
	return n
}

// UploadLister builds an UploadPage like Lister builds a Page.
type UploadLister struct {
	q     UploadQuery
	page  UploadPage
	bytes int
}

// Memory estimates the size in bytes.
func (u *Upload) Memory() int {
	e := Entry{Object: &Object{
		Name: u.Name, Creator: u.Creator, ContentType: u.ContentType, Headers: u.Headers, Roles: u.Roles, Properties: u.Properties,
	}}
	return e.Memory() + len(u.ID)
}

func NewUploadLister(q UploadQuery) *UploadLister { return &UploadLister{q: q} }

// lastUpload is greater than every UploadID.
const lastUpload = UploadID("g")

// From returns the position after which rows begin.
func (l *UploadLister) From() (name string, id UploadID) {
	if l.q.After < l.q.Prefix {
		return l.q.Prefix, ""
	}
	objects := Query{Prefix: l.q.Prefix, Delimiter: l.q.Delimiter}
	if group, ok := objects.GroupOf(l.q.After); ok && group == l.q.After {
		return objects.after(group).Name, ""
	}
	if l.q.AfterID == "" {
		return l.q.After, lastUpload
	}
	return l.q.After, l.q.AfterID
}

// Add returns skip if the rows must continue after name and id.
func (l *UploadLister) Add(u Upload) (name string, id UploadID, skip, done bool) {
	if !strings.HasPrefix(u.Name, l.q.Prefix) {
		return "", "", false, true
	}
	if len(l.page.Uploads)+len(l.page.Groups) == l.q.Limit || l.q.Bytes > 0 && l.bytes >= l.q.Bytes {
		l.page.More = true
		return "", "", false, true
	}
	objects := Query{Prefix: l.q.Prefix, Delimiter: l.q.Delimiter}
	group, grouped := objects.GroupOf(u.Name)
	if l.q.Bytes > 0 {
		l.bytes += u.Memory()
	}
	if !grouped {
		l.page.Uploads = append(l.page.Uploads, u)
		l.page.After, l.page.AfterID = u.Name, u.ID
		return "", "", false, false
	}
	l.page.Groups = append(l.page.Groups, group)
	l.page.After, l.page.AfterID = group, ""
	return objects.after(group).Name, "", true, false
}

// Page returns the result after the last Add.
func (l *UploadLister) Page() UploadPage { return l.page }
