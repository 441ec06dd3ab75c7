package bearer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/errcode"
)

// maxToken is the longest token in bytes.
const maxToken = 8 << 10

// maxVerified limits the cached tokens. Most are below a kilobyte; at maximum length they would take 60 MB.
const maxVerified = 4096

// encoding is strict, so that a token has only one spelling.
var encoding = base64.RawURLEncoding.Strict()

// Options configure a Keyring. Only Keys are required.
type Options struct {
	// Keys verify tokens. The first key also signs, if it can. To rotate it without 401s, add the new key last on
	// every server, then move it first on every server, then remove the old key when its last token has expired.
	Keys []Key

	// If set, Sign sets them and Verify requires them.
	Issuer, Audience string

	// Leeway is the tolerated clock difference in either direction.
	Leeway time.Duration

	// MaxLifetime limits a token's lifetime if it is above 0.
	MaxLifetime time.Duration
}

// Keyring verifies and signs tokens. It is safe for concurrent use.
type Keyring struct {
	keys []key
	opts Options

	// cache holds verified tokens, because a client sends the same token with every request, and verifying its signature
	// costs more than the rest of the authentication.
	cache *lru.Cache[string, verified]
}

// verified is a cache entry. valid checks the times on every use.
type verified struct {
	Claims
	hasFrom, hasIssuedAt bool
}

// Claims are a verified token's claims.
type Claims struct {
	KeyID    string          // of the key that signed
	Issuer   string          // iss
	Subject  string          // sub
	ID       string          // jti
	Audience []string        // aud
	Expires  time.Time       // always set; other absent times are zero
	Ends     time.Time       // Expires plus Leeway
	IssuedAt time.Time       // iat
	From     time.Time       // nbf
	Raw      json.RawMessage // the whole object; read-only
}

// NewKeyring parses the keys. It returns errcode.Invalid for bad keys, for an empty list, and, if there are several
// keys, for empty or repeated IDs.
func NewKeyring(o Options) (*Keyring, error) {
	cache, err := lru.New[string, verified](maxVerified)
	if err != nil {
		return nil, fmt.Errorf("create the token cache: %w", err)
	}
	k := &Keyring{opts: o, cache: cache}
	k.opts.Keys = nil
	for _, given := range o.Keys {
		read, err := given.read()
		if err != nil {
			return nil, err
		}
		if _, taken := k.find(read.id); taken || read.id == "" && len(o.Keys) > 1 {
			return nil, errcode.Newf(errcode.Invalid, "bearer key %q: with several keys, each needs a unique ID", read.id)
		}
		k.keys = append(k.keys, read)
	}
	if len(k.keys) == 0 {
		return nil, errcode.New(errcode.Invalid, "at least one bearer key is required")
	}
	return k, nil
}

// Format keeps the secrets out of logs with every verb.
func (k *Keyring) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "bearer.Keyring(%d keys)", len(k.keys))
}

// find returns the key with this kid.
func (k *Keyring) find(id string) (key, bool) {
	i := slices.IndexFunc(k.keys, func(have key) bool { return have.id == id })
	if i < 0 {
		return key{}, false
	}
	return k.keys[i], true
}

// Parse verifies the token in an Authorization header. It returns ErrMissing or an error from Verify.
func (k *Keyring) Parse(header string, now time.Time) (Claims, error) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Claims{}, ErrMissing
	}
	return k.Verify(token, now)
}

// Verify checks a token's signature, required claims and times. The errors are ErrMalformed, ErrSignature,
// ErrExpired, ErrNotYet, ErrTooLong and ErrForeign.
func (k *Keyring) Verify(token string, now time.Time) (Claims, error) {
	v, known := k.cache.Get(token)
	if !known {
		var err error
		if v, err = k.verify(token); err != nil {
			return Claims{}, err
		}
		v.Ends = v.Expires.Add(k.opts.Leeway)
	}
	if err := k.valid(&v, now); err != nil {
		return Claims{}, err
	}
	if !known {
		k.cache.Add(strings.Clone(token), v) // token may be part of a header
	}
	return v.Claims, nil
}

// verify checks everything that does not depend on the time.
func (k *Keyring) verify(token string) (verified, error) {
	if err := checkEncoding(token); err != nil {
		return verified{}, err
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if _, other := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); other {
		return verified{}, errNoKey
	}
	if err != nil {
		return verified{}, Malformed("not a signed JWT")
	}
	by, err := k.signer(signed.Signatures[0].Header)
	if err != nil {
		return verified{}, err
	}
	raw, err := signed.Verify(by.verify)
	if err != nil {
		return verified{}, ErrSignature
	}
	return decode(raw, by.id)
}

// checkEncoding rejects other spellings of a token, and headers that are not UTF-8, which the parser accepts.
func checkEncoding(token string) error {
	if len(token) > maxToken {
		return Malformed("longer than " + strconv.Itoa(maxToken) + " bytes")
	}
	if strings.ContainsAny(token, "\r\n") { // decoders skip them
		return Malformed("a JWT contains no line breaks")
	}
	first := true
	for part := range strings.SplitSeq(token, ".") {
		raw, err := encoding.DecodeString(part)
		if err != nil {
			return Malformed("a JWT has three parts in base64url without padding, separated by dots")
		}
		if first && (len(raw) == 0 || !utf8.Valid(raw)) {
			return Malformed("the header must be JSON in UTF-8")
		}
		first = false
	}
	return nil
}

