package hawk

import (
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"io"
	"strings"
)

// PayloadHash returns the value for Header.Hash: the base64 of the SHA-256 over the body
// and its content type. Case and parameters of the content type (charset) are ignored.
func PayloadHash(contentType string, body []byte) string {
	p := newPayload(contentType)
	p.Write(body)
	sum := p.sum()
	return string(sum[:])
}

// Body returns a reader that hashes the body and returns ErrPayload instead of io.EOF if
// the hash differs from the signed one. The caller must read to the end: before that,
// nothing is verified. Without a signed hash Body returns body itself.
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
	end     error // returned at the end of the body, and by later reads
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

// payload hashes "hawk.1.payload", the content type and the written bytes.
type payload struct{ hash.Hash }

func newPayload(contentType string) payload {
	p := payload{sha256.New()}
	media, _, _ := strings.Cut(contentType, ";")
	io.WriteString(p, "hawk.1.payload\n")
	io.WriteString(p, strings.ToLower(strings.TrimSpace(media)))
	io.WriteString(p, "\n")
	return p
}

// sum finishes the hash; nothing may be written after it.
func (p payload) sum() [44]byte {
	io.WriteString(p, "\n")
	return digest(p.Sum(nil))
}
