package handoff

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxJWT is the maximum size of a JWT in bytes.
const MaxJWT = 2048

const (
	jwtAlgorithm = "EdDSA"
	jwtType      = "handoff+jwt"
	maxIssuer    = 128
)

// Ed25519 token errors.
var (
	ErrAlgorithm = errors.New("the token is not signed with Ed25519")
	ErrIssuer    = errors.New("the token is from another issuer")
	ErrTenant    = errors.New("the token is for another tenant")
)

// IsIssuer reports whether s is a valid issuer: 1 to 128 printable ASCII characters without spaces.
func IsIssuer(s string) bool { return isPrintable(s, maxIssuer) }

// Signer signs and verifies a tenant's JWTs with an Ed25519 key. It is immutable and safe for concurrent use.
type Signer struct {
	id, issuer, tenant string
	key                ed25519.PrivateKey
	header             string // encoded, including the dot after it
}

// SignerOptions configure NewSigner.
type SignerOptions struct {
	ID     string // key ID
	Seed   []byte // 32 random bytes
	Issuer string // claim iss, see IsIssuer
	Tenant string // lower-case UUID
}

// NewSigner returns a signer.
func NewSigner(o SignerOptions) (*Signer, error) {
	switch {
	case !isKeyID(o.ID):
		return nil, fmt.Errorf("key %.40q: the ID must be 1 to 32 characters of A-Z, a-z, 0-9, \"_\" and \"-\"", o.ID)
	case len(o.Seed) != ed25519.SeedSize:
		return nil, fmt.Errorf("key %s: the seed has %d bytes, expected %d", o.ID, len(o.Seed), ed25519.SeedSize)
	case !IsIssuer(o.Issuer):
		return nil, fmt.Errorf("issuer: expected 1 to %d printable ASCII characters without spaces", maxIssuer)
	case !isText(o.Tenant):
		return nil, fmt.Errorf("tenant: expected 1 to %d printable ASCII characters without spaces", maxText)
	}
	header, err := json.Marshal(jwtHeader{jwtAlgorithm, o.ID, jwtType})
	if err != nil {
		return nil, err
	}
	return &Signer{o.ID, o.Issuer, o.Tenant, ed25519.NewKeyFromSeed(o.Seed), strict.EncodeToString(header) + "."}, nil
}

// jwtHeader is the JOSE header.
type jwtHeader struct {
	Algorithm string `json:"alg"`
	Key       string `json:"kid"`
	Type      string `json:"typ"`
}

// jwtClaims contain either propertyId and a stay, or itemId and a payload. Digests are base64url without padding.
type jwtClaims struct {
	Issuer      string `json:"iss"`
	Tenant      string `json:"aud"`
	Session     string `json:"sub"`
	ID          string `json:"jti"`
	Minted      int64  `json:"iat"`
	Expires     int64  `json:"exp"`
	Property    string `json:"propertyId,omitempty"`
	Item        string `json:"itemId,omitempty"`
	CheckIn     string `json:"checkIn,omitempty"`
	CheckOut    string `json:"checkOut,omitempty"`
	Adults      int    `json:"adults,omitempty"`
	Children    *int   `json:"children,omitempty"` // may be 0 in a stay
	Rooms       int    `json:"rooms,omitempty"`
	Currency    string `json:"currency"`
	Locale      string `json:"locale"`
	Campaign    string `json:"campaign,omitempty"`
	Fingerprint string `json:"fingerprint"`
	IP          string `json:"ip"`
	Payload     string `json:"payload,omitempty"`
}

