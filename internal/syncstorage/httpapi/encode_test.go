package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	ss "holdfast/internal/syncstorage"
)

// TestEncodeAnyBytes checks that any stored bytes give UTF-8 JSON, because other programs may write to the database.
func TestEncodeAnyBytes(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "\xff", "a\xffb", "\xc3", "\xc3(", "\xed\xa0\x80", "é\xe2\x82", "\xf0\x9f\x98\x80\xf0", "\xf8\x88\x80\x80\x80", "\x00\x7f\"\\", "\ufffd"} {
		var got struct{ ID, Payload string }
		text := appendBSO(nil, &ss.BSO{ID: "a", Payload: []byte(payload)})
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q is encoded as %q: %v", payload, text, err)
		}
		want := []rune(payload) // U+FFFD for each invalid byte
		if got.Payload != string(want) || strings.ContainsRune(got.ID, '\ufffd') {
			t.Errorf("%q is encoded as %q", payload, text)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				for _, rest := range []byte{'a', 0x7f, ' ', '!', '#', '[', ']'} {
					s := bytes.Repeat([]byte{rest}, length)
					s[at] = byte(c)
					want := length
					if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
						want = at
					}
					if got := plain(s, 0); got != want {
						t.Fatalf("%q: the first byte to escape is at %d, want %d", s, got, want)
					}
				}
			}
		}
	}
}
