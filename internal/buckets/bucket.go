package buckets

import (
	"strings"

	"holdfast/internal/errcode"
)

// BucketRef identifies an incarnation of a bucket. Writes to another incarnation return ErrNoBucket. An empty ID,
// where allowed, means the current incarnation.
type BucketRef struct {
	Name string   // 3 to 63 characters
	ID   BucketID // random; a bucket that is created again gets another ID
}

// Bucket is a row of manta_bucket.
type Bucket struct {
	BucketRef
	Owner    AccountID // whose quota the objects count for
	Created  Moment
	Settings BucketSettings

	Versioning Versioning
	Lock       BucketLock
}

// BucketSettings are set by clients.
type BucketSettings struct {
	// PublicRead lets anyone list and read objects.
	PublicRead bool              `json:"public_read,omitempty"`
	CORS       []CORSRule        `json:"cors,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"` // set by PutBucketTagging; no effect on the server
	Lifecycle  Lifecycle         `json:"lifecycle,omitzero"`
	Policy     Policy            `json:"policy,omitzero"`

	Notifications Notifications `json:"notifications,omitzero"`

	PublicAccessBlock PublicAccessBlock `json:"public_access_block,omitzero"`

	// OwnerEnforced rejects ACLs. Objects always belong to the bucket owner.
	OwnerEnforced bool `json:"owner_enforced,omitempty"`

	// OwnerPreferred is the other mode that S3 clients may set: it allows ACLs, as a bucket without a mode does. It is
	// stored because clients read it back.
	OwnerPreferred bool `json:"owner_preferred,omitempty"`

	// ImportNotes is set by imports, not by clients. See OpenImportNotes.
	ImportNotes []ImportNote `json:"import_notes,omitempty"`
}

// PublicAccessBlock restricts public access, with S3's four switches.
type PublicAccessBlock struct {
	Configured     bool `json:"configured,omitempty"`      // set even if nothing is blocked
	BlockACLs      bool `json:"block_acls,omitempty"`      // refuse new public ACLs
	IgnoreACLs     bool `json:"ignore_acls,omitempty"`     // treat PublicRead as false
	BlockPolicy    bool `json:"block_policy,omitempty"`    // refuse new public policies
	RestrictPolicy bool `json:"restrict_policy,omitempty"` // a public policy grants nothing to others
}

// SetsAccess reports whether somebody has set who may access the bucket.
func (s *BucketSettings) SetsAccess() bool {
	return s.PublicRead || !s.Policy.IsZero() || s.PublicAccessBlock.Configured || s.OwnerEnforced
}

// IsOpen reports whether the canned ACL lets anyone list and read. A policy may allow the same: see IsShared.
func (s *BucketSettings) IsOpen() bool { return s.PublicRead && !s.PublicAccessBlock.IgnoreACLs }

// Policy is a bucket policy validated by package policy.
type Policy struct {
	Document string `json:"document,omitempty"` // the JSON text as the client sent it

	// Accounts maps the account names in the document to IDs. It is resolved when the policy is set, because names may
	// be reassigned.
	Accounts map[string]AccountID `json:"accounts,omitempty"`

	// Shared is set if a statement allows anyone but the bucket's owner, and Public if the policy is public as S3 defines
	// it. The rule for plain names needs them where no policy can be parsed.
	Shared bool `json:"shared,omitempty"`
	Public bool `json:"public,omitempty"`
}

// IsZero reports whether the bucket lacks a policy. JSON needs the method to omit it.
func (p Policy) IsZero() bool { return p.Document == "" }

