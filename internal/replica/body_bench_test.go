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
				r := New(Options{Key: testKey, Target: nowhere{}, Recipients: []age.Recipient{identity.Recipient()}})
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

// BenchmarkSign seals a 4 KiB body, with and without a signature.
func BenchmarkSign(b *testing.B) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	body := randomBytes(4 << 10)
	for name, k := range map[string]keys{
		"plain/unsigned":     {},
		"plain/signed":       {signing: testKey, repository: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
		"encrypted/unsigned": {recipients: []age.Recipient{identity.Recipient()}},
		"encrypted/signed":   {recipients: []age.Recipient{identity.Recipient()}, signing: testKey, repository: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				sealed := k.seal("bodies/toys/v1/a", bytes.NewReader(body))
				if _, err := io.Copy(io.Discard, sealed); err != nil {
					b.Fatal(err)
				}
				if err := sealed.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
