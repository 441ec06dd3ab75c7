package console

// icons are paths in a view box of 20 by 20, drawn as strokes.
var icons = map[string]string{
	"server":   "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01",
	"activity": "M2.5 10.5h3.5l2.5-6 3.5 11 2.5-5h3",
	"shield":   "M10 2.5 16.5 5v5c0 4-2.8 6.5-6.5 7.5C6.3 16.5 3.5 14 3.5 10V5zM7.2 10l2 2 3.6-4",
	"settings": "M3 5.5h8M15 5.5h2M13 3.5v4M3 10h2M9 10h8M7 8v4M3 14.5h8M15 14.5h2M13 12.5v4",
	"sync":     "M4 9a6 6 0 0 1 10.5-3L16 7.5M16 4v3.5h-3.5M16 11a6 6 0 0 1-10.5 3L4 12.5M4 16v-3.5h3.5",
	"accounts": "M10 10a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM3.8 17c.6-3.3 3-5 6.2-5s5.6 1.7 6.2 5",
	"records":  "M7 3.5c-2 0-2 1-2 2.5s0 4-2 4c2 0 2 2.5 2 4s0 2.5 2 2.5M13 3.5c2 0 2 1 2 2.5s0 4 2 4c-2 0-2 2.5-2 4s0 2.5-2 2.5",
	"bucket":   "M3.5 6h13l-1.5 10.5h-10zM3.5 6c0-1.4 3-2.5 6.5-2.5s6.5 1.1 6.5 2.5",
	"hotel":    "M4 17V4.5h7V17M11 9h5v8M2.5 17h15M6.5 7.5h2M6.5 10.5h2M6.5 13.5h2M13 12h1",
	"box":      "M3 6.5 10 3l7 3.5v7L10 17l-7-3.5zM3 6.5l7 3.5 7-3.5M10 10v7",
	"search":   "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l4 4",
	"menu":     "M3 5.5h14M3 10h14M3 14.5h14",
	"more":     "M4.5 10h.01M10 10h.01M15.5 10h.01",
	"copy":     "M7 7h9v9H7zM13 7V4H4v9h3",
	"ok":       "M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM6.5 10.2l2.4 2.4 4.6-5",
	"warning":  "M10 3 1.8 17h16.4zM10 8v4.5M10 14.8h.01",
	"wrong":    "M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM7.3 7.3l5.4 5.4M12.7 7.3l-5.4 5.4",
	"folder":   "M2.5 15.5v-11h5l2 2.5h8v8.5z",
	"file":     "M5 2.5h7l3.5 3.5v11.5H5zM12 2.5V6h3.5",
	"deleted":  "M5 2.5h7l3.5 3.5v11.5H5zM12 2.5V6h3.5M8 9.5l4 4M12 9.5l-4 4",
	"plus":     "M10 4v12M4 10h12",
	"upload":   "M10 13V3.5M6 7.2l4-4 4 4M3.5 13v3.5h13V13",
	"image":    "M3 4h14v12H3zM3 13.5l4-4 3.5 3.5 2-2 4.5 4.5M12.5 7.5h.01",
}

// icon draws a box if the name is unknown. Icons have no text alternative: a text stands beside each.
func (p *page) icon(name string) {
	d, ok := icons[name]
	if !ok {
		d = icons["box"]
	}
	p.open("svg", "class", "icon", "viewBox", "0 0 20 20", "aria-hidden", "true")
	p.open("path", "d", d)
	p.close("path", "svg")
}

// mark draws the logo; static/icon.svg has the same shape.
func (p *page) mark() {
	p.open("svg", "class", "mark", "viewBox", "0 0 32 32", "aria-hidden", "true")
	p.open("rect", "width", "32", "height", "32", "rx", "8")
	p.close("rect")
	p.open("path", "d", "M11 6v12c0 4-1.5 6-4.5 8M21 6v12c0 4 1.5 6 4.5 8M11 15.5h10M16 15.5V26")
	p.close("path", "svg")
}
