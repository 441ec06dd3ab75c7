package replica

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// Encryption does not prove who wrote an object, because the recipients' keys are public. So a server signs each object
// with an Ed25519 key (RFC 8032), which stays in its data folder.

const (
	publicPrefix  = "hfsig1"
	privatePrefix = "HOLDFAST-SIGNING-KEY-1"
	// checkSize is the size of the checksum in the text of a key, which finds a typing error.
	checkSize = 4
)

var keyEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// PublicKey verifies a server's signatures. The zero value means that there is no signature.
type PublicKey struct{ bytes [ed25519.PublicKeySize]byte }

// SigningKey is a server's private key. Its zero value signs nothing.
type SigningKey struct{ private ed25519.PrivateKey }

// NewSigningKey returns a random key. The data folder's first start makes one.
func NewSigningKey() SigningKey {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // rand.Reader never fails
	}
	return SigningKey{private}
}

// encodeKey returns prefix, and key with a checksum in base32.
func encodeKey(prefix string, key []byte) string {
	sum := sha256.Sum256(append([]byte(prefix), key...))
	return prefix + keyEncoding.EncodeToString(slices.Concat(key, sum[:checkSize]))
}

// decodeKey returns nil if text is not the result of encodeKey.
func decodeKey(prefix, text string) []byte {
	encoded, ok := strings.CutPrefix(text, prefix)
	content, err := keyEncoding.DecodeString(encoded)
	if !ok || err != nil || len(content) != ed25519.SeedSize+checkSize {
		return nil
	}
	key := content[:ed25519.SeedSize]
	if encodeKey(prefix, key) != text { // also if the last letter has other unused bits
		return nil
	}
	return key
}

// ParsePublicKey parses a key such as hfsig1…, and finds typing errors.
func ParsePublicKey(text string) (k PublicKey, err error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	key := decodeKey(strings.ToUpper(publicPrefix), strings.ToUpper(lower))
	if key == nil {
		return k, errcode.Newf(errcode.Invalid, "not a public signing key, or mistyped: expected %s and 58 letters and digits, as holdfast check prints it", publicPrefix)
	}
	copy(k.bytes[:], key)
	return k, nil
}

// ParseSigningKey parses the text that SigningKey.Text returns.
func ParseSigningKey(text string) (k SigningKey, err error) {
	seed := decodeKey(privatePrefix, strings.TrimSpace(text))
	if seed == nil {
		return k, errcode.New(errcode.Invalid, "not a private signing key, or damaged")
	}
	return SigningKey{ed25519.NewKeyFromSeed(seed)}, nil
}

// Text contains the private key. Write it only to a file that nobody else can read.
func (k SigningKey) Text() string { return encodeKey(privatePrefix, k.private.Seed()) }

func (k SigningKey) IsZero() bool { return k.private == nil }

// Public returns the key that verifies signatures.
func (k SigningKey) Public() (public PublicKey) {
	if k.private != nil {
		copy(public.bytes[:], k.private[ed25519.SeedSize:])
	}
	return public
}

func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// String returns the key with its prefix and a checksum, or "" without a key.
func (k PublicKey) String() string {
	if k.IsZero() {
		return ""
	}
	return strings.ToLower(encodeKey(strings.ToUpper(publicPrefix), k.bytes[:]))
}

// MarshalText implements encoding.TextMarshaler.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *PublicKey) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*k = PublicKey{}
		return nil
	}
	*k, err = ParsePublicKey(string(text))
	return err
}

// sign signs a digest from the function digest.
func (k SigningKey) sign(digest []byte) []byte { return ed25519.Sign(k.private, digest) }

// verify reports whether signature is k's for the digest.
func (k PublicKey) verify(digest, signature []byte) bool {
	return ed25519.Verify(k.bytes[:], digest, signature)
}

// Trust says whose repositories a reader accepts.
type Trust struct {
	Signers []Signer

	// Unproven accepts repositories that nobody in Signers signed, and repositories without signatures: anybody who can
	// write to the target may have made or changed them. It has no effect if there are Signers.
	Unproven bool
}

// Signer is a trusted key.
type Signer struct {
	Key PublicKey // of the server that wrote the repository
	// Repository is the ID of the only repository for which the key is trusted, or "" for all.
	Repository string
}

// proves reports whether a signature by key proves who wrote a repository.
func (t Trust) proves(key PublicKey, repository string) bool {
	return !key.IsZero() && slices.ContainsFunc(t.Signers, func(s Signer) bool {
		return s.Key == key && (s.Repository == "" || s.Repository == repository)
	})
}

// check returns an error unless objects with valid signatures by key can be accepted. A zero key means that the object
// has no signature.
func (t Trust) check(name string, key PublicKey, repository string) error {
	switch {
	case t.proves(key, repository), len(t.Signers) == 0 && t.Unproven:
		return nil
	case key.IsZero():
		return errcode.Newf(errcode.Denied, "the replica object %s is not signed: every server signs, so somebody else wrote or replaced it. "+unprovenFix, name)
	case len(t.Signers) == 0:
		return errcode.Newf(errcode.Denied, "nothing proves who wrote the replica object %s, which names the signing key %s: compare the key with your notes and name it with --signed-by. "+unprovenFix, name, key)
	}
	return errcode.Newf(errcode.Denied, "the replica object %s was signed with %s, which is not the key in --signed-by or of this server: somebody else may have written it. Name the key of the server that wrote it. "+unprovenFix, name, key)
}

const unprovenFix = "To use it although anybody who can write there may have changed it, use --unsigned"

// signedPrefix returns the text that a signature covers besides the content. A name and a repository ID contain no line feed.
func signedPrefix(repository, name string) []byte {
	return []byte("holdfast replica object\n" + repository + "\n" + name + "\n")
}

// sign adds a signature over the other members.
func (m marker) sign(k SigningKey) marker {
	m.Key = k.Public()
	m.Signature = base64.StdEncoding.EncodeToString(k.sign(m.digest()))
	return m
}

// isIntact reports whether the marker's own key signed it.
func (m marker) isIntact() bool {
	signature, err := base64.StdEncoding.DecodeString(m.Signature)
	return err == nil && m.Key.verify(m.digest(), signature)
}

// digest hashes all members but the signature.
func (m marker) digest() []byte {
	m.Signature = ""
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // a marker contains only texts and numbers
	}
	sum := sha256.Sum256(append(signedPrefix(m.Repository, MarkerName), text...))
	return sum[:]
}