// SettingsChange changes bucket settings. Nil fields change nothing.
type SettingsChange struct {
	PublicRead *bool              `json:"public_read,omitempty"`
	CORS       *[]CORSRule        `json:"cors,omitempty"`
	Tags       *map[string]string `json:"tags,omitempty"`
	Lifecycle  *Lifecycle         `json:"lifecycle,omitempty"`
	Policy     *Policy            `json:"policy,omitempty"`

	Notifications *Notifications `json:"notifications,omitempty"`
	Events        *[]Event       `json:"-"` // appended in the same transaction

	// LifecycleWas, if set, must equal Lifecycle.Changed, otherwise Apply returns ErrPrecondition.
	LifecycleWas *Moment `json:"-"`

	PublicAccessBlock *PublicAccessBlock `json:"public_access_block,omitempty"`
	OwnerEnforced     *bool              `json:"owner_enforced,omitempty"`
	OwnerPreferred    *bool              `json:"owner_preferred,omitempty"`
	ImportNotes       *[]ImportNote      `json:"import_notes,omitempty"`

	Now Moment `json:"-"` // when a name is claimed or freed; only used if ChangesAccess
}

// Apply returns the settings after the change. Backends call it in the transaction, and store the result.
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
	if c.Lifecycle != nil {
		s.Lifecycle = *c.Lifecycle
	}
	if c.Policy != nil {
		s.Policy = *c.Policy
	}
	if c.Notifications != nil {
		s.Notifications = *c.Notifications
	}
	if c.PublicAccessBlock != nil {
		s.PublicAccessBlock = *c.PublicAccessBlock
	}
	if c.OwnerEnforced != nil {
		s.OwnerEnforced = *c.OwnerEnforced
	}
	if c.OwnerPreferred != nil {
		s.OwnerPreferred = *c.OwnerPreferred
	}
	if c.ImportNotes != nil {
		s.ImportNotes = *c.ImportNotes
	}
	return s
}

var (
	ErrNoBucket       = errcode.New(errcode.NotFound, "the bucket does not exist")
	ErrBucketExists   = errcode.New(errcode.Conflict, "the account already has a bucket with this name")
	ErrBucketNotEmpty = errcode.New(errcode.Conflict, "the bucket is not empty")
)

// BucketQuery selects a page of an account's buckets by name.
type BucketQuery struct {
	Prefix string // "" for all names
	After  string // name, exclusive
	Limit  int    // buckets on the page
	Bytes  int    // if positive, limits the page's memory; see Bucket.Memory
}

// BucketLister builds a page from rows ordered by name. Backends read Limit+1 rows, so that it knows whether more
// follow.
type BucketLister struct {
	q     BucketQuery
	page  []Bucket
	bytes int
	more  bool
}

func NewBucketLister(q BucketQuery) *BucketLister { return &BucketLister{q: q} }

// Add takes the next row, and returns done if no further row is needed.
func (l *BucketLister) Add(b Bucket) (done bool) {
	switch {
	case !strings.HasPrefix(b.Name, l.q.Prefix):
		return true
	case len(l.page) == l.q.Limit, l.q.Bytes > 0 && l.bytes >= l.q.Bytes:
		l.more = true
		return true
	}
	l.page = append(l.page, b)
	l.bytes += b.Memory()
	return false
}

// Page returns the result after the last Add.
func (l *BucketLister) Page() (page []Bucket, more bool) { return l.page, l.more }

// Memory estimates the size in bytes, with settings.
func (b *Bucket) Memory() int {
	n := objectMemory + len(b.Name) + len(b.ID) + len(b.Owner) + len(b.Settings.Policy.Document) + b.Settings.Lifecycle.memory() + b.Settings.Notifications.memory()
	for name, id := range b.Settings.Policy.Accounts {
		n += tagMemory + len(name) + len(id)
	}
	for k, v := range b.Settings.Tags {
		n += tagMemory + len(k) + len(v)
	}
	for _, note := range b.Settings.ImportNotes {
		n += entryMemory + len(note.Reason)
	}
	for i := range b.Settings.CORS {
		rule := &b.Settings.CORS[i]
		n += objectMemory + len(rule.ID)
		for _, list := range [][]string{rule.AllowedOrigins, rule.AllowedMethods, rule.AllowedHeaders, rule.ExposeHeaders} {
			for _, text := range list {
				n += entryMemory + len(text)
			}
		}
	}
	return n
}
