package buckets

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// Right is an access that a key may be limited to.
type Right string

const (
	RightRead   Right = "read"   // bodies, metadata and tags
	RightWrite  Right = "write"  // objects, tags and multipart uploads, including overwriting
	RightDelete Right = "delete" // objects and versions, without the bypass
	RightList   Right = "list"   // objects and uploads
	RightManage Right = "manage" // create, delete and configure buckets, but not who has access
	RightPolicy Right = "policy" // who has access: policy, ACL, public access block, ownership. It can grant everything
	RightBypass Right = "bypass" // delete or unlock versions in governance mode
)

// Rights lists all rights in the order in which commands print them.
var Rights = []Right{RightRead, RightWrite, RightDelete, RightList, RightManage, RightPolicy, RightBypass}

// KeyLimits restricts an access key. The zero value is unlimited.
type KeyLimits struct {
	Buckets  []string       `json:"buckets,omitempty"`  // names, or prefixes ending in *
	Prefix   string         `json:"prefix,omitempty"`   // object name prefix; "" for all
	Rights   []Right        `json:"rights,omitempty"`   // empty for all
	Networks []netip.Prefix `json:"networks,omitempty"` // client addresses; empty for all

	// Version2 accepts Signature Version 2 in links and forms although the key is limited. It is not a limit.
	Version2 bool `json:"version2,omitempty"`
}

// MaxKeyLimits is the maximum JSON size in bytes.
const MaxKeyLimits = 4096

// IsZero reports whether the key is unlimited.
func (l *KeyLimits) IsZero() bool {
	return len(l.Buckets) == 0 && l.Prefix == "" && len(l.Rights) == 0 && len(l.Networks) == 0
}

// Check returns errcode.Invalid, or an error about a name, for limits that mean nothing or are too large.
func (l *KeyLimits) Check() error {
	for _, b := range l.Buckets {
		name, isPrefix := strings.CutSuffix(b, "*")
		switch {
		case isPrefix && !isBucketPrefix(name):
			return errcode.New(errcode.Invalid, "a bucket name pattern is not valid: expected a name prefix, then *")
		case !isPrefix && CheckBucketName(b) != nil:
			return ErrBucketName
		}
	}
	if l.Prefix != "" {
		if err := CheckObjectName(l.Prefix); err != nil {
			return err
		}
	}
	for _, r := range l.Rights {
		if !slices.Contains(Rights, r) {
			return errcode.New(errcode.Invalid, "a right is not valid: expected read, write, delete, list, manage, policy or bypass")
		}
	}
	if l.Prefix != "" && (slices.Contains(l.Rights, RightManage) || slices.Contains(l.Rights, RightPolicy)) {
		return errcode.New(errcode.Invalid, "a key with an object prefix cannot manage buckets or their policies: remove the rights manage and policy, or the prefix")
	}
	for _, n := range l.Networks {
		if !n.IsValid() {
			return errcode.New(errcode.Invalid, "a network is not valid: expected an address with a prefix length, e.g. 10.0.0.0/8")
		}
	}
	if len(l.Text()) > MaxKeyLimits {
		return errcode.Newf(errcode.Invalid, "the limits are larger than %d bytes", MaxKeyLimits)
	}
	return nil
}

// Words describes the limits in the log, e.g. "the buckets photos, the rights read, list". An object prefix and networks may
// be private, so it only mentions them.
func (l *KeyLimits) Words() string {
	var all []string
	if len(l.Buckets) > 0 {
		all = append(all, "the buckets "+strings.Join(l.Buckets, ", "))
	}
	if l.Prefix != "" {
		all = append(all, "an object prefix")
	}
	if len(l.Rights) > 0 {
		rights := make([]string, len(l.Rights))
		for i, r := range l.Rights {
			rights[i] = string(r)
		}
		all = append(all, "the rights "+strings.Join(rights, ", "))
	}
	if len(l.Networks) > 0 {
		all = append(all, "some networks")
	}
	return strings.Join(all, "; ")
}

// Text returns the limits as JSON, as the database stores and compares them.
func (l *KeyLimits) Text() string {
	b, _ := json.Marshal(l) // cannot fail
	return string(b)
}

// ParseKeyLimits parses the result of Text. Limits that this release does not know allow nothing.
func ParseKeyLimits(text string) (l KeyLimits) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&l) != nil {
		return KeyLimits{Buckets: []string{""}} // matches no bucket
	}
	return l
}

// isBucketPrefix reports whether a bucket name can begin with s. "" begins all names.
func isBucketPrefix(s string) bool {
	return len(s) < maxBucketName && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}) < 0
}

// AllowVersion2 reports whether the key may sign links and forms with Signature Version 2.
func (l *KeyLimits) AllowVersion2() bool { return l.Version2 || l.IsZero() }

// AllowNetwork rejects an unknown address if Networks is set.
func (l *KeyLimits) AllowNetwork(ip netip.Addr) bool {
	return len(l.Networks) == 0 || slices.ContainsFunc(l.Networks, func(n netip.Prefix) bool { return n.Contains(ip.Unmap()) })
}

// AllowBucket reports whether the key may use a bucket with this name in some way.
func (l *KeyLimits) AllowBucket(bucket string) bool {
	return len(l.Buckets) == 0 || slices.ContainsFunc(l.Buckets, func(b string) bool {
		prefix, isPrefix := strings.CutSuffix(b, "*")
		return b == bucket || isPrefix && strings.HasPrefix(bucket, prefix)
	})
}

// Allow reports whether the key has a right to all objects with a name prefix.
func (l *KeyLimits) Allow(right Right, bucket, name string) bool {
	if !l.AllowBucket(bucket) || !strings.HasPrefix(name, l.Prefix) {
		return false
	}
	return len(l.Rights) == 0 || slices.Contains(l.Rights, right)
}

// BucketPrefix returns the common prefix of the allowed buckets.
func (l *KeyLimits) BucketPrefix() string {
	if len(l.Buckets) == 0 {
		return ""
	}
	common := strings.TrimSuffix(l.Buckets[0], "*")
	for _, b := range l.Buckets[1:] {
		for !strings.HasPrefix(b, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}
