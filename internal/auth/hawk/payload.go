package hawk

import (
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"io"
	"strings"
)

// PayloadHash returns Header.Hash: the base64 SHA-256 over body and content type, ignoring the content type's case
// and parameters (charset).
func PayloadHash(contentType string, body []byte) string {
	p := newPayload(contentType)
	p.Write(body)
	sum := p.sum()
	return string(sum[:])
}

// Body verifies the body while it is read: at the end, Read returns ErrPayload instead of io.EOF if the body does not
// match the signed hash. Bytes read before the end are not verified.
func (h Header) Body(body io.ReadCloser, contentType string) io.ReadCloser {
	if h.Hash == "" {
		return body
	}
	return &verifiedBody{ReadCloser: body, payload: newPayload(contentType), want: h.Hash}
}

type verifiedBody struct {
	io.ReadCloser
	payload payload
	want    string
	end     error
}

func (b *verifiedBody) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p)
	b.payload.Write(p[:n])
	if err == io.EOF {
		if sum := b.payload.sum(); subtle.ConstantTimeCompare(sum[:], []byte(b.want)) != 1 {
			err = ErrPayload
		}
		b.end = err
	}
	return n, err
}

// payload hashes a body as Hawk does ("Payload Validation").
type payload struct{ hash.Hash }

func newPayload(contentType string) payload {
	p := payload{sha256.New()}
	media, _, _ := strings.Cut(contentType, ";")
	io.WriteString(p, "hawk.1.payload\n")
	io.WriteString(p, strings.ToLower(strings.TrimSpace(media)))
	io.WriteString(p, "\n")
	return p
}

func (p payload) sum() [44]byte {
	io.WriteString(p, "\n")
	return digest(p.Sum(nil))
}
