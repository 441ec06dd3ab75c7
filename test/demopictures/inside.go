package main

import "fmt"

type room struct {
	wall, wallLow, floor, cloth, accent string
	beds                                []int
	width                               int
}

var rooms = map[string]room{
	"double-a": {"#e9dfd0", "#dccdb8", "#b98d62", "#2f6f7e", "#e3a34f", []int{190}, 260},
	"double-b": {"#cfdcd6", "#b9cbc3", "#a9825d", "#b5533c", "#efc88b", []int{190}, 260},
	"family-a": {"#f0e3c8", "#e4d2ae", "#b98d62", "#c9683f", "#3f8a8c", []int{60, 340}, 220},
	"family-b": {"#d9dfe9", "#c4cddd", "#a9825d", "#3f5d8c", "#e3b54f", []int{60, 340}, 220},
	"suite-a":  {"#44505c", "#38434e", "#8c6546", "#c9a15f", "#e8dcc6", []int{40}, 280},
	"suite-b":  {"#5c4450", "#4c3742", "#7d5a41", "#d8b48a", "#ecd9d0", []int{40}, 280},
}

func (c *canvas) view(x, y, width, height int) {
	c.fill("#fff", rect(x-8, y-8, width+16, height+16))
	c.fill(c.gradient("#6fb7e0", "#e4f3f8"), rect(x, y, width, height))
	c.fill("#8fb6a4", fmt.Sprintf("M%d %dv-%dq%d -%d %d -10t%d -6v%dz", x, y+height, height/3, width/4, height/4, width/2, width/2, height/3+16))
	c.fill("#fff", rect(x+width/2-3, y, 6, height))
}

func (r *room) picture(name string) string {
	c := newCanvas(640, 420, name)
	c.fill(c.gradient(r.wall, r.wallLow), rect(0, 0, 640, 300))
	c.fill(c.gradient(r.floor, "#6d4f38"), rect(0, 300, 640, 120))
	c.fill("#fff", rect(0, 294, 640, 8))
	suite := len(r.beds) == 1 && r.beds[0] < 100
	if suite {
		c.view(400, 50, 200, 200)
		c.fill(r.accent, rect(376, 30, 26, 250)+rect(598, 30, 26, 250))
	} else {
		c.view(250, 40, 140, 100)
	}
	c.veil("#fff", 30, fmt.Sprintf("M%d 320l120-30h180l-60 110h-300z", r.beds[0]+60))
	for _, x := range r.beds {
		c.bed(x, r)
	}
	if suite {
		c.fill(r.cloth, "M390 300q0-16 16-16h180q16 0 16 16v60h-212z")
		c.fill(r.accent, rect(402, 320, 92, 34)+rect(498, 320, 92, 34))
		c.fill("#3c2c22", rect(396, 360, 10, 16)+rect(586, 360, 10, 16))
	}
	c.lamp(r.beds[len(r.beds)-1]+r.width+28, 300)
	return c.svg()
}

func (c *canvas) bed(x int, r *room) {
	w := r.width
	c.fill("#7a5540", fmt.Sprintf("M%d 330v-130q0-14 14-14h%dq14 0 14 14v130z", x-8, w-12))
	c.fill("#fff", rect(x, 262, w, 100))
	c.fill("#f2ede4", fmt.Sprintf("M%d 262q0-34 20-34h%dq18 0 18 34z", x+12, w/2-58)+fmt.Sprintf("M%d 262q0-34 20-34h%dq18 0 18 34z", x+w/2+8, w/2-58))
	c.fill(r.accent, fmt.Sprintf("M%d 266q0-26 14-26h50q14 0 14 26z", x+w/2-39))
	c.fill(r.cloth, fmt.Sprintf("M%d 290q%d 20 %d 0v82h-%dz", x-4, w/2, w+8, w+8))
	c.veil("#fff", 20, rect(x-4, 318, w+8, 12))
	c.fill("#4a3325", rect(x+4, 372, 10, 16)+rect(x+w-14, 372, 10, 16))
}

func (c *canvas) lamp(x, y int) {
	c.fill("#7a5540", rect(x-26, y, 52, 60))
	c.fill("#c9b79c", rect(x-2, y-44, 4, 44))
	c.fill("#ffe3a1", fmt.Sprintf("M%d %dl10 -34h28l10 34z", x-24, y-36))
	c.veil("#ffe9b0", 25, disc(x, y-48, 60))
}

