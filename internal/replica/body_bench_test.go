package replica

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"testing"

	"filippo.io/age"
)

type nowhere struct{ Target }

func (nowhere) Put(_ context.Context, _ string, body io.Reader) error {
	_, err := io.Copy(io.Discard, body)
	return err
}

func BenchmarkBody(b *testing.B) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{64 << 10, 1 << 20} {
		for name, content := range map[string][]byte{
			"random": randomBytes(size), "text": bytes.Repeat([]byte("The replica copies the bodies of objects. "), size/40)[:size],
		} {
			b.Run(strconv.Itoa(size>>10)+"KiB/"+name, func(b *testing.B) {
				r := New(Options{Target: nowhere{}, Recipients: []age.Recipient{identity.Recipient()}})
				body := Body{Name: "a", Size: int64(size), Open: func(context.Context) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(content)), nil
				}}
				b.SetBytes(int64(size))
				for b.Loop() {
					if source, err := r.putBody(b.Context(), "bodies/a", body); source != nil || err != nil {
						b.Fatal(source, err)
					}
				}
			})
		}
	}
}
