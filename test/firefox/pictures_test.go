package firefox

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"holdfast/test/chromium"
)

// TestPictures draws two browsers with the same bookmarks, in the folder FIREFOX_PICTURES:
//
//	FIREFOX_PICTURES=$PWD/docs/images go test -run TestPictures ./test/firefox
func TestPictures(t *testing.T) {
	t.Parallel()
	to := os.Getenv("FIREFOX_PICTURES")
	if to == "" {
		t.Skip("FIREFOX_PICTURES is not set")
	}
	h := startPair(t, program(t))
	h.a.do(t, "addToToolbar", [][]string{
		{"Tide tables", "https://sea.example/tides"}, {"Recipes", "https://kitchen.example/"}, {"Trains", "https://rail.example/"}, {"Weather", "https://sky.example/"}, {"Reading list", "https://reader.example/"},
	})
	h.a.sync(t)
	h.b.sync(t)
	var windows [][]byte
	for _, b := range []*browser{h.a, h.b} {
		png, err := base64.StdEncoding.DecodeString(call[string](t, b, "picture", h.server.URL+"/", 900, 640))
		if err != nil {
			t.Fatal(err)
		}
		windows = append(windows, png)
	}
	chromium.Start(t).KeepPair(t, filepath.Join(to, "firefox-sync.webp"), windows)
}
