package e2e

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// Limits for the color differences between the parts of two pictures. Another typeface or browser stays below them; a
// missing style sheet, a missing sidebar or the wrong color scheme exceeds them.
const (
	lookPart   = 10 // part width and height in pixels
	lookMean   = 5  // mean difference, of 255
	lookColor  = 48 // difference that counts as another color
	lookOthers = 4  // percentage of parts in another color
)

// TestConsoleLook compares pages with the pictures in testdata/look. CONSOLE_LOOK=update writes the pictures.
func TestConsoleLook(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := binary.Start(t, t.TempDir())
	p := b.Open(t, s.Admin+"/console/")
	look := func() []byte { return shrink(t, p.Window(t)) }
	expect := func(name string) {
		t.Helper()
		got, file := look(), filepath.Join("testdata", "look", name+".png")
		if os.Getenv("CONSOLE_LOOK") == "update" {
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if mean, others := differ(t, got, want); mean > lookMean || others > lookOthers {
			t.Errorf("%s looks different: its parts differ by %.1f of 255, and %.1f %% have another color; CONSOLE_LOOK=update updates the picture", name, mean, others)
		}
	}
	p.Scheme(t, "light")
	p.Resize(t, 1280, 800)
	expect("sign-in")
	p.SetCookie(t, s.Admin, consoleCookie(t, s))
	for _, page := range []struct {
		name, scheme  string
		width, height int
	}{{"settings", "light", 1280, 800}, {"settings-dark", "dark", 1280, 800}, {"settings-phone", "dark", 390, 800}} {
		p.Scheme(t, page.scheme)
		p.Resize(t, page.width, page.height)
		p.Go(t, s.Admin+"/console/settings?path=extstorage.tiers")
		expect(page.name)
	}
	// The comparison must detect a missing style sheet.
	whole := look()
	chromium.Run[bool](t, p, `$('link[rel=stylesheet]').disabled = true; return true`)
	if mean, others := differ(t, look(), whole); mean <= lookMean && others <= lookOthers {
		t.Errorf("a page without its style sheet looks the same: %.1f, %.1f %%", mean, others)
	}
}

func shrink(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	size := from.Bounds().Size().Div(lookPart)
	to := image.NewRGBA(image.Rect(0, 0, size.X, size.Y))
	for x := range size.X {
		for y := range size.Y {
			var r, g, b uint32
			for dx := range lookPart {
				for dy := range lookPart {
					cr, cg, cb, _ := from.At(x*lookPart+dx, y*lookPart+dy).RGBA()
					r, g, b = r+cr>>8, g+cg>>8, b+cb>>8
				}
			}
			const n = lookPart * lookPart
			to.SetRGBA(x, y, color.RGBA{uint8(r / n), uint8(g / n), uint8(b / n), 255})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// differ returns the mean difference between two pictures' parts, of 255, and the percentage of parts in another
// color.
func differ(t *testing.T, one, other []byte) (mean, others float64) {
	t.Helper()
	a, err := png.Decode(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	b, err := png.Decode(bytes.NewReader(other))
	if err != nil {
		t.Fatal(err)
	}
	if a.Bounds() != b.Bounds() {
		t.Fatalf("the pictures have %v and %v parts", a.Bounds().Size(), b.Bounds().Size())
	}
	parts := 0.0
	for x := range a.Bounds().Dx() {
		for y := range a.Bounds().Dy() {
			ar, ag, ab, _ := a.At(x, y).RGBA()
			br, bg, bb, _ := b.At(x, y).RGBA()
			d := max(distance(ar, br), distance(ag, bg), distance(ab, bb))
			if parts, mean = parts+1, mean+d; d > lookColor {
				others++
			}
		}
	}
	return mean / parts, 100 * others / parts
}

func distance(a, b uint32) float64 {
	if a < b {
		a, b = b, a
	}
	return float64(a-b) / 257
}
