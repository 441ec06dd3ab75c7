package main

import (
	"os"
	"path/filepath"
	"testing"
)

const mostBytes = 300_000

// TestPictures checks that the committed pictures match the drawn pictures, and are small.
func TestPictures(t *testing.T) {
	t.Parallel()
	all, total := pictures(), 0
	committed := filepath.Join("..", "..", folder)
	for name, text := range all {
		got, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil || string(got) != text {
			t.Errorf("%s is not as drawn: run go run ./test/demopictures (%v)", name, err)
		}
		total += len(text)
	}
	files, err := os.ReadDir(committed)
	if err != nil || len(files) != len(all) || total >= mostBytes {
		t.Errorf("%d files with %d bytes, want %d files with less than %d bytes: %v", len(files), total, len(all), mostBytes, err)
	}
}
