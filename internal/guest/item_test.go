package guest_test

import (
	"strings"
	"testing"

	"holdfast/internal/guest"
)

func TestParseItem(t *testing.T) {
	t.Parallel()
	texts := &guest.Profile{Name: "shop", Texts: true}
	for _, valid := range []string{
		"sku-4711", "a", " ", "a b", "/", "a/b", "%", "%2F", "...", ".a", "..a", "?", "#", "\"", `\`, "'", "+", "-", "~", "<&>", "é", "e\u0301", "\u0301", "שלום", "مرحبا",
		"می\u200cخواهم", "😀", "👩\u200d🚀", "❤\ufe0f", "界", strings.Repeat("a", 256), strings.Repeat("ä", 128), strings.Repeat("😀", 64), "\ufffd",
	} {
		if got, ok := texts.ParseItem(valid); !ok || got != valid {
			t.Errorf("%q: %q, %t", valid, got, ok)
		}
	}
	refused := []string{
		"", ".", "..", strings.Repeat("a", 257), strings.Repeat("ä", 129), strings.Repeat("😀", 65), "\xff", "a\xc3", "\xed\xa0\x80", "\u2028", "\u2029", "\u00a0", "\u202e", "\ufeff",
		"\ue000", "\U0010ffff", "\u0378",
	}
	for c := range rune(0xa0) { // the control characters C0, DEL and C1
		if c < ' ' || c >= 0x7f {
			refused = append(refused, string(c), "a"+string(c)+"b")
		}
	}
	for _, wrong := range refused {
		if _, ok := texts.ParseItem(wrong); ok {
			t.Errorf("%q is an item ID", wrong)
		}
	}
}

// TestItemKeys checks that different IDs map to different keys: bytes are compared, without normalization or case folding.
func TestItemKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, item := range []string{"é", "e\u0301", "É", "E\u0301", "ﬁ", "fi", "a", "A", " a", "a ", "％", "%", "K", "\u212a"} {
		if other, found := seen[guest.ItemKey(item)]; found {
			t.Errorf("%q and %q have the same key", item, other)
		}
		seen[guest.ItemKey(item)] = item
		if guest.ItemText(item) != item {
			t.Errorf("%q is stored as %q", item, guest.ItemText(item))
		}
	}
}
