package chromium

import (
	"os"
	"testing"
)

const largestPicture = 60_000

func (p *Page) capture(t *testing.T, options map[string]any) []byte {
	t.Helper()
	var shot struct{ Data []byte }
	p.conn.must(t, p.session, "Page.captureScreenshot", options, &shot)
	return shot.Data
}

func (p *Page) Screenshot(t *testing.T) []byte {
	t.Helper()
	return p.capture(t, map[string]any{"format": "png", "captureBeyondViewport": true})
}

func (p *Page) Window(t *testing.T) []byte {
	t.Helper()
	return p.capture(t, map[string]any{"format": "png"})
}

// Picture returns the window as WebP, for documents.
func (p *Page) Picture(t *testing.T) []byte {
	t.Helper()
	p.conn.must(t, p.session, "Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, nil)
	Run[bool](t, p, `await Promise.all([...document.images].filter(i => i.getBoundingClientRect().top < innerHeight).map(i => i.decode().catch(() => {}))); return true`)
	return p.capture(t, map[string]any{"format": "webp", "quality": 70})
}

func (p *Page) Keep(t *testing.T, file string) {
	t.Helper()
	picture := p.Picture(t)
	if len(picture) > largestPicture {
		t.Errorf("%s has %d bytes, more than %d", file, len(picture), largestPicture)
	}
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *Browser) KeepPair(t *testing.T, file string, windows [][]byte) {
	t.Helper()
	p := b.Open(t, "about:blank")
	p.Resize(t, 1280, 520)
	Run[bool](t, p, `document.body.style.cssText = 'margin:0;display:grid;grid-template-columns:1fr 1fr;gap:12px;background:#8a96a0;padding:12px;box-sizing:border-box;height:100vh;align-items:center';
		for (const png of arguments[0]) {
			const img = new Image();
			img.src = 'data:image/png;base64,' + png;
			img.style.cssText = 'width:100%;display:block;border-radius:8px';
			await img.decode();
			document.body.append(img);
		}
		return true`, windows)
	p.Keep(t, file)
}
