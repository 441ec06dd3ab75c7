package e2e

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

const (
	pictureMinutes = 5
	pictureBytes   = 60_000
	pictureTenant  = "5b0e7c52-9d8a-4c1f-8a54-3f6d2c9e1b70"
	pictureInstall = "c3d1f8a6-2b47-4e0b-9c35-71f0a8d4e629"
	picturePlace   = "?tenant=" + pictureTenant + "&install=" + pictureInstall + "&namespace=reading-list"
	pictureFolder  = "/srv/holdfast"
)

// TestConsolePictures writes the documentation's pictures to the folder CONSOLE_PICTURES:
//
//	CONSOLE_PICTURES=$PWD/docs/images go test -run TestConsolePictures -timeout 20m ./test/e2e
//
// The server stores its data in pictureFolder, because the name appears in pictures. This folder must not exist.
func TestConsolePictures(t *testing.T) {
	t.Parallel()
	to := os.Getenv("CONSOLE_PICTURES")
	if to == "" {
		t.Skip("CONSOLE_PICTURES is not set")
	}
	b := chromium.Start(t)
	if err := os.Mkdir(pictureFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(pictureFolder); err != nil {
			t.Error(err)
		}
	})
	mozilla := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // answers the checks
	t.Cleanup(mozilla.Close)
	s := binary.Start(t, filepath.Join(pictureFolder, "data"), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+mozilla.URL,
		"HOLDFAST_REPLICA__URL=file://"+filepath.Join(pictureFolder, "replica"))
	pictureAccounts(t, s)
	pictureBuckets(t, s)
	records := pictureRecords(t, s)
	for i := range 9 {
		v := newVisitor(t, s)
		v.send(s, http.MethodPost, "/wishlist", `{"tenantId":"7e000000-0000-4000-8000-000000000002","propertyId":"`+guest.Property(i)+`","source":"map"}`, guest.Property(i))
	}
	s.Verb("backup", filepath.Join(pictureFolder, "backup"))
	p := b.Open(t, s.Admin+"/console/")
	p.SetCookie(t, s.Admin, consoleCookie(t, s))
	pictureTraffic(t, s)
	shot := func(name, scheme string, width, height int, address string) {
		t.Helper()
		p.Scheme(t, scheme)
		p.Resize(t, width, height)
		p.Go(t, address)
		p.Keep(t, filepath.Join(to, name))
	}
	p.Go(t, s.Admin+"/console/")
	for deadline := time.Now().Add(time.Minute); chromium.Run[bool](t, p, `return document.body.textContent.includes('The first check is running')`); p.Go(t, s.Admin+"/console/") {
		if time.Now().After(deadline) {
			t.Fatal("the first check did not end")
		}
	}
	shot("console.webp", "light", 1280, 900, s.Admin+"/console/")
	shot("console-phone.webp", "dark", 390, 844, s.Admin+"/console/")
	shot("console-accounts.webp", "dark", 1100, 680, s.Admin+"/console/tokenserver/accounts?sort=bytes")
	shot("console-objects.webp", "light", 1280, 800, s.Admin+"/console/buckets/objects?account=main&bucket=photos&prefix=iceland%2F")
	shot("console-object.webp", "light", 1280, 900, s.Admin+"/console/buckets/object?account=main&bucket=photos&object=iceland%2F03-geysir.png")
	shot("console-records.webp", "light", 1180, 720, s.Admin+"/console/extstorage/records"+picturePlace)
	shot("demo.webp", "light", 1200, 720, s.URL+"/guest/demo")
	shot("demo-phone.webp", "dark", 390, 844, s.URL+"/guest/demo")

	if all := os.Getenv("CONSOLE_ALL"); all != "" {
		pictureEverything(t, p, s, all)
	}

	// Two operators watch a namespace's changes while an extension makes one.
	other := b.Open(t, s.Admin+"/console/")
	for _, follower := range []struct {
		page   *chromium.Page
		scheme string
	}{{p, "light"}, {other, "dark"}} {
		follower.page.Scheme(t, follower.scheme)
		follower.page.Resize(t, 960, 760)
		follower.page.Go(t, s.Admin+"/console/extstorage/feed"+picturePlace)
	}
	records.want(http.StatusCreated, http.MethodPut, "/namespaces/reading-list/records/tides", `{"value":{"title":"How tides work","url":"https://sea.example/tides","minutes":7,"read":false}}`)
	var followed [][]byte
	for _, page := range []*chromium.Page{p, other} {
		chromium.Run[bool](t, page, `return !!await until(() => document.body.textContent.includes('tides'))`)
		followed = append(followed, page.Window(t))
	}
	b.KeepPair(t, filepath.Join(to, "console-live.webp"), followed)
}

