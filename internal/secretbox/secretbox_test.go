//test:unraced its goroutines share nothing

package secretbox_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"holdfast/internal/secretbox"
)

const (
	current = "the current secret of 32 bytes or more"
	former  = "a former secret of 32 bytes or more"
)

func open(t *testing.T, label, current string, former ...string) *secretbox.Box {
	t.Helper()
	b, err := secretbox.New(label, current, former...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBox checks that a box opens only its own secrets and those sealed with a former secret.
func TestBox(t *testing.T) {
	t.Parallel()
	text := []byte("text")
	sealed := open(t, "label", former).Seal(text, "1")
	if bytes.Contains(sealed, text) || bytes.Equal(sealed, open(t, "label", former).Seal(text, "1")) {
		t.Errorf("sealed as %x, twice", sealed)
	}
	damaged := bytes.Clone(sealed)
	damaged[len(damaged)-1] ^= 1
	for _, tc := range []struct {
		name   string
		box    *secretbox.Box
		sealed []byte
		id     string
		ok     bool
	}{
		{"the same", open(t, "label", former), sealed, "1", true},
		{"a former secret", open(t, "label", current, former), sealed, "1", true},
		{"another secret", open(t, "label", current), sealed, "1", false},
		{"another label", open(t, "other", former), sealed, "1", false},
		{"another id", open(t, "label", former), sealed, "2", false},
		{"damaged", open(t, "label", former), damaged, "1", false},
		{"short", open(t, "label", former), sealed[:5], "1", false},
		{"nothing", open(t, "label", former), nil, "1", false},
	} {
		got, ok := tc.box.Open(tc.sealed, tc.id)
		if ok != tc.ok || ok && !bytes.Equal(got, text) {
			t.Errorf("%s: %q, %v", tc.name, got, ok)
		}
	}
}

// TestStored opens data stored by earlier releases.
func TestStored(t *testing.T) {
	t.Parallel()
	for label, stored := range map[string]string{
		"buckets access keys": "a17fdaadd2b1824513f7ed207234b9f019f98c71ae39d528227b09d82da2dac2f825",
		"guest handoff keys":  "c2c6bd3544b335fd07d24c4ae0d19285479962e017ea252420a2222c145b8249a0ad",
	} {
		sealed, err := hex.DecodeString(stored)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := open(t, label, former).Open(sealed, "id"); !ok || string(text) != "secret" {
			t.Errorf("%s: %q, %v", label, text, ok)
		}
	}
}
