package extstorage

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// TenantID is a lower-case UUID, as databases return it.
type TenantID string

// InstallID is a lower-case UUID.
type InstallID string

// ParseTenantID parses a 36-character UUID in either case, except the nil UUID.
func ParseTenantID(s string) (TenantID, error) {
	id, err := parseUUID(s)
	return TenantID(id), err
}

// ParseInstallID is like ParseTenantID, but for install IDs.
func ParseInstallID(s string) (InstallID, error) {
	id, err := parseUUID(s)
	return InstallID(id), err
}

var errUUID = refuse("must be a UUID with 36 characters including hyphens, and not all zeros")

// parseUUID returns the lower-case form.
func parseUUID(s string) (string, error) {
	id, ok := ident.ParseUUID(s)
	if !ok {
		return "", errUUID
	}
	return id, nil
}

// Owner identifies an install. The tenant, which determines the shard, comes from the verified token, never from the
// path.
type Owner struct {
	Tenant  TenantID
	Install InstallID
}

// Check returns an error for an incomplete owner, with which strangers would share records.
func (o Owner) Check() error {
	if o.Tenant == "" || o.Install == "" {
		return errcode.New(errcode.Denied, "no tenant or install is set")
	}
	return nil
}

// Compare orders owners by tenant and install, like every engine.
func (o Owner) Compare(p Owner) int {
	return cmp.Or(cmp.Compare(o.Tenant, p.Tenant), cmp.Compare(o.Install, p.Install))
}

// Namespace is 1 to 64 characters from [a-z0-9-], not starting with "-".
type Namespace string

const MaxNamespace = 64 // characters

// ParseNamespace returns a *ValidationError for an invalid name.
func ParseNamespace(s string) (Namespace, error) {
	if s == "" || len(s) > MaxNamespace || s[0] == '-' {
		return "", errNamespace
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
		default:
			return "", errNamespace
		}
	}
	return Namespace(s), nil
}

var errNamespace = refuse("must be 1 to 64 characters from a-z, 0-9 and -, and must not start with -")

// Key is 1 to 128 characters without "/" and control characters (U+0000 to U+001F, U+007F to U+009F), compared by
// bytes. "." and ".." are valid.
type Key string

// MaxKey is the maximum key length in characters of up to four bytes each.
const MaxKey = 128

// ParseKey returns a *ValidationError for an invalid key.
func ParseKey(s string) (Key, error) {
	switch {
	case s == "" || len(s) > MaxKey*utf8.UTFMax || utf8.RuneCountInString(s) > MaxKey:
		return "", refuse("must be 1 to 128 characters")
	case !utf8.ValidString(s):
		return "", refuse("must be valid UTF-8")
	case strings.ContainsRune(s, '/') || strings.ContainsFunc(s, unicode.IsControl):
		return "", refuse("must not contain / or control characters")
	}
	return Key(s), nil
}

// Revision counts a record's writes from 1; 0 means that there is no record. It restarts after a delete or expiry. A
// restore of the database makes it skip numbers.
type Revision int64

// Seq numbers an install's changes from 1, across keys; 0 means no change.
type Seq int64

// SchemaVersion numbers a namespace's schemas from 1; 0 means no schema.
type SchemaVersion int32

// MaxSchemaVersion is the greatest version. An import may contain it.
const MaxSchemaVersion = 1<<31 - 1
