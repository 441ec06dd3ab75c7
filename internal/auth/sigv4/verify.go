package sigv4

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"holdfast/internal/clock"
)

// MaxSkew is the maximum clock difference.
const MaxSkew = 15 * time.Minute

// Lookup returns an access key's secret, or false if the key does not exist. Verify returns its error unchanged.
type Lookup func(ctx context.Context, accessKeyID string) (secret string, ok bool, err error)

// Verifier verifies signatures for one region. It is safe for concurrent use.
type Verifier struct {
	// Version2 accepts Signature Version 2 in links and forms. Set it before the first use.
	Version2 bool

	region string
	now    clock.Clock

	mu   sync.Mutex
	keys map[derived][32]byte // signing keys by their inputs
}

type derived struct{ secret, date, region string }

// cachedKeys limits the cached signing keys. Deriving a key takes longer than the rest of the verification.
const cachedKeys = 1000

// New returns a Verifier for a region. "" means any region.
func New(region string, now clock.Clock) *Verifier {
	return &Verifier{region: region, now: now, keys: map[derived][32]byte{}}
}

// Signed is a request with a valid signature.
type Signed struct {
	AccessKeyID string
	Region      string
	Time        time.Time // client clock; zero with Version2
	Presigned   bool
	Version2    bool // signed with Signature Version 2

	// Payload is x-amz-content-sha256 as signed: the SHA-256 of the body, UNSIGNED-PAYLOAD, or a STREAMING- mode.
	Payload string

	request Request
	payload payload
	key     [32]byte
	claim   claim
}

// Verify verifies the signature in the Authorization header or a presigned query, but does not read the body. If the
// request is invalid, it returns an *Error.
func (v *Verifier) Verify(ctx context.Context, r Request, lookup Lookup) (*Signed, error) {
	path, params, c, err := r.parse()
	if err != nil {
		return nil, err
	}
	if c.version2 {
		return v.verifyVersion2(ctx, r, params, c.keyID, lookup)
	}
	if err := v.checkScope(c); err != nil {
		return nil, err
	}
	if err := v.checkTime(c); err != nil {
		return nil, err
	}
	if err := r.checkSigned(c); err != nil {
		return nil, err
	}
	payload, err := parseSignedPayload(c.payload, c.presigned)
	if err != nil {
		return nil, err
	}
	paths, err := canonicalPaths(path)
	if err != nil {
		return nil, err
	}
	headers, err := r.canonicalHeaders(c)
	if err != nil {
		return nil, err
	}
	key, err := v.findKey(ctx, c.credential, lookup)
	if err != nil {
		return nil, err
	}
	rest := "\n" + canonicalQuery(params, c.presigned) + "\n" + headers + "\n" + c.list + "\n" + c.payload
	if err := verifyAny(key, c, r.Method, paths, rest); err != nil {
		return nil, err
	}
	return &Signed{
		AccessKeyID: c.keyID, Region: c.region, Time: c.time, Presigned: c.presigned, Payload: c.payload,
		request: r, payload: payload, key: key, claim: c,
	}, nil
}

// parse reads the request's credentials, and its path and query.
func (r Request) parse() (path string, params []parameter, c claim, err error) {
	if len(r.Target) > maxTarget {
		return "", nil, c, refuse(MalformedURI, "the request target is longer than %d bytes", maxTarget)
	}
	path, query, _ := strings.Cut(r.Target, "?")
	if !strings.HasPrefix(path, "/") {
		return "", nil, c, refuse(MalformedURI, "the request target must begin with a slash")
	}
	if params, err = parseQuery(query); err != nil {
		return "", nil, c, err
	}
	inHeader, inQuery, inVersion2 := len(r.Header["Authorization"]) > 0, isPresigned(query), isVersion2(query)
	switch {
	case inHeader && (inQuery || inVersion2):
		return "", nil, c, refuse(SeveralCredentials, "the request has credentials in the Authorization header and in the query: use one of them")
	case inQuery && inVersion2:
		return "", nil, c, refuse(SeveralCredentials, "the query has credentials of two signature versions: use one of them")
	case !inHeader && !inQuery && !inVersion2:
		return "", nil, c, refuse(NoCredentials, "the request is not signed")
	case len(r.Header["X-Amz-Security-Token"]) > 0:
		return "", nil, c, errSessionToken()
	case inHeader:
		c, err = r.parseHeader()
	case inVersion2:
		c.version2 = true
		c.keyID, err = keyOfVersion2(params)
	default:
		c, err = r.parsePresigned(params)
	}
	return path, params, c, err
}

