package buckets

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// Setting is a kind of setting that is stored with a bucket. The text is stored in ImportNote.
type Setting string

// Kinds of settings. AllSettings has their rules.
const (
	SettingPublicRead    Setting = "public_read"
	SettingCORS          Setting = "cors"
	SettingTags          Setting = "tags"
	SettingLifecycle     Setting = "lifecycle"
	SettingPolicy        Setting = "policy"
	SettingNotifications Setting = "notifications"
	SettingAccessBlock   Setting = "public_access_block"
	SettingOwnership     Setting = "ownership"
	SettingVersioning    Setting = "versioning"
	SettingLock          Setting = "object_lock"

	// SettingObjects is no setting: an ImportNote has it if objects are missing.
	SettingObjects Setting = "objects"
)

// SettingKind has the rules for a kind of setting.
type SettingKind struct {
	Setting Setting
	Words   string // for people, e.g. "CORS rules"
	Field   string // in BucketSettings, or else in Bucket

	// isSet reports whether the bucket has the setting.
	isSet func(*Bucket) bool

	// check returns why a client could not set the stored value; nil if it is valid. It is called only if isSet.
	check func(context.Context, *Bucket, *SettingRules) error
}

// SettingRules has the parts of the rules that this package does not know. All fields are required.
type SettingRules struct {
	// Destinations are those that notifications may name.
	Destinations []Destination

	// CheckPolicy parses the bucket's policy and looks up its accounts as for a new policy. It returns errcode.Invalid
	// for an invalid policy.
	CheckPolicy func(context.Context, *Bucket) error
}

// AllSettings lists every kind of setting in the order in which findings show them.
func AllSettings() []SettingKind {
	return []SettingKind{
		{
			// A block that was set later does not make it invalid, so nothing can be wrong by itself.
			Setting: SettingPublicRead, Words: "public-read ACL", Field: "PublicRead",
			isSet: func(b *Bucket) bool { return b.Settings.PublicRead },
			check: func(context.Context, *Bucket, *SettingRules) error { return nil },
		},
		{
			Setting: SettingCORS, Words: "CORS rules", Field: "CORS",
			isSet: func(b *Bucket) bool { return len(b.Settings.CORS) > 0 },
			check: func(_ context.Context, b *Bucket, _ *SettingRules) error { return orNil(CheckCORS(b.Settings.CORS)) },
		},
		{
			Setting: SettingTags, Words: "tags", Field: "Tags",
			isSet: func(b *Bucket) bool { return len(b.Settings.Tags) > 0 },
			check: func(_ context.Context, b *Bucket, _ *SettingRules) error {
				return orNil(CheckTags(b.Settings.Tags, MaxBucketTags))
			},
		},
		{
			Setting: SettingLifecycle, Words: "lifecycle rules", Field: "Lifecycle",
			isSet: func(b *Bucket) bool { return len(b.Settings.Lifecycle.Rules) > 0 },
			check: func(_ context.Context, b *Bucket, _ *SettingRules) error { return orNil(b.Settings.Lifecycle.Check()) },
		},
		{
			Setting: SettingPolicy, Words: "policy", Field: "Policy",
			isSet: func(b *Bucket) bool { return !b.Settings.Policy.IsZero() },
			check: func(ctx context.Context, b *Bucket, r *SettingRules) error { return r.CheckPolicy(ctx, b) },
		},
		{
			Setting: SettingNotifications, Words: "notifications", Field: "Notifications",
			isSet: func(b *Bucket) bool { return !b.Settings.Notifications.IsZero() },
			check: func(_ context.Context, b *Bucket, r *SettingRules) error {
				return orNil(b.Settings.Notifications.Check(r.Destinations))
			},
		},
		{
			Setting: SettingAccessBlock, Words: "public access block", Field: "PublicAccessBlock",
			isSet: func(b *Bucket) bool { return b.Settings.PublicAccessBlock != PublicAccessBlock{} },
			check: func(_ context.Context, b *Bucket, _ *SettingRules) error { return b.Settings.PublicAccessBlock.Check() },
		},
		{
			Setting: SettingOwnership, Words: "object ownership", Field: "OwnerEnforced",
			isSet: func(b *Bucket) bool { return b.Settings.OwnerEnforced || b.Settings.OwnerPreferred },
			check: func(_ context.Context, b *Bucket, _ *SettingRules) error {
				if !b.Settings.OwnerEnforced {
					return nil
				}
				return b.Settings.CheckOwnerEnforced()
			},
		},
		{
			Setting: SettingVersioning, Words: "versioning", Field: "Versioning",
			isSet: func(b *Bucket) bool { return b.Versioning != VersioningOff },
			check: func(_ context.Context, b *Bucket, _ *SettingRules) error { return b.Versioning.Check() },
		},
		{
			Setting: SettingLock, Words: "object lock", Field: "Lock",
			isSet: func(b *Bucket) bool { return b.Lock != BucketLock{} },
			check: func(_ context.Context, b *Bucket, _ *SettingRules) error {
				if b.Versioning != VersioningEnabled {
					return ErrLockVersioning
				}
				return b.Lock.Check()
			},
		},
	}
}

