package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

type canvas struct {
	strings.Builder
	width, height int
	gradients     int
	random        *rand.Rand
}

func newCanvas(width, height int, seed string) *canvas {
	var a, b uint64 = 14695981039346656037, 1099511628211
	for _, c := range []byte(seed) {
		a = (a ^ uint64(c)) * b
	}
	return &canvas{width: width, height: height, random: rand.New(rand.NewPCG(a, b))}
}

func (c *canvas) between(least, most int) int { return least + c.random.IntN(most-least+1) }

func (c *canvas) svg() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">`, c.width, c.height) + c.String() + "</svg>\n"
}

func (c *canvas) fill(color, path string) {
	fmt.Fprintf(c, `<path fill="%s" d="%s"/>`, color, path)
}

func (c *canvas) veil(color string, percent int, path string) {
	fmt.Fprintf(c, `<path fill="%s" opacity=".%02d" d="%s"/>`, color, percent, path)
}

func (c *canvas) stroke(color string, width int, path string) {
	fmt.Fprintf(c, `<path fill="none" stroke="%s" stroke-width="%d" stroke-linecap="round" stroke-linejoin="round" d="%s"/>`, color, width, path)
}

func (c *canvas) gradient(top, bottom string) string {
	c.gradients++
	fmt.Fprintf(c, `<linearGradient id="g%d" x2="0" y2="1"><stop stop-color="%s"/><stop offset="1" stop-color="%s"/></linearGradient>`, c.gradients, top, bottom)
	return fmt.Sprintf("url(#g%d)", c.gradients)
}

func rect(x, y, width, height int) string {
	return fmt.Sprintf("M%d %dh%dv%dh%dz", x, y, width, height, -width)
}

func spire(x, y, width, height int) string {
	return fmt.Sprintf("M%d %dl%d %dh%dz", x, y-height, width/2, height, -width)
}

func dome(x, y, radius, height int) string {
	return fmt.Sprintf("M%d %da%d %d 0 0 1 %d 0z", x-radius, y, radius, height, 2*radius)
}

func disc(x, y, radius int) string {
	return fmt.Sprintf("M%d %da%d %d 0 1 0 %d 0a%d %d 0 1 0 %d 0z", x-radius, y, radius, radius, 2*radius, radius, radius, -2*radius)
}

func arch(x, y, width, height int) string {
	return fmt.Sprintf("M%d %dv%da%d %d 0 0 1 %d 0v%dz", x, y, -(height - width/2), width/2, width/2, width, height-width/2)
}

func (c *canvas) ridge(y, height, step int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M0 %dV%d", c.height, y)
	for x := 0; x < c.width; x += step {
		fmt.Fprintf(&b, "Q%d %d %d %d", x+step/2, y-c.between(height/3, height), x+step, y-c.between(0, height/4))
	}
	fmt.Fprintf(&b, "V%dz", c.height)
	return b.String()
}

func (c *canvas) peaks(y, height, step int) (rock, snow string) {
	var r, s strings.Builder
	fmt.Fprintf(&r, "M0 %dV%d", c.height, y-height/3)
	for x := 0; x < c.width; x += step {
		h := c.between(height*2/3, height)
		top := y - h
		fmt.Fprintf(&r, "L%d %dL%d %d", x+step/2, top, x+step, y-c.between(height/5, height/2))
		w, d := step/7, h/4
		fmt.Fprintf(&s, "M%d %dl%d %dl%d %dl%d %dl%d %dz", x+step/2, top, w, d, -w/2, -d/5, -w/2, d/3, -w/2, -d/3)
	}
	fmt.Fprintf(&r, "V%dz", c.height)
	return r.String(), s.String()
}

func (c *canvas) cloud(x, y, size int) {
	c.veil("#fff", 55, fmt.Sprintf("M%d %dh%da%d %d 0 0 0 %d %da%d %d 0 0 0 %d %da%d %d 0 0 0 %d %dz",
		x, y, 4*size, size, size/2, -size, -size/2, size, size, -2*size, -size/4, size, size*3/4, -size, size*3/4))
}

func (c *canvas) dashes(color string, height int, dashes, path string) {
	fmt.Fprintf(c, `<path stroke="%s" stroke-width="%d" stroke-dasharray="%s" d="%s"/>`, color, height, dashes, path)
}

func shade(color string) string {
	var r, g, b int
	_, _ = fmt.Sscanf(color, "#%02x%02x%02x", &r, &g, &b)
	return fmt.Sprintf("#%02x%02x%02x", (r*11+0x14*9)/20, (g*11+0x1c*9)/20, (b*11+0x40*9)/20)
}

func repeat(n int, draw func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(draw(i))
	}
	return b.String()
}
