package buckets

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// LoadSigner makes the same signature as a client.
func TestLoadSigner(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 23, 59, 59, 0, time.FixedZone("", -3600)) // the next day in UTC
	c := &Client{URL: "http://s3.example.org:9000", Signer: Key("ID", "secret")}
	s := NewLoadSigner(c.Signer, map[int64]string{0: Hash("")}, now)
	for _, target := range []string{"/photos/a%20%2Fb", "/photos?continuation-token=" + Escape("a+b /~") + "&list-type=2"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		s.Sign(r, now)
		_, got, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
		clear(r.Header)
		if want := c.Sign(r, Hash(""), now); got != want {
			t.Errorf("%s: signature %s, want %s", target, got, want)
		}
	}
}
