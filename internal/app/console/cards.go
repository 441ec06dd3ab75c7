package console

import (
	"fmt"
	"math"
	"strings"

	"holdfast/internal/app/service"
)

// Size of a sparkline in its own coordinates; the style sheet scales it.
const lineWidth, lineHeight = 200.0, 32.0

// stats shows a bar only for figures without a sparkline.
func (r *renderer) stats(b *service.Stats) {
	r.open("ul", "class", "stats")
	for i := range b.All {
		s := &b.All[i]
		r.open("li", "class", "tile")
		if s.To != "" {
			r.element("a", s.Name, "href", r.x.link(r.section, s.To), "class", "name whole")
		} else {
			r.element("span", s.Name, "class", "name")
		}
		r.open("span", "class", "value")
		if s.State != "" && s.State != service.OK {
			r.state(s.State)
			r.text(" ")
		}
		r.name(s.Value)
		r.element("small", s.Unit)
		r.close("span")
		switch {
		case len(s.Line) > 1:
			r.line(s.Line)
		case s.Most > 0:
			r.meter(s.Share, s.Most, false, s.Name)
		}
		if s.Note != "" {
			r.element("span", s.Note, "class", "note")
		}
		if s.Where != "" {
			r.element("span", "in "+s.Where, "class", "note where", "title", s.Where)
		}
		r.close("li")
	}
	r.close("ul")
}

// line draws a sparkline from 0 to the greatest value. NaN interrupts the line. It has no text alternative, because
// the tile shows the current value. values has at least two elements.
func (p *page) line(values []float64) {
	maximum := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			maximum = max(maximum, v)
		}
	}
	maximum = max(maximum, math.SmallestNonzeroFloat64)
	var path strings.Builder
	pen := "M"
	for i, v := range values {
		if math.IsNaN(v) {
			pen = "M"
			continue
		}
		x, y := lineWidth*float64(i)/float64(len(values)-1), 1+(lineHeight-2)*(1-v/maximum)
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, x, y)
		pen = "L"
	}
	p.open("svg", "class", "spark", "viewBox", fmt.Sprintf("0 0 %g %g", lineWidth, lineHeight), "preserveAspectRatio", "none", "aria-hidden", "true")
	p.open("path", "d", path.String())
	p.close("path", "svg")
}

// cards makes the whole card a link through the title's class. A card's first line is the emphasized figure.
func (r *renderer) cards(b *service.Cards) {
	r.heading(b.Title)
	r.open("ul", "class", "cards")
	for i := range b.All {
		c := &b.All[i]
		r.open("li", "class", "tile")
		r.open("div", "class", "top")
		r.icon(c.Icon)
		if c.To != "" {
			r.element("a", c.Title, "href", r.x.link(r.section, c.To), "class", "title whole")
		} else {
			r.element("span", c.Title, "class", "title")
		}
		if c.State != "" {
			r.state(c.State)
		}
		r.close("div")
		if c.Problem != nil {
			r.open("p", "class", "problem")
			r.element("a", c.Problem.Text, "href", r.x.link(r.section, c.Problem.To))
			r.close("p")
		}
		for j, text := range c.Lines {
			class := "note"
			if j == 0 {
				class = "most"
			}
			r.element("p", text, "class", class)
		}
		r.close("li")
	}
	r.close("ul")
}
