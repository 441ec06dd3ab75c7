package buckets

import (
	"strings"

	"holdfast/internal/fault"
)

// BucketRef names a bucket and the incarnation that is meant. A write to a bucket that
// was deleted meanwhile, or deleted and created again, is ErrNoBucket. Where a method
// allows it, ID is empty: then the bucket that has the name is meant.
type BucketRef struct {
	Name string
	ID   BucketID
}

// Bucket is a row of manta_bucket with its settings.
type Bucket struct {
	BucketRef
	Owner    AccountID
	Created  Moment
	Settings BucketSettings
}

// BucketSettings are what a client sets on a bucket.
type BucketSettings struct {
	// PublicRead lets everybody read the objects of the bucket and list them.
	PublicRead bool              `json:"public_read,omitempty"`
	CORS       []CORSRule        `json:"cors,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
}

// SettingsChange is a change of a bucket's settings. A nil field stays as it is, also if
// somebody else changes it meanwhile.
type SettingsChange struct {
	PublicRead *bool              `json:"public_read,omitempty"`
	CORS       *[]CORSRule        `json:"cors,omitempty"`
	Tags       *map[string]string `json:"tags,omitempty"`
}

// Apply returns settings as the change leaves them.
func (c *SettingsChange) Apply(s BucketSettings) BucketSettings {
	if c.PublicRead != nil {
		s.PublicRead = *c.PublicRead
	}
	if c.CORS != nil {
		s.CORS = *c.CORS
	}
	if c.Tags != nil {
		s.Tags = *c.Tags
	}
	return s
}

// CORSRule is a rule of a bucket's CORS configuration. A "*" in an origin or a header
// matches any text; an origin has at most one.
type CORSRule struct {
	ID             string   `json:"id,omitempty"`
	AllowedOrigins []string `json:"allowed_origins"`
	AllowedMethods []string `json:"allowed_methods"`
	AllowedHeaders []string `json:"allowed_headers,omitempty"`
	ExposeHeaders  []string `json:"expose_headers,omitempty"`
	MaxAgeSeconds  int      `json:"max_age_seconds,omitempty"`
}

// Errors of operations on buckets.
var (
	ErrNoBucket       = fault.New(fault.NotFound, "the bucket does not exist")
	ErrBucketExists   = fault.New(fault.Conflict, "the account already has a bucket with this name")
	ErrBucketNotEmpty = fault.New(fault.Conflict, "the bucket is not empty")
)

// BucketQuery selects a page of an account's buckets, ordered by the bytes of the name.
type BucketQuery struct {
	Prefix string
	After  string // the page starts after this name; empty: at the beginning
	Limit  int    // 1 to MaxPage
}

// Cut cuts a list of the buckets after After, which may be one too long, to a page.
func (q *BucketQuery) Cut(all []Bucket) (page []Bucket, more bool) {
	for i := range all {
		if !strings.HasPrefix(all[i].Name, q.Prefix) {
			all = all[:i]
			break
		}
	}
	if len(all) > q.Limit {
		return all[:q.Limit], true
	}
	return all, false
}
