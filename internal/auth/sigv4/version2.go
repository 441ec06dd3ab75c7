package sigv4

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the protocol's
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The fields that sign a form. Names are in lower case.
var (
	version2Fields = []string{"awsaccesskeyid", "signature"}
	version4Fields = []string{"x-amz-signature"}
)

// version2Parameters are the parameters that a link may contain, because its string to sign contains them. Version 2 signs
// more, e.g. acl and uploads: such links are refused, as only the main operations need links.
var version2Parameters = []string{
	"response-cache-control", "response-content-disposition", "response-content-encoding", "response-content-language",
	"response-content-type", "response-expires", "versionId",
}

// version2 is a parsed link.
type version2 struct {
	expires, signature string            // as sent
	signed             map[string]string // version2Parameters in the link, decoded
	headers            map[string]string // x-amz-* headers, in lower case, from the request and from the query
	md5, contentType   string
}

// keyOfVersion2 returns the access key that a link claims.
func keyOfVersion2(params []parameter) (string, error) {
	for _, p := range params {
		if p.name == "AWSAccessKeyId" && isPlain(p.value, maxKeyID) {
			return p.value, nil
		}
	}
	return "", refuse(MalformedQuery, "AWSAccessKeyId is not a valid access key")
}

// verifyVersion2 verifies a link. Its string to sign leaves out the host and most parameters. So verifyVersion2
// refuses these parameters, and the caller must not let the host change the link's meaning, beyond Request.HostBucket.
func (v *Verifier) verifyVersion2(ctx context.Context, r Request, params []parameter, keyID string, lookup Lookup) (*Signed, error) {
	if !v.Version2 {
		return nil, errNoVersion2()
	}
	l, err := r.parseVersion2(params)
	if err != nil {
		return nil, err
	}
	if err := v.checkExpires(l.expires); err != nil {
		return nil, err
	}
	hash := UnsignedPayload
	if sent, ok := l.headers["x-amz-content-sha256"]; ok {
		hash = sent
	}
	payload, err := parseSignedPayload(hash, true)
	if err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(r.Target, "?")
	paths, err := canonicalPaths(path)
	if err != nil {
		return nil, err
	}
	secret, err := findSecret(ctx, keyID, lookup)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(paths))
	for i, p := range paths {
		if r.HostBucket != "" {
			p = "/" + r.HostBucket + p
		}
		texts[i] = l.stringToSign(r.Method, p)
	}
	if err := compareVersion2(secret, keyID, l.signature, texts); err != nil {
		return nil, err
	}
	return &Signed{AccessKeyID: keyID, Region: v.region, Presigned: true, Version2: true, Payload: hash, request: r, payload: payload}, nil
}

func errNoVersion2() error {
	return refuse(Unsupported, "Signature Version 2 is switched off on this server: sign with version 4 (%s)", algorithm)
}

// parseVersion2 returns the link's parameters. Each may occur once. boto3 repeats signed headers in the query.
func (r Request) parseVersion2(params []parameter) (l version2, err error) {
	l.signed, l.headers = map[string]string{}, r.version2Headers()
	var ok1, ok2 bool
	l.md5, _, ok1 = single(r.Header, "Content-MD5")
	l.contentType, _, ok2 = single(r.Header, "Content-Type")
	if !ok1 || !ok2 {
		return l, refuse(MalformedHeader, "the request has more than one Content-MD5 or Content-Type header")
	}
	seen := map[string]bool{}
	for _, p := range params {
		name := p.name
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") {
			name = lower
		}
		if seen[name] || p.value == "" || hasControl(p.value) {
			return l, refuse(MalformedQuery, "each parameter of a link with Signature Version 2 must occur once, and must have a value without control characters")
		}
		seen[name] = true
		if err := l.add(name, p.value); err != nil {
			return l, err
		}
	}
	if l.expires == "" {
		return l, refuse(MalformedQuery, "a link with Signature Version 2 must have the parameters AWSAccessKeyId, Expires and Signature")
	}
	return l, nil
}

