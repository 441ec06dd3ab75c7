package httpapi

import (
	"encoding/json"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

// bucketJSON and the other types ending in JSON mirror schemas in openapi.json, which describes their fields.
type bucketJSON struct {
	ID      buckets.BucketID  `json:"id"`
	Name    string            `json:"name"`
	Owner   buckets.AccountID `json:"owner"`
	Created string            `json:"created"`

	Versioning string `json:"versioning"` // off, enabled or suspended
}

// ofBucket converts a bucket.
func ofBucket(b *buckets.Bucket) bucketJSON {
	return bucketJSON{b.ID, b.Name, b.Owner, formatMoment(b.Created), versioningStates[b.Versioning]}
}

// entryJSON is an object or group in a list.
type entryJSON struct {
	Type string `json:"type"`
	Name string `json:"name"`
	*versionJSON
	*metadataJSON // nil if not requested
}

// metadataJSON is embedded where metadata was requested or always belongs.
type metadataJSON struct {
	Creator    buckets.AccountID `json:"creator,omitempty"`
	Headers    map[string]string `json:"headers"`
	Roles      []string          `json:"roles"`
	Sharks     []sharkJSON       `json:"sharks"`
	Properties json.RawMessage   `json:"properties"`
}

// versionJSON is embedded by all that describe an object version.
type versionJSON struct {
	ID            buckets.ObjectID `json:"id"`
	EntityTag     string           `json:"entity_tag"`
	Created       string           `json:"created"`
	Modified      string           `json:"modified"`
	ContentLength int64            `json:"content_length"`
	ContentMD5    []byte           `json:"content_md5"` // null if the object was uploaded in parts
	ContentType   string           `json:"content_type"`
	Checksum      *checksumJSON    `json:"checksum,omitempty"`
	Parts         int              `json:"parts,omitempty"`
}

type checksumJSON struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value"`
	Composite bool   `json:"composite"`
}

type objectJSON struct {
	Name    string            `json:"name"`
	Version buckets.VersionID `json:"version,omitempty"` // missing in buckets without versioning
	versionJSON
	Owner      buckets.AccountID `json:"owner"`
	BucketID   buckets.BucketID  `json:"bucket_id"`
	Creator    buckets.AccountID `json:"creator,omitempty"`
	Headers    map[string]string `json:"headers"`
	Roles      []string          `json:"roles"`
	Sharks     []sharkJSON       `json:"sharks"`
	Properties json.RawMessage   `json:"properties"`
}

type sharkJSON struct {
	Datacenter string `json:"datacenter"`
	StorageID  string `json:"manta_storage_id"`
}

type garbageJSON struct {
	Name string `json:"name"`
	versionJSON
	Owner    buckets.AccountID `json:"owner"`
	BucketID buckets.BucketID  `json:"bucket_id"`
	metadataJSON
	Path      string           `json:"path,omitempty"`
	Upload    buckets.UploadID `json:"upload,omitempty"` // upload whose parts form the body
	DeletedAt string           `json:"deleted_at"`
}

// ofVersion converts an object's version.
func ofVersion(o *buckets.Object) versionJSON {
	v := versionJSON{
		ID: o.ID, EntityTag: o.EntityTag(), Created: formatMoment(o.Created), Modified: formatMoment(o.Modified),
		ContentLength: o.Length, ContentMD5: o.MD5, ContentType: o.ContentType, Parts: o.Parts,
	}
	if c := o.Checksum; c.Algorithm != "" {
		v.Checksum = &checksumJSON{c.Algorithm, c.Value, c.Composite}
	}
	return v
}

// ofObject converts an object in x.bucket.
func (x *exchange) ofObject(o *buckets.Object) objectJSON {
	return objectJSON{
		Name: o.Name, Version: x.versionOf(o), versionJSON: ofVersion(o), Owner: x.owner, BucketID: x.bucket.ID, Creator: o.Creator,
		Headers: headersOf(o), Roles: rolesOf(o), Sharks: ofSharks(o.Sharks), Properties: propertiesOf(o),
	}
}

// metadataOf converts metadata.
func metadataOf(o *buckets.Object) metadataJSON {
	return metadataJSON{o.Creator, headersOf(o), rolesOf(o), ofSharks(o.Sharks), propertiesOf(o)}
}

// headersOf returns an object even if there are no headers, because the schema requires it.
func headersOf(o *buckets.Object) map[string]string {
	if o.Headers == nil {
		return map[string]string{}
	}
	return o.Headers
}

// rolesOf returns a list even if there are no roles.
func rolesOf(o *buckets.Object) []string {
	if o.Roles == nil {
		return []string{}
	}
	return o.Roles
}

// propertiesOf returns an object even if there are no properties.
func propertiesOf(o *buckets.Object) json.RawMessage {
	if o.Extra == nil {
		return json.RawMessage("{}")
	}
	return o.Extra
}

// metadataBytes returns the length of the metadata's texts, to charge memory.
func metadataBytes(o *buckets.Object) (n int) {
	for name, value := range o.Headers {
		n += len(name) + len(value)
	}
	for _, shark := range o.Sharks {
		n += len(shark)
	}
	return n + len(o.Roles)*36 + len(o.Extra)
}

// ofSharks splits node IDs as Manta's API does.
func ofSharks(all []string) []sharkJSON {
	list := make([]sharkJSON, len(all))
	for i, s := range all {
		list[i].Datacenter, list[i].StorageID, _ = strings.Cut(s, ":")
	}
	return list
}

// ofGarbage converts garbage, whose Object must be set.
func ofGarbage(g *buckets.Garbage) garbageJSON {
	o := g.Object
	v := garbageJSON{
		Name: g.Name, versionJSON: ofVersion(o), Owner: g.Owner, BucketID: g.Bucket, metadataJSON: metadataOf(o),
		Upload: g.Upload, DeletedAt: formatMoment(g.Deleted),
	}
	if len(g.Sharks) > 0 {
		v.Path = buckets.BodyPath(g.Owner, g.Bucket, g.ID, g.Name)
	}
	return v
}

// formatMoment formats with microseconds, so that clients can compare exactly.
func formatMoment(m buckets.Moment) string { return m.Time().Format("2006-01-02T15:04:05.000000Z") }

// send sends JSON.
func (x *exchange) send(status int, body []byte) error {
	web.SendJSONLine(x.out, status, body)
	return nil
}

// answer encodes and sends v.
func (x *exchange) answer(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode the response", err)
	}
	return x.send(status, body)
}
