package buckets

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"unicode/utf8"

	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// AccountID identifies a bucket owner by a lower-case UUID.
type AccountID string

// BucketID identifies an incarnation of a bucket.
type BucketID string

// ObjectID identifies an object version and its body.
type ObjectID string

// UploadID identifies a multipart upload. Later uploads have greater IDs.
type UploadID string

// NewUUID returns a version 4 UUID.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	return formatUUID(b)
}

// NewUploadID returns a version 7 UUID, which begins with the time.
func NewUploadID(now Moment) UploadID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.Time().UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	return UploadID(formatUUID(b))
}

// formatUUID sets the variant (RFC 9562, 4.1); the caller has set the version.
func formatUUID(b [16]byte) string {
	b[8] = b[8]&0x3f | 0x80
	s := make([]byte, 0, 36)
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			s = append(s, '-')
		}
		s = hex.AppendEncode(s, []byte{c})
	}
	return string(s)
}

// ParseUUID returns a UUID in lower case. It rejects the nil UUID.
func ParseUUID(s string) (string, error) {
	id, ok := ident.ParseUUID(s)
	if !ok {
		return "", errUUID
	}
	return id, nil
}

var errUUID = errcode.New(errcode.Invalid, "must be a UUID with 36 characters including hyphens, and not all zeros")

// Check returns ErrNoAccountID unless id is a UUID in lower case. Every store method calls it first, so that a missing owner never selects everybody's
// rows.
func (id AccountID) Check() error {
	if s, err := ParseUUID(string(id)); err != nil || s != string(id) {
		return ErrNoAccountID
	}
	return nil
}

var ErrNoAccountID = errcode.New(errcode.Denied, "the account is missing")

// Name lengths in bytes.
const (
	minBucketName = 3 // S3's limits
	maxBucketName = 63
	MaxObjectName = 1024 // S3's limit
)

// CheckBucketName accepts host names of 3 to 63 characters, but not IPv4 addresses.
func CheckBucketName(s string) error {
	if len(s) < minBucketName || len(s) > maxBucketName {
		return ErrBucketName
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return ErrBucketName
		}
		for i := range len(label) {
			switch c := label[i]; {
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
			default:
				return ErrBucketName
			}
		}
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Is4() || looksLikeIPv4(s) {
		return ErrBucketName
	}
	return nil
}

// looksLikeIPv4 reports whether a name looks like an IPv4 address, even an invalid one such as 999.1.1.1.
func looksLikeIPv4(s string) bool {
	groups := 0
	for g := range strings.SplitSeq(s, ".") {
		if len(g) > 3 || strings.Trim(g, "0123456789") != "" {
			return false
		}
		groups++
	}
	return groups == 4
}

var ErrBucketName = errcode.New(errcode.Invalid, `a bucket name is 3 to 63 characters from a-z, 0-9, "-" and ".", starts and ends each label with a letter or digit, and is not an IP address`)

// CheckObjectName rejects names that are empty, too long, not UTF-8, or contain U+0000, which PostgreSQL cannot
// store.
func CheckObjectName(s string) error {
	switch {
	case s == "":
		return ErrObjectNameEmpty
	case len(s) > MaxObjectName:
		return ErrObjectNameTooLong
	case !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0:
		return ErrObjectName
	}
	return nil
}

var (
	ErrObjectNameEmpty   = errcode.New(errcode.Invalid, "the object name is empty")
	ErrObjectNameTooLong = errcode.New(errcode.TooLarge, "the object name is longer than 1,024 bytes")
	ErrObjectName        = errcode.New(errcode.Invalid, "the object name is not UTF-8 or contains the character U+0000")
)

// CheckAccountName accepts host name labels of at most 63 characters.
func CheckAccountName(s string) error {
	if s == "" || len(s) > maxBucketName || s[0] == '-' || s[len(s)-1] == '-' {
		return ErrAccountName
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
		default:
			return ErrAccountName
		}
	}
	return nil
}

var ErrAccountName = errcode.New(errcode.Invalid, `an account name is 1 to 63 characters from a-z, 0-9 and "-", and does not start or end with "-"`)