// pictureEverything writes every page in the navigation to the folder CONSOLE_ALL, for designers.
func pictureEverything(t *testing.T, p *chromium.Page, s *binary.Server, folder string) {
	t.Helper()
	p.Go(t, s.Admin+"/console/")
	pages := chromium.Run[[]string](t, p, `return all('header nav a').map(a => a.href)`)
	for _, inner := range []string{
		"tokenserver/accounts/show?account=" + pictureAccount(3), "extstorage/installs/show" + picturePlace, "extstorage/record" + picturePlace + "&key=kelp", "buckets/accounts/show?account=main",
		"buckets/buckets?account=main", "buckets/object?account=main&bucket=photos&object=README.md", "search?q=a",
	} {
		pages = append(pages, s.Admin+"/console/"+inner)
	}
	for _, width := range []int{1280, 390} {
		for _, page := range pages {
			p.Resize(t, width, 900)
			p.Go(t, page)
			path, _, _ := strings.Cut(strings.TrimPrefix(page, s.Admin+"/console/"), "?")
			name := fmt.Sprintf("%s-%d.png", strings.ReplaceAll("page/"+path, "/", "-"), width)
			if err := os.WriteFile(filepath.Join(folder, name), p.Screenshot(t), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func pictureAccount(i int) string {
	sum := sha256.Sum256([]byte{byte(i)})
	return hex.EncodeToString(sum[:16])
}

func pictureAccounts(t *testing.T, s *binary.Server) {
	t.Helper()
	for i, name := range []string{"anna.berg", "ben.okafor", "chiara.rossi", "david.lind", "elif.kaya", "farid.haddad", "greta.holm", "hugo.martin", "ines.costa", "jonas.weber", "kaja.nowak", "liam.byrne", "mei.tanaka", "nils.dahl"} {
		account := pictureAccount(i)
		var export strings.Builder
		fmt.Fprintf(&export, `{"export":1,"account":"%s","keys":"0000000000001-AAAAAAAAAAAAAAAAAAAAAA","generation":1,"records":1,"exportedAt":1700000000000}`+"\n", account)
		records := 0
		for name, n := range map[string]int{"bookmarks": 140 + i*37%260, "history": 400 + i*171%1200, "passwords": 27 + i*13%60, "tabs": 3, "addons": 2 + i%5} {
			fmt.Fprintf(&export, `{"collection":"%s","modified":1700000000000}`+"\n", name)
			for r := range n {
				fmt.Fprintf(&export, `{"collection":"%s","id":"r%05d","modified":1700000000000,"payload":"%s"}`+"\n", name, r, strings.Repeat("x", 300+r*7%900))
			}
			records += n
		}
		fmt.Fprintf(&export, `{"complete":true,"collections":5,"records":%d}`+"\n", records)
		file := filepath.Join(t.TempDir(), "export")
		if err := os.WriteFile(file, []byte(export.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Verb("tokenserver", "accounts", "import", account, file)
		s.Verb("tokenserver", "accounts", "label", account, name+"@example.org")
	}
}

func pictureBuckets(t *testing.T, s *binary.Server) {
	t.Helper()
	c := s3{t, s.S3(t)}
	for _, bucket := range []string{"photos", "website", "laptop-backups", "recordings"} {
		c.want(http.StatusOK, http.MethodPut, "/"+bucket, nil)
	}
	put := func(path string, body []byte) {
		t.Helper()
		kind := cmp.Or(map[string]string{".png": "image/png", ".md": "text/markdown", ".html": "text/html", ".css": "text/css"}[filepath.Ext(path)], "application/zstd")
		if a, err := c.Send(t.Context(), http.MethodPut, path, string(body), "Content-Type: "+kind); err != nil || a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, a.Status, a.Body, err)
		}
	}
	for i, name := range []string{"01-harbor", "02-glacier", "03-geysir", "04-black-beach", "05-waterfall", "06-northern-lights", "07-lava-field", "08-lighthouse"} {
		put("/photos/iceland/"+name+".png", landscape(t, i))
	}
	for _, folder := range []string{"iceland/panoramas", "lisbon", "family", "garden"} {
		for i := range 3 {
			put(fmt.Sprintf("/photos/%s/%02d.png", folder, i+1), landscape(t, i+len(folder)))
		}
	}
	put("/photos/iceland/notes.md", []byte("# Iceland\n\nTwelve days around the ring road, in May.\n"))
	put("/photos/README.md", []byte("# Photos\n\nOne folder for each journey.\n"))
	for _, file := range []string{"index.html", "style.css", "about/index.html"} {
		put("/website/"+file, []byte("<!doctype html><title>Tides</title>"))
	}
	for i := range 12 {
		put(fmt.Sprintf("/laptop-backups/2026-11-%02d/archive.tar.zst", i+1), bytes.Repeat([]byte{byte(i)}, 3<<20))
	}
}

func landscape(t *testing.T, i int) []byte {
	t.Helper()
	const width, height = 480, 300
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	hue := float64(i) * .7
	for x := range width {
		for y := range height {
			c := color.RGBA{uint8(120 + 60*math.Sin(hue) + float64(y)/4), uint8(150 + float64(y)/4), uint8(200 + 30*math.Cos(hue)), 255}
			for hill := range 3 {
				at := 130 + 50*float64(hill) + 28*math.Sin(float64(x)/(50+20*float64(hill))+hue+2*float64(hill))
				if float64(y) > at {
					c = color.RGBA{uint8(70 - 18*hill), uint8(110 - 25*hill + i*3), uint8(100 - 15*hill), 255}
				}
			}
			img.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pictureRecords(t *testing.T, s *binary.Server) extension {
	t.Helper()
	token := strings.TrimSpace(s.Verb("ext", "tokens", "create", "--tenant", pictureTenant, "--install", pictureInstall, "--namespace", "reading-list=rw"))
	e := extension{t, s, pictureInstall, token}
	schema := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(schema, []byte(`{"type":"object","required":["title","url"],"properties":{"title":{"type":"string","maxLength":200},"url":{"type":"string"},
		"minutes":{"type":"integer","minimum":1},"read":{"type":"boolean"},"added":{"type":"string","format":"date"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e.want(http.StatusCreated, http.MethodPut, "/namespaces/reading-list/records/kelp", `{"value":{"title":"The forests under the sea","url":"https://sea.example/kelp","minutes":12,"read":true,"added":"2026-11-03"}}`)
	s.Verb("ext", "schemas", "put", "--tenant", pictureTenant, "--install", pictureInstall, "--namespace", "reading-list", schema, "--activate")
	for i, title := range []string{"Why clocks drift", "A short history of lighthouses", "Sourdough at altitude", "How ships are named", "Maps that lie", "The last telegraph", "Bridges of Porto", "Reading a tide table", "Wind and paper boats", "Letters from Tromsø"} {
		key := strings.ReplaceAll(strings.ToLower(title), " ", "-")
		e.want(http.StatusCreated, http.MethodPut, "/namespaces/reading-list/records/"+strings.ReplaceAll(key, "ø", "o"),
			fmt.Sprintf(`{"value":{"title":%q,"url":"https://reader.example/%d","minutes":%d,"read":%t,"added":"2026-11-%02d"}}`, title, 400+i*7, 4+i*5%17, i%3 == 0, 4+i))
	}
	return e
}

func pictureTraffic(t *testing.T, s *binary.Server) {
	t.Helper()
	client, begun := s.Token(1), time.Now()
	for i := 0; time.Since(begun) < pictureMinutes*time.Minute+5*time.Second; i++ {
		client.Want(t, http.StatusOK, "PUT", fmt.Sprintf("/storage/history/r%d", i%2000), `{"payload":"`+strings.Repeat("x", 2000)+`"}`)
		client.Want(t, http.StatusOK, "GET", "/info/collections", "")
		time.Sleep(time.Duration(30+20*(int(time.Since(begun).Minutes())%3)) * time.Millisecond)
	}
}
