package service

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for s, want := range map[string]int64{
		"0": 0, "5000": 5000, "5000B": 5000, "10KiB": 10 << 10, "10 MiB": 10 << 20, "2GiB": 2 << 30, "7EiB": 7 << 60, "9223372036854775807": math.MaxInt64,
	} {
		if got, ok := ParseBytes(s); !ok || got != want {
			t.Errorf("%s is %d, %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "B", "KiB", "-1", "+1", "1.5GiB", "10GB", "10g", "8EiB", "9223372036854775808", "99999999999999999999", "1 0", "١"} {
		if got, ok := ParseBytes(s); ok {
			t.Errorf("%q is %d, want an error", s, got)
		}
	}
}

// TestWriteWhole checks that a file appears only once complete, and that an incomplete file is removed.
func TestWriteWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, broken := filepath.Join(dir, "export"), errors.New("broken")
	err := WriteWhole(name, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, broken)
	})
	if left, _ := os.ReadDir(dir); !errors.Is(err, broken) || len(left) > 0 {
		t.Errorf("%v, and %v is left", err, left)
	}
	if err := WriteWhole(name, func(w io.Writer) error { _, err := io.WriteString(w, "all"); return err }); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); string(got) != "all" {
		t.Errorf("%q, %v", got, err)
	}
}
