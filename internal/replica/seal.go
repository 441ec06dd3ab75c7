package replica

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"filippo.io/age"

	"holdfast/internal/errcode"
)

const encrypted = ".age"

type keys struct {
	recipients []age.Recipient
	identities []age.Identity
}

func (k keys) suffix() string {
	if len(k.recipients) > 0 {
		return encrypted
	}
	return ""
}

// digest includes the name in the checksum, so that one object cannot replace another.
func digest(name string) hash.Hash {
	h := sha256.New()
	_, _ = io.WriteString(h, strings.TrimSuffix(name, encrypted)+"\n")
	return h
}

// seal returns a reader that must always be closed.
func (k keys) seal(name string, content io.Reader) io.ReadCloser {
	sum := digest(name)
	plain := io.MultiReader(io.TeeReader(content, sum), &tail{sum: sum})
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

type tail struct {
	sum hash.Hash
	r   *bytes.Reader
}

func (t *tail) Read(p []byte) (int, error) {
	if t.r == nil {
		t.r = bytes.NewReader(t.sum.Sum(nil))
	}
	return t.r.Read(p)
}

func damagedError(name, reason string, cause error) error {
	return errcode.Wrap(errcode.Unavailable, fmt.Sprintf("the replica object %s %s", name, reason), cause)
}

func (k keys) open(name string, object io.Reader, w io.Writer) error {
	if strings.HasSuffix(name, encrypted) {
		if len(k.identities) == 0 {
			return errcode.Newf(errcode.Invalid, "the replica object %s is encrypted: expected a recipient's identity", name)
		}
		opened, err := age.Decrypt(object, k.identities...)
		if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
			return errcode.Newf(errcode.Invalid, "the replica object %s is encrypted for other recipients", name)
		}
		if err != nil {
			return damagedError(name, "cannot be decrypted", err)
		}
		object = opened
	}
	sum := digest(name)
	in := bufio.NewReaderSize(object, 64<<10)
	for {
		peeked, err := in.Peek(in.Size())
		if err != nil && !errors.Is(err, io.EOF) {
			return damagedError(name, "cannot be read", err)
		}
		content := len(peeked) - sha256.Size
		if content < 0 {
			return damagedError(name, "is damaged: it is too short", nil)
		}
		if _, err := io.MultiWriter(w, sum).Write(peeked[:content]); err != nil {
			return err
		}
		if err != nil {
			if !bytes.Equal(sum.Sum(nil), peeked[content:]) {
				return damagedError(name, "is damaged: its checksum is wrong", nil)
			}
			return nil
		}
		_, _ = in.Discard(content)
	}
}