// add reads a parameter, and refuses one that the signature does not cover.
func (l *version2) add(name, value string) error {
	signed := false
	switch sent, isSent := l.headers[name]; {
	case name == "AWSAccessKeyId":
		signed = true
	case name == "Expires":
		l.expires, signed = value, true
	case name == "Signature":
		l.signature, signed = value, true
	case name == "x-amz-security-token":
		return errSessionToken()
	case strings.HasPrefix(name, "x-amz-"):
		l.headers[name], signed = value, !isSent || sent == value
	case name == "content-md5":
		signed = value == l.md5
	case name == "content-type":
		signed = value == l.contentType
	case slices.Contains(version2Parameters, name):
		l.signed[name], signed = value, true
	}
	if signed {
		return nil
	}
	return &Error{
		Kind: UnsignedParameter, Headers: []string{name},
		Message: "Signature Version 2 does not cover a parameter of the link, or a header has another value: sign with version 4",
	}
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// version2Headers returns the x-amz-* headers. Unlike version 4, version 2 keeps inner spaces.
func (r Request) version2Headers() map[string]string {
	all := map[string]string{}
	for name, values := range r.Header {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, "x-amz-") {
			continue
		}
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.Trim(v, " \t")
		}
		all[lower] = strings.Join(trimmed, ",")
	}
	return all
}

// checkExpires checks a link's expiry, in Unix seconds. A version 4 link may be made by a clock that is fast by MaxSkew
// and is then valid for seven days, so a version 2 link may end so late.
func (v *Verifier) checkExpires(text string) error {
	seconds, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		return refuse(MalformedQuery, "Expires must be a time in seconds since 1970")
	}
	expires, now := time.Unix(int64(seconds), 0).UTC(), v.now().UTC()
	switch {
	case now.After(expires):
		return &Error{Kind: Expired, Message: "the presigned URL has expired", Cause: expiredAt(expires), Expires: expires, ServerTime: now}
	case expires.Sub(now) > maxExpires*time.Second+MaxSkew:
		return &Error{Kind: ExpiresTooLate, Message: "the presigned URL is valid for longer than 7 days: sign it again", Expires: expires, ServerTime: now}
	}
	return nil
}

// stringToSign is from "Signing and authenticating REST requests (AWS signature version 2)". resource is the path as
// sent, after the host's bucket.
func (l *version2) stringToSign(method, resource string) string {
	var b strings.Builder
	b.WriteString(method + "\n" + l.md5 + "\n" + l.contentType + "\n" + l.expires + "\n")
	for _, name := range slices.Sorted(maps.Keys(l.headers)) {
		b.WriteString(name + ":" + l.headers[name] + "\n")
	}
	b.WriteString(resource)
	separator := "?"
	for _, name := range slices.Sorted(maps.Keys(l.signed)) {
		b.WriteString(separator + name + "=" + l.signed[name])
		separator = "&"
	}
	return b.String()
}

// compareVersion2 accepts a signature over any of the texts. If none matches, the error describes the first.
func compareVersion2(secret, keyID, signature string, texts []string) error {
	provided, err := base64.StdEncoding.DecodeString(signature)
	for _, text := range texts {
		m := hmac.New(sha1.New, []byte(secret))
		m.Write([]byte(text))
		if err == nil && hmac.Equal(m.Sum(nil), provided) {
			return nil
		}
	}
	return mismatched(claim{credential: credential{keyID: keyID}, provided: signature}, texts[0])
}

// verifyFormVersion2 verifies a form's signature. See VerifyForm.
func (v *Verifier) verifyFormVersion2(ctx context.Context, fields map[string]string, lookup Lookup) (*Form, error) {
	id, policy := fields["awsaccesskeyid"], fields["policy"]
	switch {
	case !v.Version2:
		return nil, errNoVersion2()
	case fields["x-amz-signature"] != "" || fields["x-amz-credential"] != "" || fields["x-amz-algorithm"] != "":
		return nil, refuse(SeveralCredentials, "the form has credentials of two signature versions: use one of them")
	case fields["x-amz-security-token"] != "":
		return nil, errSessionToken()
	case !isPlain(id, maxKeyID):
		return nil, refuse(MalformedHeader, "AWSAccessKeyId is not a valid access key")
	}
	secret, err := findSecret(ctx, id, lookup)
	if err != nil {
		return nil, err
	}
	if err := compareVersion2(secret, id, fields["signature"], []string{policy}); err != nil {
		return nil, err
	}
	p, err := v.currentPolicy(policy)
	if err != nil {
		return nil, err
	}
	p.signature = version2Fields
	return &Form{AccessKeyID: id, Region: v.region, Policy: p, Version2: true}, nil
}