func breakfast() string {
	c := newCanvas(640, 420, "breakfast")
	c.fill(c.gradient("#f6e7cf", "#ead3ae"), rect(0, 0, 640, 420))
	c.view(70, 40, 200, 150)
	c.view(370, 40, 200, 150)
	c.fill(c.gradient("#fffaf0", "#e8dcc8"), "M0 300q320-60 640 0v120H0z")
	c.veil("#b9a98c", 35, "M0 330q320-60 640 0v6q-320-60-640 0z")
	c.fill("#fff", "M90 330a110 34 0 1 0 220 0a110 34 0 1 0-220 0z")
	c.fill("#d9924a", "M130 322q20-42 62-40q48 0 66 36q-20-10-34 0q-12-12-30-8q-16-6-28 6q-18-10-36 6z")
	c.veil("#7a3f1a", 40, "M160 296l8 22l8-2l-8-22zM196 286l2 26h9l-2-26zM230 294l-6 20l9 4l7-18z")
	c.fill("#2f6f7e", "M380 270h90q0 60-20 70h-50q-20-10-20-70z")
	c.stroke("#2f6f7e", 9, "M470 284q30-4 26 22t-36 18")
	c.fill("#5b3420", "M386 270a39 8 0 1 0 78 0a39 8 0 1 0-78 0z")
	c.stroke("#fff", 4, "M410 250q-8-14 2-24t0-22")
	c.stroke("#fff", 4, "M438 250q-8-14 2-24t0-22")
	c.fill("#e8862e", disc(560, 300, 26)+disc(520, 318, 24))
	c.fill("#3f8a5f", "M560 276q10-20 26-18q-4 18-26 18z")
	return c.svg()
}

func pool() string {
	c := newCanvas(640, 420, "pool")
	c.fill(c.gradient("#56b0e2", "#e4f6fb"), rect(0, 0, 640, 230))
	c.cloud(90, 80, 24)
	c.cloud(400, 60, 18)
	c.fill("#8fc0a8", c.ridge(210, 70, 128))
	c.fill("#e9ddc8", rect(0, 220, 640, 200))
	c.fill(c.gradient("#2fa4c7", "#7fd6e4"), "M40 262h520l80 158H0z")
	c.veil("#fff", 50, repeat(26, func(int) string { return rect(c.between(60, 540), c.between(276, 410), c.between(16, 60), 3) }))
	for i, x := range []int{90, 250, 410} {
		c.fill([]string{"#e2725b", "#f0b84a", "#e2725b"}[i], spire(x+50, 190, 110, 34))
		c.fill("#8c6a4a", rect(x+49, 170, 4, 74))
		c.fill("#fff", fmt.Sprintf("M%d 240h70l20 -22h8l-22 32h-76z", x+20))
	}
	c.tree(580, 250, "palm")
	c.tree(30, 244, "palm")
	return c.svg()
}

func spa() string {
	c := newCanvas(640, 420, "spa")
	c.fill(c.gradient("#d8e4dc", "#a9c4b6"), rect(0, 0, 640, 420))
	c.veil("#fff", 30, disc(470, 120, 90))
	c.fill("#7a5a44", rect(0, 320, 640, 100))
	c.veil("#000", 15, rect(0, 340, 640, 3)+rect(0, 376, 640, 3))
	for _, s := range [][3]int{{330, 310, 90}, {330, 272, 70}, {330, 240, 50}, {330, 214, 34}} {
		c.fill(c.gradient("#5d6670", "#39414a"), fmt.Sprintf("M%d %da%d 20 0 1 0 %d 0a%d 20 0 1 0-%d 0z", s[0]-s[2], s[1], s[2], 2*s[2], s[2], 2*s[2]))
	}
	for i, y := range []int{290, 258, 226} {
		c.fill([]string{"#fff", "#e9d7bd", "#fff"}[i], fmt.Sprintf("M70 %dq0-30 20-30h110q20 0 20 15t-20 15z", y+30))
	}
	c.fill("#f6ead2", rect(500, 270, 44, 60))
	c.fill("#f2a33c", "M522 270q-16-20 0-44q16 24 0 44z")
	c.stroke("#3f7a5f", 6, "M430 60q60 60 40 150")
	c.fill("#4f9374", repeat(6, func(i int) string {
		return fmt.Sprintf("M%d %dq40-20 60 6q-36 18-60-6zm-6 10q-44-10-60 18q40 10 60-18z", 452+i*6, 80+i*22)
	}))
	return c.svg()
}