// checkScope refuses another region.
func (v *Verifier) checkScope(c claim) error {
	if v.region == "" || c.region == v.region {
		return nil
	}
	kind := MalformedHeader
	if c.presigned {
		kind = MalformedQuery
	}
	return &Error{Kind: kind, Message: "the region of the credential is wrong: expected " + v.region, Region: v.region}
}

// checkTime refuses a wrong clock and an expired URL.
func (v *Verifier) checkTime(c claim) error {
	now := v.now().UTC()
	switch ahead := c.time.Sub(now); {
	case c.presigned && ahead > MaxSkew:
		return &Error{Kind: NotYetValid, Message: "the presigned URL is not valid yet", Cause: errors.New(clock.Offset(ahead)), RequestTime: c.time, ServerTime: now}
	case c.presigned && -ahead > c.expires:
		return &Error{Kind: Expired, Message: "the presigned URL has expired", Cause: expiredAt(c.time.Add(c.expires)), Expires: c.time.Add(c.expires), Lifetime: c.expires, ServerTime: now}
	case !c.presigned && ahead.Abs() > MaxSkew:
		return &Error{
			Kind: TimeTooSkewed, Message: "the request's time differs by more than 15 minutes from the server's: set both clocks",
			Cause: errors.New(clock.Offset(ahead)), RequestTime: c.time, ServerTime: now,
		}
	}
	return nil
}

// expiredAt is the cause of Expired, for the log.
func expiredAt(at time.Time) error {
	return fmt.Errorf("it was valid until %s", at.UTC().Format(time.RFC3339))
}

// findKey returns the signing key.
func (v *Verifier) findKey(ctx context.Context, c credential, lookup Lookup) (key [32]byte, err error) {
	secret, err := findSecret(ctx, c.keyID, lookup)
	if err != nil {
		return key, err
	}
	from := derived{secret, c.date, c.region}
	v.mu.Lock()
	defer v.mu.Unlock()
	key, ok := v.keys[from]
	if !ok {
		if len(v.keys) == cachedKeys {
			clear(v.keys)
		}
		key = signingKey(secret, c)
		v.keys[from] = key
	}
	return key, nil
}

// findSecret returns the access key's secret.
func findSecret(ctx context.Context, keyID string, lookup Lookup) (string, error) {
	secret, ok, err := lookup(ctx, keyID)
	if err != nil {
		return "", err
	}
	// With an empty secret, anybody could sign.
	if !ok || secret == "" {
		return "", &Error{Kind: UnknownKey, Message: "the access key does not exist or is revoked", AccessKeyID: keyID}
	}
	return secret, nil
}

// verifyAny accepts a signature over any form of the path. If none matches, the error describes the first form.
func verifyAny(key [32]byte, c claim, method string, paths []string, rest string) error {
	var mismatch *Error
	for _, path := range paths {
		canonical := method + "\n" + path + rest
		text := stringToSign(c.stamp, c.scope(), canonical)
		if sum := mac(key[:], text); hmac.Equal(sum[:], c.signature[:]) {
			return nil
		}
		if mismatch == nil {
			mismatch = mismatched(c, text)
			mismatch.CanonicalRequest = canonical
		}
	}
	return mismatch
}

func mismatched(c claim, text string) *Error {
	return &Error{
		Kind: Mismatch, Message: "the signature does not match: check the secret key and the signing method",
		AccessKeyID: c.keyID, Signature: c.provided, StringToSign: text,
	}
}

// chain verifies the signatures of a body's chunks and trailer. Each signature also covers the previous signature. The
// first is the request's.
type chain struct {
	claim    claim
	key      [32]byte
	previous string // hexadecimal
}

// verify verifies the next signature, over hashes of the data.
func (c *chain) verify(label, hashes, provided string) error {
	want, ok := parseSignature(provided)
	text := label + "\n" + c.claim.stamp + "\n" + c.claim.scope() + "\n" + c.previous + "\n" + hashes
	sum := mac(c.key[:], text)
	if !ok || !hmac.Equal(sum[:], want[:]) {
		e := mismatched(c.claim, text)
		e.Message = "the signature of a body chunk or trailer does not match"
		e.Signature = provided
		return e
	}
	c.previous = hex.EncodeToString(sum[:])
	return nil
}
