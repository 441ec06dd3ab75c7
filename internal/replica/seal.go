package replica

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"filippo.io/age"

	"holdfast/internal/errcode"
)

// encrypted is the suffix of encrypted objects (age-encryption.org/v1).
const encrypted = ".age"

// keys seal and open a repository's objects. Their zero value uses checksums only, for local files.
type keys struct {
	recipients []age.Recipient
	identities []age.Identity

	// repository is the ID in the marker. A signature contains it, so that an object cannot move to another repository.
	repository string
	signing    SigningKey // signs sealed objects; zero: they end with a checksum
	signer     PublicKey  // signed the objects to open; zero: they end with a checksum
}

// unencrypted returns keys for the objects that the server itself must read.
func (k keys) unencrypted() keys {
	k.recipients, k.identities = nil, nil
	return k
}

// suffix returns the end of new objects' names.
func (k keys) suffix() string {
	if len(k.recipients) > 0 {
		return encrypted
	}
	return ""
}

// digest includes the name, so that one object cannot replace another.
func (k keys) digest(name string, isSigned bool) hash.Hash {
	h := sha256.New()
	if isSigned {
		_, _ = h.Write(signedPrefix(k.repository, name))
	} else {
		_, _ = io.WriteString(h, strings.TrimSuffix(name, encrypted)+"\n")
	}
	return h
}

// seal returns the content, followed by a signature or a checksum, and encrypts both for the recipients. Always close
// the result.
func (k keys) seal(name string, content io.Reader) io.ReadCloser {
	sum := k.digest(name, !k.signing.IsZero())
	plain := io.MultiReader(io.TeeReader(content, sum), &tail{sum: sum, signing: k.signing})
	if len(k.recipients) == 0 {
		return io.NopCloser(plain)
	}
	r, w := io.Pipe()
	go func() {
		to, err := age.Encrypt(w, k.recipients...)
		if err == nil {
			_, err = io.Copy(to, plain)
		}
		if err == nil {
			err = to.Close()
		}
		_ = w.CloseWithError(err)
	}()
	return r
}

// tail returns the signature or checksum when the content was read.
type tail struct {
	sum     hash.Hash
	signing SigningKey
	r       *bytes.Reader
}

func (t *tail) Read(p []byte) (int, error) {
	if t.r == nil {
		end := t.sum.Sum(nil)
		if !t.signing.IsZero() {
			end = t.signing.sign(end)
		}
		t.r = bytes.NewReader(end)
	}
	return t.r.Read(p)
}

// damagedError returns a damage; reason continues the sentence.
func damagedError(name, reason string, cause error) error {
	return damage{name, errcode.Wrap(errcode.Unavailable, fmt.Sprintf("the replica object %s %s", name, reason), cause)}
}

// damage is an error about an object's content, which a retry does not change.
type damage struct {
	object string // name
	error
}

func (d damage) Unwrap() error { return d.error }

// decrypt returns the object's content and its signature or checksum. With identities, an object must be encrypted:
// otherwise somebody without a key could replace it.
func (k keys) decrypt(name string, object io.Reader) (io.Reader, error) {
	isEncrypted := strings.HasSuffix(name, encrypted)
	switch {
	case !isEncrypted && len(k.identities) == 0:
		return object, nil
	case !isEncrypted:
		return nil, plainError(name)
	case len(k.identities) == 0:
		return nil, errcode.Newf(errcode.Invalid, "the replica object %s is encrypted: expected a recipient's identity", name)
	}
	opened, err := age.Decrypt(object, k.identities...)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, errcode.Newf(errcode.Invalid, "the replica object %s is encrypted for other recipients", name)
	}
	if err != nil {
		return nil, damagedError(name, "cannot be decrypted", err)
	}
	return opened, nil
}

// plainError refuses an object without encryption. Older restore points may have been made before encryption began.
func plainError(name string) error {
	return errcode.Newf(errcode.Denied, "the replica object %s is not encrypted, although there is a private key: somebody may have replaced it. "+
		"To read restore points from before encryption began, leave out --identity", name)
}

// open writes the content to w before it is verified. So w must not be used if open returns an error.
func (k keys) open(name string, object io.Reader, w io.Writer) error {
	object, err := k.decrypt(name, object)
	if err != nil {
		return err
	}
	isSigned, size := !k.signer.IsZero(), sha256.Size
	if isSigned {
		size = ed25519.SignatureSize
	}
	sum := k.digest(name, isSigned)
	in := bufio.NewReaderSize(object, 64<<10)
	for {
		peeked, err := in.Peek(in.Size())
		if err != nil && !errors.Is(err, io.EOF) {
			return damagedError(name, "cannot be read", err)
		}
		content := len(peeked) - size
		if content < 0 {
			return damagedError(name, "is damaged: it is too short", nil)
		}
		if _, err := io.MultiWriter(w, sum).Write(peeked[:content]); err != nil {
			return err
		}
		if err == nil {
			_, _ = in.Discard(content)
			continue
		}
		end := peeked[content:]
		switch {
		case isSigned && !k.signer.verify(sum.Sum(nil), end):
			return damagedError(name, "is damaged or was replaced: its signature is wrong", nil)
		case !isSigned && !bytes.Equal(sum.Sum(nil), end):
			return damagedError(name, "is damaged: its checksum is wrong", nil)
		}
		return nil
	}
}