func lobby() string {
	c := newCanvas(640, 420, "lobby")
	c.fill(c.gradient("#2f4858", "#4f6d7a"), rect(0, 0, 640, 300))
	c.fill(c.gradient("#d9c3a0", "#a98a63"), rect(0, 300, 640, 120))
	c.fill("#f0d9a8", arch(60, 300, 90, 220)+arch(490, 300, 90, 220))
	c.fill("#86b6d6", arch(70, 300, 70, 205)+arch(500, 300, 70, 205))
	c.fill("#7a5540", rect(200, 230, 240, 90))
	c.fill("#5b3d2d", rect(190, 220, 260, 14))
	c.veil("#fff", 15, rect(216, 246, 60, 60)+rect(290, 246, 60, 60)+rect(364, 246, 60, 60))
	for _, x := range []int{240, 320, 400} {
		c.fill("#e8dcc6", rect(x-1, 0, 2, 90))
		c.fill("#ffd97a", fmt.Sprintf("M%d 120q0-34 24-34t24 34z", x-24))
		c.veil("#ffe9b0", 20, disc(x, 120, 56))
	}
	c.fill("#2f7d5b", disc(470, 190, 22)+disc(492, 206, 18)+disc(452, 208, 16))
	c.fill("#e9d7bd", "M450 220h44l-8 0h-28z")
	c.fill("#c8664a", "M40 350q0-22 22-22h96q22 0 22 22v40H40z")
	c.fill("#d98468", rect(56, 352, 108, 24))
	return c.svg()
}

// street draws a city map that spans 0.0425° in each direction.
func (p *city) street() string {
	c := newCanvas(600, 600, "map "+p.name)
	c.fill("#f1ede4", rect(0, 0, 600, 600))
	for range 5 {
		x, y, r := c.between(0, 600), c.between(0, 600), c.between(30, 70)
		c.fill("#cfe3c2", fmt.Sprintf("M%d %dq%d %d %d %dt%d %dt%d %dz", x, y, r, -r, 2*r, 0, -r/2, r, -r, r/3))
	}
	c.stroke("#fff", 5, repeat(12, func(i int) string {
		at := i*54 + c.between(-8, 8)
		return fmt.Sprintf("M%d 0q%d 300 %d 600M0 %dq300 %d 600 %d", at, c.between(-40, 40), c.between(-30, 30), at, c.between(-40, 40), c.between(-30, 30))
	}))
	y := c.between(140, 460)
	river := fmt.Sprintf("M-20 %dC150 %d 260 %d 380 %dS560 %d 640 %d", y, y+c.between(-120, 120), y+c.between(-160, 160), y+c.between(-60, 60), c.between(80, 520), c.between(60, 540))
	width := 14
	if p.water {
		width = 34
	}
	c.stroke("#a9d3e6", width, river)
	c.stroke("#fbd88a", 9, fmt.Sprintf("M%d 0Q300 300 %d 600M0 %dQ300 300 600 %d", c.between(80, 520), c.between(80, 520), c.between(80, 520), c.between(80, 520)))
	c.stroke("#fff", 7, "M160 300a140 140 0 1 0 280 0a140 140 0 1 0-280 0z")
	c.stroke("#b9b2a6", 3, fmt.Sprintf("M%d 0Q240 340 0 %d", c.between(300, 600), c.between(300, 600)))
	return c.svg()
}

func mark() string {
	c := newCanvas(64, 64, "mark")
	c.fill("#b3412a", "M16 0h32q16 0 16 16v32q0 16-16 16H16Q0 64 0 48V16Q0 0 16 0z")
	c.stroke("#fff", 4, "M24 16a8 8 0 0 1 16 0")
	c.fill("#fff", "M18 18h28l-4 30H22z"+rect(20, 50, 24, 4))
	c.fill("#f6b73c", "M32 24q-12 14 0 20q12-6 0-20z")
	return c.svg()
}
