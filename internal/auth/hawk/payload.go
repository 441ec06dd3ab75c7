package hawk

import (
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"io"
	"strings"
)

// PayloadHash is what a client puts into Header.Hash: the base64 of the SHA-256
// over the body and its content type. Parameters of the content type (charset)
// and its case do not matter.
func PayloadHash(contentType string, body []byte) string {
	p := newPayload(contentType)
	p.Write(body)
	sum := p.sum()
	return string(sum[:])
}

// Body returns a reader of the body that hashes what passes through it and, in
// place of io.EOF, returns ErrPayload when the hash is not the signed one. So a
// caller that reads to the end and respects the error never acts on a forged
// body; one that stops before the end has checked nothing.
//
// The body is returned as it is when the client signed none.
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
	end     error // what the first end of the body said, for later reads
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

// payload is a hash over "hawk.1.payload", the content type and what is written.
type payload struct{ hash.Hash }

func newPayload(contentType string) payload {
	p := payload{sha256.New()}
	media, _, _ := strings.Cut(contentType, ";")
	io.WriteString(p, "hawk.1.payload\n")
	io.WriteString(p, strings.ToLower(strings.TrimSpace(media)))
	io.WriteString(p, "\n")
	return p
}

// sum ends the text; nothing may be written after it.
func (p payload) sum() [44]byte {
	io.WriteString(p, "\n")
	return digest(p.Sum(nil))
}
