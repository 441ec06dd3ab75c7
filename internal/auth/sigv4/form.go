package sigv4

import (
	"context"
	"crypto/hmac"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxPolicy limits a base64 policy document. S3 allows 20 KB for a whole form.
const maxPolicy = 20 << 10

// Form is a form upload with a valid signature. The caller must still check its fields with Policy.
type Form struct {
	AccessKeyID string
	Region      string
	Time        time.Time // client clock; zero with Version2
	Policy      Policy
	Version2    bool // signed with Signature Version 2
}

// VerifyForm verifies a form upload's signature and expiration. fields, with lower-case names, precede the file. The
// signature covers only the policy document, which limits the other fields: see Policy.Check.
func (v *Verifier) VerifyForm(ctx context.Context, fields map[string]string, lookup Lookup) (*Form, error) {
	if _, old := fields[version2Fields[0]]; old {
		return v.verifyFormVersion2(ctx, fields, lookup)
	}
	c, err := parseForm(fields)
	if err != nil {
		return nil, err
	}
	if err := v.checkScope(c); err != nil {
		return nil, err
	}
	key, err := v.findKey(ctx, c.credential, lookup)
	if err != nil {
		return nil, err
	}
	if sum := mac(key[:], fields["policy"]); !hmac.Equal(sum[:], c.signature[:]) {
		return nil, mismatched(c, fields["policy"])
	}
	policy, err := v.currentPolicy(fields["policy"])
	if err != nil {
		return nil, err
	}
	return &Form{AccessKeyID: c.keyID, Region: c.region, Time: c.time, Policy: policy}, nil
}

// currentPolicy parses an unexpired policy document.
func (v *Verifier) currentPolicy(text string) (Policy, error) {
	p, err := ParsePolicy(text)
	if err != nil {
		return p, err
	}
	if now := v.now().UTC(); now.After(p.Expiration) {
		return p, &Error{Kind: PolicyExpired, Message: "the policy of the form has expired", Expires: p.Expiration, ServerTime: now}
	}
	return p, nil
}

// parseForm reads the fields with credentials.
func parseForm(fields map[string]string) (c claim, err error) {
	_, token := fields["x-amz-security-token"]
	switch policy := fields["policy"]; {
	case token:
		return c, errSessionToken()
	case policy == "" && fields["x-amz-signature"] == "":
		return c, refuse(NoCredentials, "the form is not signed")
	case policy == "":
		return c, refuse(InvalidPolicy, "the form must have the field policy")
	case len(policy) > maxPolicy:
		return c, refuse(InvalidPolicy, "the policy of the form is longer than %d bytes", maxPolicy)
	case fields["x-amz-algorithm"] != algorithm:
		return c, refuse(Unsupported, "the form must have the field x-amz-algorithm with the value %s", algorithm)
	}
	var problem string
	var ok bool
	if c.credential, problem = parseCredential(fields["x-amz-credential"]); problem != "" {
		return c, refuse(MalformedHeader, "x-amz-credential: %s", problem)
	}
	c.provided = fields["x-amz-signature"]
	if c.signature, ok = parseSignature(c.provided); !ok {
		return c, refuse(MalformedHeader, "x-amz-signature must be 64 lower-case hexadecimal digits")
	}
	c.stamp = fields["x-amz-date"]
	if c.time, ok = parseStamp(c.stamp); !ok {
		return c, refuse(MissingDate, "the form must have the field x-amz-date with a time such as 20130524T000000Z")
	}
	if c.stamp[:len(dateFormat)] != c.date {
		return c, refuse(MalformedHeader, "the dates in x-amz-credential and x-amz-date must be equal")
	}
	return c, nil
}

// Check checks form fields against the policy. Names are lower-case, ${filename} is already replaced, and "bucket"
// comes from the address. Pass MinSize and MaxSize to NewFormBody to check the file's size.
func (p Policy) Check(fields map[string]string) error {
	covered := map[string]bool{"policy": true, "file": true}
	for _, name := range p.signature {
		covered[name] = true
	}
	for _, c := range p.conditions {
		if !c.holds(fields[c.field]) {
			return &Error{Kind: PolicyConditionFailed, Message: "a policy condition does not hold for a form field", Field: c.field}
		}
		covered[c.field] = true
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !covered[name] && !strings.HasPrefix(name, "x-ignore-") {
			return &Error{Kind: PolicyConditionMissing, Message: "the policy has no condition for a field of the form", Field: name}
		}
	}
	return nil
}

// Policy is a form's policy document: when it expires, and conditions for the form's fields.
type Policy struct {
	Expiration time.Time
	// MinSize and MaxSize are from content-length-range. The default of MaxSize is math.MaxInt64.
	MinSize, MaxSize int64

	conditions []condition
	signature  []string // fields that sign the policy, which need no condition; version4Fields after ParsePolicy
}

type condition struct {
	field  string
	prefix bool // starts-with, otherwise eq
	value  string
}

// holds reports whether a value satisfies the condition. It applies starts-with to each element of a Content-Type list.
func (c condition) holds(value string) bool {
	switch {
	case !c.prefix:
		return value == c.value
	case c.field == "content-type":
		for part := range strings.SplitSeq(value, ",") {
			if !strings.HasPrefix(strings.TrimLeft(part, " "), c.value) {
				return false
			}
		}
		return true
	}
	return strings.HasPrefix(value, c.value)
}
