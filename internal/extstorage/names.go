package extstorage

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// TenantID is the ID of a tenant: a UUID in lower case, as databases return it.
type TenantID string

// InstallID is the ID of an install, in the same form.
type InstallID string

// ParseTenantID parses a UUID of 36 characters in either case. The nil UUID is
// rejected.
func ParseTenantID(s string) (TenantID, error) {
	id, err := parseUUID(s)
	return TenantID(id), err
}

// ParseInstallID parses an InstallID like ParseTenantID.
func ParseInstallID(s string) (InstallID, error) {
	id, err := parseUUID(s)
	return InstallID(id), err
}

var errUUID = refuse("must be a UUID of 36 characters with hyphens, and not all zeros")

func parseUUID(s string) (string, error) {
	id, ok := ident.ParseUUID(s)
	if !ok {
		return "", errUUID
	}
	return id, nil
}

// Owner identifies the records of a request. The tenant comes from the verified token
// and never from the path: it determines the shard.
type Owner struct {
	Tenant  TenantID
	Install InstallID
}

// Check rejects an incomplete owner: with the zero owner, strangers would share
// records.
func (o Owner) Check() error {
	if o.Tenant == "" || o.Install == "" {
		return errcode.New(errcode.Denied, "no tenant or install is set")
	}
	return nil
}

// Compare orders owners by tenant and install, as every engine does.
func (o Owner) Compare(p Owner) int {
	return cmp.Or(cmp.Compare(o.Tenant, p.Tenant), cmp.Compare(o.Install, p.Install))
}

// Namespace is a part of an install: 1 to 64 of [a-z0-9-], the first not "-".
type Namespace string

// MaxNamespace is the length of a namespace's name in characters.
const MaxNamespace = 64

// ParseNamespace parses the name of a namespace. The error is a *ValidationError.
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

var errNamespace = refuse("must be 1 to 64 characters of a-z, 0-9 and -, and must not start with -")

// Key names a record in its namespace: 1 to 128 characters of UTF-8 without "/"
// and without control characters (U+0000 to U+001F, U+007F to U+009F). Keys are
// compared and ordered by their bytes, without case folding or Unicode
// normalization. "." and ".." are valid keys.
type Key string

// MaxKey is the maximum length of a key in characters, which have up to four bytes
// each.
const MaxKey = 128

// ParseKey parses a key. The error is a *ValidationError.
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

// Revision is the number of a write to a record, from 1; 0 means that there is no
// record. It starts again at 1 after the record was deleted or has expired.
type Revision int64

// Seq is the number of a change of an install, from 1, over all its keys; 0 means
// none. The Seq of a record is that of the change that wrote it.
type Seq int64

// SchemaVersion is the number of a schema in its namespace, from 1; 0 means none.
type SchemaVersion int32
