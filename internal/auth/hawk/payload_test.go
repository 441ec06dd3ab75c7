package hawk

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// The first vector is from the specification. Python's hashlib computed the others.
func TestPayloadHashVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, body, want string }{
		{"text/plain", "Thank you for flying Hawk", someHash},
		{"Text/Plain; charset=utf-8", "Thank you for flying Hawk", someHash},
		{"application/json", `{"payload":"x"}`, "jmHzSyysKOC/NIDrUxA90eKJDFvHr2ce0Vnr9Kj1ETU="},
		{"", "", "B0weSUXsMcb5UhL41FZbrUJCAotzSI3HawE1NPLRUz8="},
	} {
		if got := PayloadHash(c.contentType, []byte(c.body)); got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.contentType, c.body, got, c.want)
		}
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	const body, media = `{"payload":"x"}`, "application/json"
	right := PayloadHash(media, []byte(body))
	for _, c := range []struct {
		name, hash, media string
		sent              io.Reader
		want              error
	}{
		{"right", right, media, strings.NewReader(body), nil},
		{"right, byte by byte", right, media, iotest.OneByteReader(strings.NewReader(body)), nil},
		{"right, end with the last bytes", right, media, iotest.DataErrReader(strings.NewReader(body)), nil},
		{"not signed", "", media, strings.NewReader("anything"), nil},
		{"changed", right, media, strings.NewReader(`{"payload":"y"}`), ErrPayload},
		{"changed, end with the last bytes", right, media, iotest.DataErrReader(strings.NewReader(`{"payload":"y"}`)), ErrPayload},
		{"cut short", right, media, strings.NewReader(body[:5]), ErrPayload},
		{"empty", right, media, strings.NewReader(""), ErrPayload},
		{"another type", right, "text/plain", strings.NewReader(body), ErrPayload},
		{"broken off", right, media, io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Header{Hash: c.hash}.Body(io.NopCloser(c.sent), c.media)
			if _, err := io.ReadAll(r); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if _, err := io.ReadAll(r); !errors.Is(err, c.want) && c.want == ErrPayload {
				t.Errorf("read again after the end: %v, want %v", err, c.want)
			}
		})
	}
}

func TestBodyPassesCloseThrough(t *testing.T) {
	t.Parallel()
	var closed closeFlag
	if err := (Header{Hash: someHash}).Body(&closed, "").Close(); err != nil || !bool(closed) {
		t.Errorf("closed %v, %v", closed, err)
	}
}

type closeFlag bool

func (c *closeFlag) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closeFlag) Close() error             { *c = true; return nil }

func BenchmarkBody(b *testing.B) {
	b.ReportAllocs()
	body := bytes.Repeat([]byte("x"), 64<<10)
	h := Header{Hash: PayloadHash("application/json", body)}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := io.Copy(io.Discard, h.Body(io.NopCloser(bytes.NewReader(body)), "application/json")); err != nil {
			b.Fatal(err)
		}
	}
}
