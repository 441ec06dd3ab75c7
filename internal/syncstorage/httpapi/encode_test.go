package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	ss "holdfast/internal/syncstorage"
)

// Whatever bytes are stored, what is sent is JSON in UTF-8: a record that came
// into the database by another way must not spoil a listing.
func TestEncodeAnyBytes(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "\xff", "a\xffb", "\xc3", "\xc3(", "\xed\xa0\x80", "é\xe2\x82", "\xf0\x9f\x98\x80\xf0", "\xf8\x88\x80\x80\x80", "\x00\x7f\"\\", "\ufffd"} {
		var got struct{ ID, Payload string }
		text := appendBSO(nil, &ss.BSO{ID: "a", Payload: []byte(payload)})
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q is encoded as %q: %v", payload, text, err)
		}
		want := []rune(payload) // U+FFFD for each byte that is none
		if got.Payload != string(want) || strings.ContainsRune(got.ID, '\ufffd') {
			t.Errorf("%q is encoded as %q", payload, text)
		}
	}
}