// payload encodes the claims as JSON.
func (s *Signer) payload(c *Claims) ([]byte, error) {
	j := jwtClaims{
		Issuer: s.issuer, Tenant: c.Tenant, Session: c.Session, ID: c.ID, Minted: c.Minted.Unix(), Expires: c.Expires.Unix(),
		Currency: c.Currency, Locale: c.Locale,
		Campaign: strict.EncodeToString(c.Campaign), Fingerprint: strict.EncodeToString(c.Fingerprint), IP: strict.EncodeToString(c.IP),
		Payload: strict.EncodeToString(c.Payload),
	}
	if len(c.Payload) > 0 {
		j.Item = c.Property
	} else {
		j.Property, j.CheckIn, j.CheckOut, j.Adults, j.Children, j.Rooms = c.Property, c.CheckIn, c.CheckOut, c.Adults, &c.Children, c.Rooms
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // an item ID with 256 "&" would exceed MaxJWT
	if err := e.Encode(j); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Sign returns a JWT. The times in the claims must be whole seconds.
func (s *Signer) Sign(c Claims) (token string, err error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	switch {
	case c.Tenant != s.tenant:
		return "", ErrTenant
	case c.Minted.Nanosecond() != 0 || c.Expires.Nanosecond() != 0:
		return "", errors.New("minted and expires: expected whole seconds")
	}
	payload, err := s.payload(&c)
	if err != nil {
		return "", err
	}
	signed := s.header + strict.EncodeToString(payload)
	token = signed + "." + strict.EncodeToString(ed25519.Sign(s.key, []byte(signed)))
	if len(token) > MaxJWT {
		return "", fmt.Errorf("the token has %d bytes, and may have at most %d", len(token), MaxJWT)
	}
	return token, nil
}

// Verify returns the claims of a JWT made by Sign. It rejects other encodings, and checks times like Ring.Verify.
func (s *Signer) Verify(token string, now time.Time) (c Claims, err error) {
	t, err := parseJWT(token)
	if err != nil {
		return c, err
	}
	if t.key != s.id || !strings.HasPrefix(t.signed, s.header) {
		return c, ErrUnknownKey
	}
	c, err = t.verify(s.public(), Expected{s.issuer, s.tenant, now})
	if err != nil && !errors.Is(err, ErrNotYetValid) && !errors.Is(err, ErrExpired) {
		return Claims{}, err
	}
	if same, e := s.payload(&c); e != nil || t.signed[len(s.header):] != strict.EncodeToString(same) {
		return Claims{}, ErrMalformed
	}
	return c, err
}

// public returns the public key.
func (s *Signer) public() ed25519.PublicKey { return ed25519.PublicKey(s.key[ed25519.SeedSize:]) }

// Expected describes a valid JWT.
type Expected struct {
	Issuer string
	Tenant string
	Now    time.Time // current time
}

// jwt is a split token.
type jwt struct {
	key, signed string // the part that the signature covers
	payload     string // in base64url
	signature   []byte
}

// parseJWT rejects all algorithms except EdDSA.
func parseJWT(token string) (t jwt, err error) {
	if len(token) > MaxJWT {
		return t, ErrMalformed
	}
	if strings.HasPrefix(token, version+".") {
		return t, ErrAlgorithm
	}
	fields := strings.Split(token, ".")
	if len(fields) != 3 {
		return t, ErrMalformed
	}
	if t.key, err = parseHeader(fields[0]); err != nil {
		return t, err
	}
	t.signed, t.payload = token[:len(token)-len(fields[2])-1], fields[1]
	if t.signature, err = decodeBase64(fields[2]); err == nil && len(t.signature) != ed25519.SignatureSize {
		err = ErrMalformed
	}
	return t, err
}

// parseHeader returns the key ID. The header can select neither the algorithm nor the location of a key.
func parseHeader(encoded string) (key string, err error) {
	text, err := decodeBase64(encoded)
	if err != nil {
		return "", err
	}
	var members map[string]any // a struct would ignore case
	if json.Unmarshal(text, &members) != nil {
		return "", ErrMalformed
	}
	if members["alg"] != jwtAlgorithm {
		return "", ErrAlgorithm
	}
	_, critical := members["crit"]
	key, _ = members["kid"].(string)
	if critical || members["typ"] != jwtType || !isKeyID(key) {
		return "", ErrMalformed
	}
	return key, nil
}

// verify checks the signature before it reads any claim. With ErrExpired or ErrNotYetValid it returns the claims too.
func (t *jwt) verify(key ed25519.PublicKey, e Expected) (c Claims, err error) {
	if !ed25519.Verify(key, []byte(t.signed), t.signature) {
		return c, ErrSignature
	}
	text, err := decodeBase64(t.payload)
	if err != nil {
		return c, err
	}
	c, issuer, err := decodeJWT(text)
	switch {
	case err != nil:
		return Claims{}, err
	case issuer != e.Issuer:
		return Claims{}, ErrIssuer
	case c.Tenant != e.Tenant:
		return Claims{}, ErrTenant
	}
	return c, c.checkTimes(e.Now)
}

// decodeJWT reads and checks the claims.
func decodeJWT(text []byte) (c Claims, issuer string, err error) {
	var j jwtClaims
	if json.Unmarshal(text, &j) != nil {
		return c, "", ErrMalformed
	}
	campaign, err1 := decodeBase64(j.Campaign)
	fingerprint, err2 := decodeBase64(j.Fingerprint)
	ip, err3 := decodeBase64(j.IP)
	payload, err4 := decodeBase64(j.Payload)
	if len(campaign) == 0 {
		campaign = nil
	}
	c = Claims{
		ID: j.ID, Session: j.Session, Tenant: j.Tenant, Property: j.Property, CheckIn: j.CheckIn, CheckOut: j.CheckOut,
		Adults: j.Adults, Rooms: j.Rooms, Currency: j.Currency, Locale: j.Locale,
		Campaign: campaign, Fingerprint: fingerprint, IP: ip, Minted: time.Unix(j.Minted, 0).UTC(), Expires: time.Unix(j.Expires, 0).UTC(),
	}
	if j.Children != nil {
		c.Children = *j.Children
	}
	if j.Item != "" || len(payload) > 0 {
		if j.Property != "" || j.Children != nil || len(payload) == 0 {
			return Claims{}, "", ErrMalformed
		}
		c.Property, c.Payload = j.Item, payload
	}
	if errors.Join(err1, err2, err3, err4, c.Check()) != nil {
		return Claims{}, "", ErrMalformed
	}
	return c, j.Issuer, nil
}

// checkTimes returns ErrNotYetValid or ErrExpired.
func (c *Claims) checkTimes(now time.Time) error {
	switch {
	case c.Minted.After(now.Add(leeway)):
		return ErrNotYetValid
	case !now.Before(c.Expires):
		return ErrExpired
	}
	return nil
}
