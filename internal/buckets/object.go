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

// Object is a row of manta_bucket_object: the current version of an object.
type Object struct {
	Name        string
	Created     Moment    // when this version was written
	Modified    Moment    // last write or metadata change
	Creator     AccountID // empty in old rows, then the owner
	ContentType string
	Headers     map[string]string // lower case; user metadata begins with "m-"
	Roles       []string          // UUIDs
	Body
	Properties
}

// Body locates the bytes of an object or part. If both Inline and Sharks are empty, the body is empty or consists of
// the parts of Properties.Upload.
type Body struct {
	// a random UUID (NewUUID); the caller chooses it before it stores the body
	ID ObjectID
	// bytes
	Length int64
	MD5    []byte // 16 bytes, nil for a multipart body; without it an object has no entity tag
	Inline []byte // the body, if stored in the row
	// IDs of the storage nodes with a copy
	Sharks []string

	// Frames are missing for old bodies. Readers then compare CRC32C or MD5. Only Get, Segments and References read
	// Frames and CRC32C.
	Frames optional.Of[Frames]
	CRC32C optional.Of[uint32]
}

// Frames let readers verify each chunk on storage nodes.
type Frames struct {
	ID        uint64 // random; stored in each chunk
	CRC64NVME uint64
}

// Properties is a column. Members other than "s3" belong to native API clients.
type Properties struct {
	ETag     string            `json:"etag,omitempty"`   // only for multipart objects; otherwise the MD5 is used
	Upload   UploadID          `json:"upload,omitempty"` // upload whose parts form the body
	Parts    int               `json:"parts,omitempty"`
	Checksum Checksum          `json:"checksum,omitzero"`
	Version  VersionID         `json:"version,omitempty"` // "" for the null version
	Tags     map[string]string `json:"tags,omitempty"`
	Lock     Lock              `json:"lock,omitzero"`
	Class    StorageClass      `json:"class,omitempty"`

	// Imported is the source server's modification time. If it equals Object.Modified, no client has changed the
	// object.
	Imported Moment `json:"imported,omitempty"`

	// ImportedTags is the TagsSum of the imported tags. If it matches Tags, no client has changed them.
	ImportedTags string `json:"imported_tags,omitempty"`

	// Restored is only set for uploads: the database was restored since the upload began, so bodies of parts may be
	// missing.
	Restored bool `json:"restored,omitempty"`

	Extra json.RawMessage `json:"-"` // other members as a JSON object
}

// Checksum is a body checksum requested by the client.
type Checksum struct {
	Algorithm string `json:"algorithm"` // CRC32, CRC32C, CRC64NVME, SHA1 or SHA256
	Value     string `json:"value"`     // base64; composite checksums end with "-" and the part count
	Composite bool   `json:"composite,omitempty"`
}

// SameMetadata reports whether all metadata set by clients is equal.
func (o *Object) SameMetadata(p *Object) bool {
	return o.ContentType == p.ContentType && o.Creator == p.Creator && maps.Equal(o.Headers, p.Headers) && slices.Equal(o.Roles, p.Roles) &&
		maps.Equal(o.Tags, p.Tags) && o.Class == p.Class && bytes.Equal(o.Extra, p.Extra)
}

// EntityTag returns the MD5 in hex, or for multipart uploads the MD5 of the parts' MD5s, a hyphen and the number of
// parts.
func (o *Object) EntityTag() string {
	if o.ETag != "" {
		return o.ETag
	}
	return hex.EncodeToString(o.MD5)
}

// TagsSum returns a hash of the tags, or "" if there are no tags.
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

// Encode returns the column properties, or nil if everything is empty. It returns ErrProperties for an invalid Extra.
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

// DecodeProperties reads the column properties; nil is valid.
func DecodeProperties(text []byte) (p Properties, err error) {
	if len(text) == 0 {
		return p, nil
	}
	if p, ok := decodePlain(text); ok {
		return p, nil
	}
	return decodeAny(text)
}

// decodeAny decodes properties with native API members.
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

// CheckExtra requires a JSON object without the member "s3".
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

// MaxExtra is the size limit for client properties.
const MaxExtra = 8 << 10

// ParseExtra accepts a JSON object if every database stores it without changes. It returns nil for {}.
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

var (
	ErrNoObject   = errcode.New(errcode.NotFound, "the object does not exist")
	ErrProperties = errcode.New(errcode.Invalid, `properties must be a JSON object without the member "s3"`)
)

// BodyPath returns the path of a body on storage nodes. Audits derive the key of the row from the path.
func BodyPath(owner AccountID, bucket BucketID, id ObjectID, name string) string {
	sum := md5.Sum([]byte(name)) //nolint:gosec // Manta's path
	return "v2/" + string(owner) + "/" + string(bucket) + "/" + string(id[:2]) + "/" + string(id) + "," + hex.EncodeToString(sum[:])
}

// Segment is a part's position in a multipart body.
type Segment struct {
	Body
	Number   int   // from 1
	Start    int64 // offset in the whole body
	Checksum Checksum
}
