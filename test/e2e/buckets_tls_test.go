package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestBucketsHTTP2 sends several large bodies at once over the same HTTP/2 connection.
func TestBucketsHTTP2(t *testing.T) {
	t.Parallel()
	listen := testdb.FreeAddress(t)
	cert, key, client := binary.Certificate(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__LISTEN="+listen, "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key)
	c := newS3(t, s, "https://"+listen)
	c.HTTP = client
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	bodies := make([][]byte, 3)
	for i, size := range []int{40 << 20, 9<<20 + 1, 8 << 20} {
		bodies[i] = make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(bodies[i])
	}
	send := func(method string, i int, body []byte) error {
		r, err := c.Request(t.Context(), method, fmt.Sprintf("/photos/%d", i), string(body))
		if err != nil {
			return err
		}
		a, err := client.Do(r)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		got, err := io.ReadAll(a.Body)
		switch {
		case err != nil:
			return err
		case a.StatusCode != http.StatusOK || a.ProtoMajor != 2:
			return fmt.Errorf("%s %d: %s over %s: %.200s", method, i, a.Status, a.Proto, got)
		case method == http.MethodGet && !bytes.Equal(got, bodies[i]):
			return fmt.Errorf("GET %d: another body, of %d bytes", i, len(got))
		}
		return nil
	}
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		for _, err := range testdb.Concurrently(len(bodies), func(i int) error {
			if method == http.MethodGet {
				return send(method, i, nil)
			}
			return send(method, i, bodies[i])
		}) {
			if err != nil {
				t.Error(err)
			}
		}
	}
}
