package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                   "",
		"photo.jpg":          "photo.jpg",
		"naïve 写真 👩\u200d🚀":  "naïve 写真 👩\u200d🚀",
		"a\nb\tc\rd":         `a\nb\tc\rd`,
		"\x1b[31m\a\x7f\x00": `\u001b[31m\u0007\u007f\u0000`,
		"a\u202egpj":         `a\u202egpj`,
		"\u2066x\u2069\u200f\u061c\u2028\ufeff\u0085": `\u2066x\u2069\u200f\u061c\u2028\ufeff\u0085`,
		"\U000e0041":   `\udb40\udc41`,
		"bad\xff utf8": `bad\xff utf8`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := PrintableLines("a\n\tb\u202e"); got != "a\n\t"+`b\u202e` {
		t.Errorf("lines: %q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\u202e\n\x1b\xff")
	f.Fuzz(func(t *testing.T, in string) {
		once := Printable(in)
		if !utf8.ValidString(once) || Printable(once) != once {
			t.Errorf("%q: %q", in, once)
		}
		for _, r := range once {
			if !isShown(r) {
				t.Errorf("%q: %U", in, r)
			}
		}
	})
}

type kind string

// TestPrinter checks that no argument adds columns or rows, whatever its type, and that numbers stay numbers.
func TestPrinter(t *testing.T) {
	t.Parallel()
	const name = "a\tb\nc\x1b"
	var out bytes.Buffer
	sh := &Shell{Stdout: &out}
	w := sh.Table()
	if _, err := w.Printf("%s\t%s\t%v\t%s\t%d\t%v\t%s\n", name, kind(name), errors.New(name), []byte(name), 5, time.Second, Columns("x\ty")); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	const shown = `a\tb\nc\u001b`
	if want := shown + "  " + shown + "  " + shown + "  " + shown + "  5  1s  x  y\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	if err := sh.PrintLine(map[string]string{"name": name + "\u202e"}); err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["name"] != name+"\u202e" || bytes.ContainsRune(out.Bytes(), '\u202e') {
		t.Errorf("JSON: %q, %v", out.String(), err)
	}
}