var errNoKey = fmt.Errorf("%w: no key with this kid and alg", ErrSignature)

// signer returns the key that a token's header names.
func (k *Keyring) signer(h jose.Header) (key, error) {
	for _, name := range []jose.HeaderKey{"crit", "b64"} {
		if _, ok := h.ExtraHeaders[name]; ok {
			return key{}, Malformed("the header parameters crit and b64 are not supported")
		}
	}
	// A token made for another purpose must be rejected (RFC 8725, section 3.11).
	if given, ok := h.ExtraHeaders[jose.HeaderType]; ok {
		kind, isText := given.(string)
		if kind = strings.ToLower(kind); !isText || kind != "" && kind != "jwt" && kind != "at+jwt" {
			return key{}, Malformed("typ must be JWT or at+jwt")
		}
	}
	by, ok := k.find(h.KeyID)
	if h.KeyID == "" && len(k.keys) == 1 {
		by, ok = k.keys[0], true
	}
	if !ok || string(by.alg) != h.Algorithm {
		return key{}, errNoKey
	}
	return by, nil
}

// decode reads the claims.
func decode(raw []byte, keyID string) (verified, error) {
	members, err := parseClaims(raw)
	if err != nil {
		return verified{}, err
	}
	var errs [7]error
	v := verified{Claims: Claims{KeyID: keyID, Raw: raw}}
	v.Issuer, errs[0] = stringClaim(members, "iss")
	v.Subject, errs[1] = stringClaim(members, "sub")
	v.ID, errs[2] = stringClaim(members, "jti")
	v.Audience, errs[3] = stringsClaim(members, "aud")
	v.Expires, _, errs[4] = timeClaim(members, "exp")
	v.From, v.hasFrom, errs[5] = timeClaim(members, "nbf")
	v.IssuedAt, v.hasIssuedAt, errs[6] = timeClaim(members, "iat")
	if err := errors.Join(errs[:]...); err != nil {
		return verified{}, err
	}
	if _, ok := members["exp"]; !ok {
		return verified{}, Malformed("exp is required")
	}
	return v, nil
}

// valid checks the times instead of go-jose, which accepts a token at the moment of expiry, contrary to RFC 7519.
func (k *Keyring) valid(v *verified, now time.Time) error {
	earliest, latest := now.Add(-k.opts.Leeway), now.Add(k.opts.Leeway)
	switch {
	case !v.Expires.After(earliest):
		return fmt.Errorf("%w at %s", ErrExpired, v.Expires.UTC().Format(time.RFC3339))
	case v.hasFrom && v.From.After(latest), v.hasIssuedAt && v.IssuedAt.After(latest):
		return ErrNotYet
	case k.opts.MaxLifetime > 0 && v.Expires.Sub(v.start(now)) > k.opts.MaxLifetime:
		return ErrTooLong
	case k.opts.Issuer != "" && v.Issuer != k.opts.Issuer,
		k.opts.Audience != "" && !slices.Contains(v.Audience, k.opts.Audience):
		return ErrForeign
	}
	return nil
}

// start returns the time from which the lifetime counts.
func (v *verified) start(now time.Time) time.Time {
	switch {
	case v.hasIssuedAt:
		return v.IssuedAt
	case v.hasFrom:
		return v.From
	}
	return now
}

// Sign returns a token valid from now for ttl, at least one second. It adds iat, exp, Issuer and Audience to claims.
// It returns errcode.Invalid if claims is not a JSON object or contains one of these, if the token would be too long,
// or if the first key is public.
func (k *Keyring) Sign(claims any, now time.Time, ttl time.Duration) (string, error) {
	by := k.keys[0]
	if by.signer == nil {
		return "", errcode.Newf(errcode.Invalid, "bearer key %q is a public key and cannot sign: use the private key", by.id)
	}
	if ttl < time.Second {
		return "", errcode.New(errcode.Invalid, "the lifetime of a token must be at least 1s")
	}
	if k.opts.MaxLifetime > 0 && ttl > k.opts.MaxLifetime {
		return "", errcode.Newf(errcode.Invalid, "the lifetime of a token must be at most %v", k.opts.MaxLifetime)
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		return "", errcode.Wrap(errcode.Invalid, "the claims cannot be encoded as JSON", err)
	}
	members, err := parseClaims(raw)
	if err != nil {
		return "", errcode.Wrap(errcode.Invalid, "the claims must be a JSON object", err)
	}
	all := map[string]any{"iat": now.Unix(), "exp": now.Add(ttl).Unix()}
	if k.opts.Issuer != "" {
		all["iss"] = k.opts.Issuer
	}
	if k.opts.Audience != "" {
		all["aud"] = k.opts.Audience
	}
	for name, value := range members {
		if _, ours := all[name]; ours {
			return "", errcode.Newf(errcode.Invalid, "the claim %q is reserved: the server sets it", name)
		}
		all[name] = value
	}
	payload, err := json.Marshal(all)
	if err != nil {
		return "", errcode.Wrap(errcode.Invalid, "the claims cannot be encoded as JSON", err)
	}
	object, err := by.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	signed, err := object.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	// Never return a token that Verify would reject.
	if _, err := k.verify(signed); err != nil {
		return "", errcode.Wrap(errcode.Invalid, "the token would be rejected", err)
	}
	return signed, nil
}
