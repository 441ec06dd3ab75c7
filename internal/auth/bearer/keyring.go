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

	"holdfast/internal/fault"
)

// maxToken is the longest token that is looked at, in bytes.
const maxToken = 8 << 10

// maxVerified is how many good tokens are remembered, mostly of less than a
// kilobyte each; ones of the greatest length would take 60 MB.
const maxVerified = 4096

// encoding is strict, so that each token has one spelling only.
var encoding = base64.RawURLEncoding.Strict()

// Options of a Keyring. Only Keys are needed.
type Options struct {
	// Keys verify tokens, and the first one signs, if it can. To change it
	// without a moment of 401s, put the new one last everywhere, then first
	// everywhere, then drop the old one when its last token has expired.
	Keys []Key

	// Issuer and Audience, when set, are what a token must say in iss and aud.
	// Tokens that are signed here say so.
	Issuer, Audience string

	// Leeway is how far another machine's clock may be off, in either direction.
	Leeway time.Duration

	// MaxLifetime, when above 0, is how long a token may be good for.
	MaxLifetime time.Duration
}

// Keyring verifies tokens and signs them. It is safe for concurrent use.
type Keyring struct {
	keys []key
	opts Options

	// verified remembers good tokens: a client sends the same one with every
	// request, and a signature costs more than the rest of its authentication.
	verified *lru.Cache[string, verified]
}

// verified is a token whose signature was found good. What it says does not
// change, except that its time comes and goes.
type verified struct {
	Claims
	hasFrom, hasIssuedAt bool
}

// Claims are what a token says whose signature is good.
type Claims struct {
	KeyID    string // of the key that has signed the token
	Issuer   string
	Subject  string
	ID       string // jti
	Audience []string
	Expires  time.Time // always set; the others are zero when the token does not say
	Ends     time.Time // when Verify begins to refuse it: Expires and the leeway
	IssuedAt time.Time
	From     time.Time       // nbf
	Raw      json.RawMessage // the whole object, strict JSON; not to be changed
}

// NewKeyring reads the keys. The error is fault.Invalid: a key that cannot be
// read, no key at all, or one of several that has no id or that of another.
func NewKeyring(o Options) (*Keyring, error) {
	remembered, err := lru.New[string, verified](maxVerified)
	if err != nil {
		return nil, fmt.Errorf("make room for tokens: %w", err)
	}
	k := &Keyring{opts: o, verified: remembered}
	k.opts.Keys = nil // they are secrets
	for _, given := range o.Keys {
		read, err := given.read()
		if err != nil {
			return nil, err
		}
		if _, taken := k.find(read.id); taken || read.id == "" && len(o.Keys) > 1 {
			return nil, fault.Newf(fault.Invalid, "bearer key %q: with several keys, each needs a unique ID", read.id)
		}
		k.keys = append(k.keys, read)
	}
	if len(k.keys) == 0 {
		return nil, fault.New(fault.Invalid, "at least one bearer key is required")
	}
	return k, nil
}

// Format keeps the secrets out of logs, whatever the verb.
func (k *Keyring) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "bearer.Keyring(%d keys)", len(k.keys))
}

func (k *Keyring) find(id string) (key, bool) {
	i := slices.IndexFunc(k.keys, func(have key) bool { return have.id == id })
	if i < 0 {
		return key{}, false
	}
	return k.keys[i], true
}

// Parse verifies the token in the value of an Authorization header. The errors
// are ErrMissing and those of Verify.
func (k *Keyring) Parse(header string, now time.Time) (Claims, error) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Claims{}, ErrMissing
	}
	return k.Verify(token, now)
}

// Verify checks the token's signature, what it must say and its times. The
// errors are ErrMalformed, ErrSignature, ErrExpired, ErrNotYet, ErrTooLong and
// ErrForeign.
func (k *Keyring) Verify(token string, now time.Time) (Claims, error) {
	v, known := k.verified.Get(token)
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
		k.verified.Add(strings.Clone(token), v) // it may be part of a whole header
	}
	return v.Claims, nil
}

