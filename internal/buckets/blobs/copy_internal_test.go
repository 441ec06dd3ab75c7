package blobs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/optional"
)

type memory struct {
	Driver

	content []byte
}

func (m *memory) Put(_ context.Context, _ string, body io.Reader, _ int64) (n int64, err error) {
	m.content, err = io.ReadAll(body)
	return int64(len(m.content)), err
}

// TestNewCopy checks that a body's content, or a copy of it, becomes the copy that a cluster writes.
func TestNewCopy(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 31, 32, 1000, chunkSize - 1, chunkSize, chunkSize + 1, chunkSize + 32, 3*chunkSize + 7} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(rand.Uint32())
		}
		driver := &memory{}
		c := NewCluster(Options{})
		c.Set(Node{ID: "a:1", State: buckets.NodeActive, Driver: driver})
		written, err := c.Write(t.Context(), "a/b", int64(size), 1, bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		body := buckets.Body{Length: int64(size), Frames: optional.Some(written.Frames)}
		other := written.Frames
		other.ID++
		for name, b := range map[string]struct {
			body       buckets.Body
			from, want []byte
		}{
			"content":               {body, content, driver.content},
			"copy":                  {body, driver.content, driver.content},
			"copy for a plain body": {buckets.Body{Length: int64(size)}, driver.content, content},
			"plain body":            {buckets.Body{Length: int64(size)}, content, content},
		} {
			got, err := io.ReadAll(NewCopy(&b.body, io.NopCloser(bytes.NewReader(b.from))))
			if err != nil || !bytes.Equal(got, b.want) {
				t.Errorf("%d bytes: %s: got %d bytes, want %d, %v", size, name, len(got), len(b.want), err)
			}
		}
		renamed := buckets.Body{Length: int64(size), Frames: optional.Some(other)}
		if got, err := io.ReadAll(NewCopy(&renamed, io.NopCloser(bytes.NewReader(driver.content)))); err != nil || len(got) != len(driver.content) {
			t.Errorf("%d bytes: another frame ID: %d bytes, %v", size, len(got), err)
		}
		damaged := map[string][]byte{"longer": append(bytes.Clone(content), 1), "longer copy": append(bytes.Clone(driver.content), 1)}
		if size > 0 {
			damaged["shorter"], damaged["shorter copy"] = content[1:], driver.content[:len(driver.content)-1]
			for name, of := range map[string][]byte{"other": content, "other copy": driver.content} {
				damaged[name] = bytes.Clone(of)
				damaged[name][rand.IntN(len(of))]++
			}
		}
		for name, from := range damaged {
			if _, err := io.Copy(io.Discard, NewCopy(&body, io.NopCloser(bytes.NewReader(from)))); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d bytes: %s: %v", size, name, err)
			}
		}
	}
}
