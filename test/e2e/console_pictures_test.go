package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// pictureMinutes is how many minutes of traffic the charts of the pictures have.
const pictureMinutes = 5

// TestConsolePictures makes the pictures of the documents, in the folder of CONSOLE_PICTURES:
//
//	CONSOLE_PICTURES=$PWD/docs/images go test -run TestConsolePictures -timeout 20m ./test/e2e
func TestConsolePictures(t *testing.T) {
	t.Parallel()
	to := os.Getenv("CONSOLE_PICTURES")
	if to == "" {
		t.Skip("CONSOLE_PICTURES is not set")
	}
	b := chromium.Start(t)
	folder, err := os.MkdirTemp("", "holdfast-") //nolint:usetesting // the pictures show its name, so it is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(folder, "data")
	mozilla := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // answers the checks
	t.Cleanup(mozilla.Close)
	s := binary.Start(t, data, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+mozilla.URL)
	for i := range 24 {
		account := fmt.Sprintf("%032x", 0x5eed0000+i*i*7919)
		export := `{"export":1,"account":"` + account + `","keys":"0000000000001-AAAAAAAAAAAAAAAAAAAAAA","generation":1,"records":1,"exportedAt":1700000000000}` + "\n"
		records := 0
		for name, n := range map[string]int{"bookmarks": 40 + i*3, "history": 90 + i*17%80, "passwords": 7 + i, "tabs": 2, "addons": 1 + i%5} {
			export += `{"collection":"` + name + `","modified":1700000000000}` + "\n"
			for r := range n {
				export += fmt.Sprintf(`{"collection":"%s","id":"r%05d","modified":1700000000000,"payload":"%s"}`+"\n", name, r, strings.Repeat("x", 300+r*7%900))
			}
			records += n
		}
		export += fmt.Sprintf(`{"complete":true,"collections":5,"records":%d}`+"\n", records)
		file := filepath.Join(t.TempDir(), "export")
		if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Verb("sync", "user", "import", account, file)
	}
	s.Verb("backup", filepath.Join(folder, "backup"))
	p := b.Open(t, s.Admin+"/console/")
	chromium.Run[bool](t, p, `document.cookie = arguments[0] + '; path=/'; return true`, consoleCookie(t, s))
	client := s.Token(1)
	begun := time.Now()
	for i := 0; time.Since(begun) < pictureMinutes*time.Minute+5*time.Second; i++ {
		client.Want(t, http.StatusOK, "PUT", fmt.Sprintf("/storage/history/r%d", i%2000), `{"payload":"`+strings.Repeat("x", 2000)+`"}`)
		client.Want(t, http.StatusOK, "GET", "/info/collections", "")
		// A rate that rises and falls.
		time.Sleep(time.Duration(30+20*(int(time.Since(begun).Minutes())%3)) * time.Millisecond)
	}
	shot := func(name, scheme string, width, height int, path string) {
		t.Helper()
		p.Scheme(t, scheme)
		p.Resize(t, width, height)
		p.Go(t, s.Admin+"/console/"+path)
		picture := p.Picture(t)
		if len(picture) > 150_000 {
			t.Errorf("%s has %d bytes", name, len(picture))
		}
		if err := os.WriteFile(filepath.Join(to, name), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Go(t, s.Admin+"/console/")
	for deadline := time.Now().Add(time.Minute); chromium.Run[bool](t, p, `return document.body.textContent.includes('The first check is running')`); p.Go(t, s.Admin+"/console/") {
		if time.Now().After(deadline) {
			t.Fatal("the first check has not ended")
		}
	}
	shot("console.webp", "light", 1200, 1000, "")
	shot("console-phone.webp", "dark", 390, 844, "")
	shot("console-accounts.webp", "dark", 1200, 900, "tokenserver/accounts?sort=bytes")
}