// orNil converts a typed error, because a nil pointer in an error is not nil.
func orNil[E interface {
	comparable
	error
}](err E) error {
	var none E
	if err == none {
		return nil
	}
	return err
}

// Words returns the kind's name for people.
func (s Setting) Words() string {
	for _, k := range AllSettings() {
		if k.Setting == s {
			return k.Words
		}
	}
	return string(s)
}

// SettingProblem is a stored setting that a client could not set.
type SettingProblem struct {
	Setting Setting
	Reason  string
}

// CheckSettings applies the rules for new settings to all stored settings. Its error means that a rule could not be
// applied, e.g. because the database was unavailable.
func (b *Bucket) CheckSettings(ctx context.Context, r *SettingRules) (problems []SettingProblem, err error) {
	for _, k := range AllSettings() {
		if !k.isSet(b) {
			continue
		}
		err := k.check(ctx, b, r)
		if code := errcode.Of(err); k.Setting == SettingPolicy && err != nil && code != errcode.Invalid {
			return problems, err
		}
		if err != nil {
			problems = append(problems, SettingProblem{k.Setting, cmp.Or(errcode.Message(err), err.Error())})
		}
	}
	return problems, nil
}

// ImportNote says what the last import from another server left out of a bucket, and why. It is stored with the bucket,
// so that `holdfast check` shows it on every server, also after the import's output is gone.
type ImportNote struct {
	Setting Setting `json:"setting"`
	Reason  string  `json:"reason"`
}

// maxNote limits a stored reason in bytes, because it may quote the source.
const maxNote = 500

// NewImportNote shortens a long reason.
func NewImportNote(s Setting, reason string) ImportNote {
	if len(reason) > maxNote {
		reason = strings.ToValidUTF8(reason[:maxNote], "") + "…" // the cut may split a character
	}
	return ImportNote{s, reason}
}

// OpenImportNotes returns the notes about settings that the bucket still lacks: once a client or an operator sets one,
// its note is done.
func (b *Bucket) OpenImportNotes() []ImportNote {
	kinds := AllSettings()
	return slices.DeleteFunc(slices.Clone(b.Settings.ImportNotes), func(n ImportNote) bool {
		i := slices.IndexFunc(kinds, func(k SettingKind) bool { return k.Setting == n.Setting })
		switch {
		case i < 0:
			return false
		case n.Setting == SettingLock: // the lock may be imported without its default retention
			return b.Lock.Mode != ""
		}
		return kinds[i].isSet(b)
	})
}

// Errors about settings that contradict each other.
var (
	ErrPublicACL    = errcode.New(errcode.Conflict, "the bucket's public access block refuses public-read (BlockPublicAcls)")
	ErrNoACL        = errcode.New(errcode.Conflict, "the bucket's object ownership refuses public-read (BucketOwnerEnforced)")
	ErrPublicRead   = errcode.New(errcode.Conflict, "a bucket that is public-read cannot have the object ownership BucketOwnerEnforced")
	ErrPublicPolicy = errcode.New(errcode.Conflict, "the policy is public, which the bucket's public access block refuses (BlockPublicPolicy)")
	ErrAccessBlock  = errcode.New(errcode.Invalid, "the public access block has flags but is not set")
)

// CheckPublicRead returns ErrPublicACL or ErrNoACL if the bucket cannot become public-read.
func (s *BucketSettings) CheckPublicRead() error {
	switch {
	case s.PublicAccessBlock.BlockACLs:
		return ErrPublicACL
	case s.OwnerEnforced:
		return ErrNoACL
	}
	return nil
}

// CheckOwnerEnforced returns ErrPublicRead if the bucket cannot get OwnerEnforced.
func (s *BucketSettings) CheckOwnerEnforced() error {
	if s.PublicRead {
		return ErrPublicRead
	}
	return nil
}

// CheckPolicy returns ErrPublicPolicy if the bucket cannot get a public policy.
func (s *BucketSettings) CheckPolicy(isPublic bool) error {
	if isPublic && s.PublicAccessBlock.BlockPolicy {
		return ErrPublicPolicy
	}
	return nil
}

// Check returns ErrAccessBlock for flags without Configured, which every change sets.
func (b PublicAccessBlock) Check() error {
	if !b.Configured && b != (PublicAccessBlock{}) {
		return ErrAccessBlock
	}
	return nil
}

// Check returns ErrVersioning for an unknown state.
func (v Versioning) Check() error {
	if v < VersioningOff || v > VersioningSuspended {
		return ErrVersioning
	}
	return nil
}
