package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// Values are a request's condition values. A listener fills them from the connection and from the operation that it
// parsed, never from headers. Otherwise a header that the operation ignores, or reads differently, would let a client
// choose the decision.
type Values struct {
	Client    Client
	Signature Signature
	Owner     buckets.AccountID // of the bucket
	Now       time.Time
	Operation Operation
}

// Client describes who sends a request. UserAgent and Referer are as sent, because they have no effect.
type Client struct {
	IP         netip.Addr // zero if unknown
	Secure     bool       // the client uses HTTPS, maybe to a proxy
	TLSVersion string     // e.g. 1.3; "" if a proxy terminates TLS
	UserAgent  []string
	Referer    []string
}

// Signature is a verified signature. All fields are empty for an anonymous client.
type Signature struct {
	Type    string    // REST-HEADER, REST-QUERY-STRING or POST; "" for another kind of credentials
	Version string    // AWS4-HMAC-SHA256, SignatureVersion2 or ""
	Time    time.Time // when the client signed; zero if unknown
	Payload string    // how the signature covers the body, as in x-amz-content-sha256
}

// SignatureVersion2 is s3:signatureversion for Signature Version 2.
const SignatureVersion2 = "AWS"

// errAge denies. Without a value, a statement that denies old signatures would ignore signatures with an unknown age.
var errAge = errcode.New(errcode.Denied, "the bucket policy depends on the age of the signature, which is unknown with Signature Version 2: sign with version 4")

// Operation is a parsed operation. Fields that an operation does not have are zero, and their keys are absent.
type Operation struct {
	// Keys are the condition keys that the operation applies. All others are absent, whatever the client sent. Keys that
	// describe the client, the signature, the account or the time belong to every operation and are not listed.
	Keys []Key

	Version buckets.VersionID // named by the request; "" for the current version

	// Prefix, Delimiter and MaxKeys are the parameters of a listing.
	Prefix, Delimiter optional.Of[string]
	MaxKeys           optional.Of[int]

	Condition buckets.Condition // which the store checks
	Creates   bool              // makes an object, unlike a new upload or a part
	ACL       string            // the canned ACL; "" if the request has none
	Class     string            // storage class
	Redirect  string            // x-amz-website-redirect-location that is stored
	Directive string            // the metadata directive of a copy
	Source    string            // the source of a copy: BUCKET/KEY in the bucket owner's account, else ACCOUNT:BUCKET/KEY
	Lock      buckets.Lock      // which the request sets

	// Tags returns the tags that the operation stores. ObjectTags returns the current tags of the object, or nil if it does
	// not exist. Both are called only if a statement depends on them.
	Tags, ObjectTags func() (map[string]string, error)
}

// Keys that describe the client, the signature, the account or the time.
var common = []Key{
	SourceIP, SecureTransport, CurrentTime, EpochTime, UserAgent, Referer, PrincipalAccount, PrincipalArn, PrincipalType, ResourceAccount,
	S3ResourceAccount, AuthType, SignatureVersion, SignatureAge, TLSVersion, ContentSHA256,
}

// IsCommon reports whether a key belongs to every operation.
func IsCommon(k Key) bool { return slices.Contains(common, k) }

// Value implements Context.
func (v *Values) Value(k Key, name string) ([]string, error) {
	switch {
	case k == SignatureAge && v.Signature.Version == SignatureVersion2:
		return nil, errAge
	case IsCommon(k):
		return v.common(k), nil
	case !slices.Contains(v.Operation.Keys, k):
		return nil, nil
	}
	switch k {
	case ExistingObjectTag:
		return tagged(v.Operation.ObjectTags, name)
	case RequestObjectTag:
		return tagged(v.Operation.Tags, name)
	case RequestTagKeys:
		tags, err := load(v.Operation.Tags)
		return slices.Sorted(maps.Keys(tags)), err
	}
	if text := v.Operation.text(k, v.Now); text.Set {
		return []string{text.Value}, nil
	}
	return nil, nil
}

// common returns a value that every operation has.
func (v *Values) common(k Key) []string {
	switch k {
	case SourceIP:
		if v.Client.IP.IsValid() {
			return []string{v.Client.IP.String()}
		}
	case SecureTransport:
		return []string{strconv.FormatBool(v.Client.Secure)}
	case CurrentTime, EpochTime:
		return []string{strconv.FormatInt(v.Now.Unix(), 10)}
	case UserAgent:
		return v.Client.UserAgent
	case Referer:
		return v.Client.Referer
	case ResourceAccount, S3ResourceAccount:
		return []string{string(v.Owner)}
	case TLSVersion:
		return unlessEmpty(v.Client.TLSVersion)
	case AuthType:
		return unlessEmpty(v.Signature.Type)
	case SignatureVersion:
		return unlessEmpty(v.Signature.Version)
	case ContentSHA256:
		return unlessEmpty(v.Signature.Payload)
	case SignatureAge:
		if at := v.Signature.Time; !at.IsZero() {
			return []string{strconv.FormatInt(max(0, v.Now.Sub(at).Milliseconds()), 10)}
		}
	}
	return nil
}

// text returns the single value of a key; not set if the operation does not have it.
func (o *Operation) text(k Key, now time.Time) optional.Of[string] {
	text := ""
	switch k {
	case VersionID:
		text = string(o.Version)
	case Prefix:
		return o.Prefix
	case Delimiter:
		return o.Delimiter
	case MaxKeys:
		return optional.Of[string]{Value: strconv.Itoa(o.MaxKeys.Value), Set: o.MaxKeys.Set}
	case IfMatch:
		if o.Condition.Match.IsSet() {
			text = o.Condition.Match.String()
		}
	case IfNoneMatch:
		// S3 has only * here. The native API also accepts entity tags, but these let a client overwrite an object.
		if o.Condition.NoneMatch.Any {
			text = "*"
		}
	case ObjectCreation:
		text = strconv.FormatBool(o.Creates)
	case ACL:
		text = o.ACL
	case StorageClass:
		text = o.Class
	case Redirect:
		text = o.Redirect
	case MetadataDirective:
		text = o.Directive
	case CopySource:
		text = o.Source
	case LockMode:
		text = string(o.Lock.Mode)
	case LockHold:
		text = string(o.Lock.Hold)
	case LockUntil, LockDays:
		text = lockTime(k, o.Lock.Until, now)
	}
	return optional.Of[string]{Value: text, Set: text != ""}
}

// lockTime returns the retention's end in Unix seconds, or the remaining whole days.
func lockTime(k Key, until buckets.Moment, now time.Time) string {
	switch {
	case until == 0:
		return ""
	case k == LockUntil:
		return strconv.FormatInt(until.Seconds(), 10)
	}
	return strconv.FormatInt(int64(until.Time().Sub(now)/(24*time.Hour)), 10)
}

// tagged returns the value of a tag.
func tagged(tags func() (map[string]string, error), name string) ([]string, error) {
	all, err := load(tags)
	if v, ok := all[name]; ok && err == nil {
		return []string{v}, nil
	}
	return nil, err
}

// load loads tags, none if the operation has no such tags.
func load(tags func() (map[string]string, error)) (map[string]string, error) {
	if tags == nil {
		return nil, nil //nolint:nilnil // the operation has no tags
	}
	return tags()
}

// unlessEmpty returns no value for "".
func unlessEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