// verify is Verify for a token that is not remembered, whenever it is valid.
func (k *Keyring) verify(token string) (verified, error) {
	if err := checkEncoding(token); err != nil {
		return verified{}, err
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if _, other := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); other {
		return verified{}, errNoKey
	}
	if err != nil {
		return verified{}, malformed("not a signed JWT")
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

// checkEncoding refuses what the parser would pass over: a token has one
// spelling, and its header is in UTF-8.
func checkEncoding(token string) error {
	if len(token) > maxToken {
		return malformed("longer than " + strconv.Itoa(maxToken) + " bytes")
	}
	if strings.ContainsAny(token, "\r\n") { // which decoders skip
		return malformed("a JWT contains no line breaks")
	}
	first := true
	for part := range strings.SplitSeq(token, ".") {
		raw, err := encoding.DecodeString(part)
		if err != nil {
			return malformed("a JWT has three parts in base64url without padding, separated by dots")
		}
		if first && (len(raw) == 0 || !utf8.Valid(raw)) {
			return malformed("the header must be JSON in UTF-8")
		}
		first = false
	}
	return nil
}

var errNoKey = fmt.Errorf("%w: no key with this kid and alg", ErrSignature)

// signer is the key that a header names.
func (k *Keyring) signer(h jose.Header) (key, error) {
	for _, name := range []jose.HeaderKey{"crit", "b64"} {
		if _, ok := h.ExtraHeaders[name]; ok {
			return key{}, malformed("the header parameters crit and b64 are not supported")
		}
	}
	// A token that was made for something else must not serve here (RFC 8725, section 3.11).
	if given, ok := h.ExtraHeaders[jose.HeaderType]; ok {
		kind, isText := given.(string)
		if kind = strings.ToLower(kind); !isText || kind != "" && kind != "jwt" && kind != "at+jwt" {
			return key{}, malformed("typ must be JWT or at+jwt")
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

// decode reads claims that were signed by the key of an id.
func decode(raw []byte, keyID string) (verified, error) {
	members, err := object(raw)
	if err != nil {
		return verified{}, err
	}
	var errs [7]error
	v := verified{Claims: Claims{KeyID: keyID, Raw: raw}}
	v.Issuer, errs[0] = text(members, "iss")
	v.Subject, errs[1] = text(members, "sub")
	v.ID, errs[2] = text(members, "jti")
	v.Audience, errs[3] = texts(members, "aud")
	v.Expires, _, errs[4] = moment(members, "exp")
	v.From, v.hasFrom, errs[5] = moment(members, "nbf")
	v.IssuedAt, v.hasIssuedAt, errs[6] = moment(members, "iat")
	if err := errors.Join(errs[:]...); err != nil {
		return verified{}, err
	}
	if _, ok := members["exp"]; !ok {
		return verified{}, malformed("exp is required")
	}
	return v, nil
}

// valid checks a token against the clock and the settings. go-jose has such
// checks too, but a token would be good at the very moment of its expiry, where
// RFC 7519 ends it.
func (k *Keyring) valid(v *verified, now time.Time) error {
	earliest, latest := now.Add(-k.opts.Leeway), now.Add(k.opts.Leeway)
	switch {
	case !v.Expires.After(earliest):
		return ErrExpired
	case v.hasFrom && v.From.After(latest), v.hasIssuedAt && v.IssuedAt.After(latest):
		return ErrNotYet
	case k.opts.MaxLifetime > 0 && v.Expires.Sub(v.begins(now)) > k.opts.MaxLifetime:
		return ErrTooLong
	case k.opts.Issuer != "" && v.Issuer != k.opts.Issuer,
		k.opts.Audience != "" && !slices.Contains(v.Audience, k.opts.Audience):
		return ErrForeign
	}
	return nil
}

// begins is when a token begins to be good. One that does not say may have been made
// now.
func (v *verified) begins(now time.Time) time.Time {
	switch {
	case v.hasIssuedAt:
		return v.IssuedAt
	case v.hasFrom:
		return v.From
	}
	return now
}

// Sign makes a token that is good from now for ttl, at least a second. claims
// becomes a JSON object; iat and exp, and iss and aud where the Keyring has
// them, are added. The errors are fault.Invalid: claims that are no object or
// say one of these themselves, a token that would be too long, and a first key
// that is public.
func (k *Keyring) Sign(claims any, now time.Time, ttl time.Duration) (string, error) {
	by := k.keys[0]
	if by.signer == nil {
		return "", fault.Newf(fault.Invalid, "bearer key %q is a public key and cannot sign: use the private key", by.id)
	}
	if ttl < time.Second {
		return "", fault.New(fault.Invalid, "the lifetime of a token must be at least 1s")
	}
	if k.opts.MaxLifetime > 0 && ttl > k.opts.MaxLifetime {
		return "", fault.Newf(fault.Invalid, "the lifetime of a token must be at most %v", k.opts.MaxLifetime)
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "the claims cannot be encoded as JSON", err)
	}
	members, err := object(raw)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "the claims must be a JSON object", err)
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
			return "", fault.Newf(fault.Invalid, "the claim %q is reserved: the server sets it", name)
		}
		all[name] = value
	}
	payload, err := json.Marshal(all)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "the claims cannot be encoded as JSON", err)
	}
	object, err := by.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	signed, err := object.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	// What is signed here must be accepted here.
	if _, err := k.verify(signed); err != nil {
		return "", fault.Wrap(fault.Invalid, "the token would be rejected", err)
	}
	return signed, nil
}
