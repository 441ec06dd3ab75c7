package buckets

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol's entity tag, not a security measure
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// Object is a row of manta_bucket_object.
type Object struct {
	Name        string
	Created     Moment
	Modified    Moment    // when the object was written, or its metadata changed
	Creator     AccountID // the account that wrote the body or began the upload; empty in old rows: the owner
	ContentType string
	Headers     map[string]string // names in lower case; user metadata begins with "m-"
	Roles       []string          // UUIDs
	Body
	Properties
}

// Body is where the bytes of an object or a part are. A body with neither Inline nor
// Sharks is empty, or is the parts of Properties.Upload.
type Body struct {
	ID     ObjectID
	Length int64
	MD5    []byte   // 16 bytes; nil if the body was uploaded in parts
	Inline []byte   // the body itself, if it is in the row
	Sharks []string // the storage nodes that have a copy, each "datacenter:storage_id"

	// Frames are set for a body on storage nodes, but not for one that was written before there were
	// frames. A reader of that one compares CRC32C, or without it MD5. Get, Segments and
	// References of the store read both.
	Frames optional.Of[Frames]
	CRC32C optional.Of[uint32]
}

// Frames are what a reader of a body on storage nodes needs to verify each chunk of it.
type Frames struct {
	ID        uint64 // random; each chunk has it, on all nodes
	CRC64NVME uint64 // of the body
}

// Properties are what the column properties has. Ours is the member "s3"; all other
// members belong to clients of the native API.
type Properties struct {
	ETag     string            `json:"etag,omitempty"`   // of an upload in parts; otherwise the MD5
	Upload   UploadID          `json:"upload,omitempty"` // the upload whose parts are the body
	Parts    int               `json:"parts,omitempty"`  // their number
	Checksum Checksum          `json:"checksum,omitzero"`
	Version  VersionID         `json:"version,omitempty"` // "": the null version
	Tags     map[string]string `json:"tags,omitempty"`
	Lock     Lock              `json:"lock,omitzero"`

	// Imported is when another server, from which the object was imported, last modified it there. While
	// Object.Modified is the same, no client has changed the object here.
	Imported Moment `json:"imported,omitempty"`

	// ImportedTags is the TagsSum of the tags that were imported. While it is that of Tags, no client has changed them here.
	ImportedTags string `json:"imported_tags,omitempty"`

	Extra json.RawMessage `json:"-"` // the other members, a JSON object; nil: none
}

// Checksum is a checksum of a body that the client asked for.
type Checksum struct {
	Algorithm string `json:"algorithm"` // CRC32, CRC32C, CRC64NVME, SHA1 or SHA256
	Value     string `json:"value"`     // base64; a composite checksum ends with "-" and the number of parts
	Composite bool   `json:"composite,omitempty"`
}

// SameMetadata reports whether two objects are the same in all that clients store with a body.
func (o *Object) SameMetadata(p *Object) bool {
	return o.ContentType == p.ContentType && o.Creator == p.Creator && maps.Equal(o.Headers, p.Headers) && slices.Equal(o.Roles, p.Roles) &&
		maps.Equal(o.Tags, p.Tags) && bytes.Equal(o.Extra, p.Extra)
}

// EntityTag returns S3's entity tag without quotes: the MD5 of the body in
// hexadecimal, or for an object that was uploaded in parts the MD5 of their MD5s,
// a hyphen, and their number.
func (o *Object) EntityTag() string {
	if o.ETag != "" {
		return o.ETag
	}
	return hex.EncodeToString(o.MD5)
}

// TagsSum returns a hash of tags; "": there are none.
func TagsSum(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		for _, text := range []string{name, tags[name]} {
			fmt.Fprintf(h, "%d:%s", len(text), text)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

const propertiesMember = "s3"

// Encode returns the JSON of the column properties, or nil if it is empty.
func (p *Properties) Encode() ([]byte, error) {
	ours, err := json.Marshal(p)
	if err != nil {
		return nil, errcode.Wrap(errcode.Internal, "encode the properties", err)
	}
	all := map[string]json.RawMessage{}
	if p.Extra != nil {
		if err := CheckExtra(p.Extra); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(p.Extra, &all); err != nil {
			return nil, ErrProperties
		}
	}
	if string(ours) != "{}" {
		all[propertiesMember] = ours
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

// DecodeProperties decodes the column properties; nil is empty.
func DecodeProperties(text []byte) (p Properties, err error) {
	if len(text) == 0 {
		return p, nil
	}
	if p, ok := decodePlain(text); ok {
		return p, nil
	}
	return decodeAny(text)
}

func decodeAny(text []byte) (p Properties, err error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		return p, errcode.Wrap(errcode.Internal, "decode the properties of an object", err)
	}
	if ours, ok := all[propertiesMember]; ok {
		if err := json.Unmarshal(ours, &p); err != nil {
			return p, errcode.Wrap(errcode.Internal, "decode the properties of an object", err)
		}
		delete(all, propertiesMember)
	}
	if len(all) > 0 {
		p.Extra, err = json.Marshal(all)
	}
	return p, err
}

// CheckExtra rejects properties of a client that are not a JSON object, or that have
// the member "s3".
func CheckExtra(text json.RawMessage) error {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(text, &all) != nil || all == nil {
		return ErrProperties
	}
	if _, ok := all[propertiesMember]; ok {
		return ErrProperties
	}
	return nil
}

// MaxExtra is the largest size of a client's properties in bytes.
const MaxExtra = 8 << 10

// ParseExtra reads the properties of a client: a JSON object that every database stores
// and returns as it is. {} is nil, none.
func ParseExtra(text []byte) (json.RawMessage, error) {
	v, err := canonjson.Parse(text, MaxExtra)
	switch {
	case err != nil:
		return nil, errcode.Newf(errcode.Invalid, "properties are not valid: the text %v", err)
	case v == canonjson.EmptyObject:
		return nil, nil
	}
	return json.RawMessage(v), CheckExtra(json.RawMessage(v))
}

// Errors of operations on objects.
var (
	ErrNoObject   = errcode.New(errcode.NotFound, "the object does not exist")
	ErrProperties = errcode.New(errcode.Invalid, `properties must be a JSON object without the member "s3"`)
)

// BodyPath returns the path of a body on its storage nodes. It has all inputs of the
// placement, so an auditor finds the row of a file without a search.
func BodyPath(owner AccountID, bucket BucketID, id ObjectID, name string) string {
	sum := md5.Sum([]byte(name)) //nolint:gosec // Manta's path
	return "v2/" + string(owner) + "/" + string(bucket) + "/" + string(id[:2]) + "/" + string(id) + "," + hex.EncodeToString(sum[:])
}

// Segment is a part of a body: a Body that begins at an offset of the whole.
type Segment struct {
	Body
	Number   int      // of the part, from 1
	Start    int64    // offset in the whole body
	Checksum Checksum // of a part; zero: none
}
