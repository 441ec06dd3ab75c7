package main

import (
	"fmt"
	"strings"
)

type light struct {
	top, bottom, sun, far, middle, lit string
}

var lights = []light{
	{"#4aa3df", "#d9f0fa", "#fff6d0", "#a9c8dc", "#5f89a8", "#fdf3d3"},
	{"#f08a5d", "#fde3b4", "#fff1c9", "#d9a48f", "#9c5f6b", "#ffe9a8"},
	{"#1d2b57", "#a56b94", "#fdeecb", "#5a5688", "#2a2c58", "#ffd978"},
}

type city struct {
	name             string
	mountains, water bool
	trees            string // round, cypress or palm
	houses           []string
	landmarks        func() string // above the horizon
}

const horizon = 290

var (
	pastel = []string{"#e8b794", "#f0d3a2", "#d99a86", "#c9b6a0", "#e5c6b3"}
	bright = []string{"#d9584a", "#eab03f", "#3f8fa8", "#e58a5a", "#6aa584", "#c9688a"}
	brick  = []string{"#a3523f", "#8f4a3d", "#b9654b", "#7a4a45", "#c17a5b"}
	stone  = []string{"#e4d9c6", "#cfc4b4", "#ded1bd", "#c2b8ab", "#eee5d5"}
	white  = []string{"#f4efe6", "#efe0c9", "#f7d9a8", "#f2c1a2", "#e9eef0"}
)

var cities = []city{
	{"vienna", false, false, "round", stone, vienna}, {"salzburg", true, true, "round", pastel, salzburg}, {"tyrol", true, true, "round", bright, innsbruck},
	{"zurich", true, true, "round", stone, zurich}, {"geneva", true, true, "round", stone, geneva}, {"prague", false, true, "round", pastel, prague},
	{"berlin", false, false, "round", stone, berlin}, {"bavaria", true, false, "round", pastel, munich}, {"hamburg", false, true, "round", brick, hamburg},
	{"copenhagen", false, true, "round", bright, copenhagen}, {"catalonia", false, false, "palm", white, barcelona}, {"paris", false, false, "round", stone, paris},
	{"london", false, true, "round", brick, london}, {"lazio", false, false, "cypress", pastel, rome}, {"veneto", false, true, "cypress", pastel, venice},
	{"lisbon", false, true, "palm", white, lisbon},
}

func vienna() string {
	wheel := "M470 170a55 55 0 1 0 110 0a55 55 0 1 0-110 0zM476 170a49 49 0 1 1 98 0a49 49 0 1 1-98 0z"
	return rect(150, 190, 26, 100) + spire(163, 190, 30, 110) + "M120 290v-60l45-36l75 36v60z" + rect(290, 220, 110, 70) + dome(345, 220, 32, 46) + rect(342, 160, 6, 16) +
		rect(286, 206, 16, 84) + rect(388, 206, 16, 84) + dome(294, 206, 9, 14) + dome(396, 206, 9, 14) + wheel + "M524 120h2v50l26 120h-8l-19-100l-19 100h-8z" + rect(474, 168, 102, 3)
}

func salzburg() string {
	return "M0 290q120-130 200-150h170q110 20 150 150z" + rect(190, 112, 150, 40) + rect(220, 88, 50, 40) + spire(245, 90, 56, 24) + rect(300, 96, 26, 30) + spire(313, 98, 34, 22) +
		rect(176, 104, 22, 46) + rect(460, 190, 18, 100) + dome(469, 190, 12, 20) + rect(467, 160, 4, 14) + rect(520, 190, 18, 100) + dome(529, 190, 12, 20) + rect(527, 160, 4, 14) + rect(474, 230, 52, 60) + dome(499, 230, 24, 34)
}

func innsbruck() string {
	return rect(290, 176, 26, 114) + dome(303, 176, 16, 26) + rect(300, 136, 6, 20) + rect(120, 220, 70, 70) + spire(155, 222, 86, 34) + rect(430, 200, 20, 90) + dome(440, 200, 13, 20) + spire(440, 184, 8, 24)
}

func zurich() string {
	return rect(240, 160, 26, 130) + dome(253, 160, 15, 26) + spire(253, 138, 10, 24) + rect(284, 160, 26, 130) + dome(297, 160, 15, 26) + spire(297, 138, 10, 24) + rect(262, 220, 26, 70) +
		rect(470, 190, 20, 100) + spire(480, 192, 26, 90) + rect(110, 200, 22, 90) + spire(121, 202, 28, 60)
}

func geneva() string {
	return "M316 290C310 200 296 130 286 84c26 60 38 130 42 206z" + rect(130, 190, 24, 100) + spire(142, 192, 30, 70) + rect(90, 220, 110, 70) + rect(166, 200, 18, 90) + dome(175, 200, 12, 16) + rect(470, 230, 130, 60)
}

func prague() string {
	var b strings.Builder
	for _, t := range [][3]int{{120, 180, 16}, {150, 180, 16}, {230, 140, 20}, {262, 120, 14}, {292, 140, 20}, {400, 190, 14}, {520, 176, 20}} {
		b.WriteString(rect(t[0], t[1], t[2], 290-t[1]) + spire(t[0]+t[2]/2, t[1]+2, t[2]+10, t[2]*3))
	}
	return b.String() + rect(200, 210, 150, 80) + "M0 290v-34q320-26 640 0v34h-30a30 26 0 0 0-60 0h-30a30 26 0 0 0-60 0h-30a30 26 0 0 0-60 0h-30a30 26 0 0 0-60 0h-30a30 26 0 0 0-60 0h-30a30 26 0 0 0-60 0z"
}

func berlin() string {
	columns := repeat(6, func(i int) string { return rect(360+i*26, 226, 12, 64) })
	return "M196 290l8-150h4l8 150z" + disc(206, 140, 22) + rect(204, 50, 4, 80) + columns + rect(352, 206, 158, 22) + "M410 206l8-18h34l8 18z" + rect(70, 200, 70, 90) + dome(105, 200, 35, 38) + rect(250, 214, 50, 76)
}

func munich() string {
	return rect(220, 150, 32, 140) + dome(236, 150, 20, 26) + rect(234, 112, 4, 16) + rect(276, 150, 32, 140) + dome(292, 150, 20, 26) + rect(290, 112, 4, 16) + "M190 290v-60l30-24h90l40 24v60z" +
		rect(450, 170, 26, 120) + spire(463, 172, 30, 70) + rect(410, 224, 110, 66) + rect(90, 210, 24, 80) + dome(102, 210, 15, 22)
}

func hamburg() string {
	crane := func(x int) string {
		return fmt.Sprintf("M%d 290v-90h8v90zm30 0v-90h8v90zm-50-96h130v8h-130zm40-34l60 34h-70z", x)
	}
	return "M230 290V190q16-30 34 0q18-44 40-4q22-46 44 2q16-24 30 4v98z" + rect(120, 190, 24, 100) + spire(132, 192, 30, 90) + dome(132, 180, 15, 18) + crane(450) + rect(60, 236, 150, 54)
}

func copenhagen() string {
	return rect(180, 190, 26, 100) + "M180 190l8-50l5-34l5 34l8 50z" + rect(440, 176, 30, 114) + dome(455, 176, 22, 30) + spire(455, 152, 8, 34) + rect(300, 220, 20, 70) + spire(310, 222, 26, 50)
}

func barcelona() string {
	var b strings.Builder
	for i, h := range []int{120, 170, 190, 176, 130} {
		x := 190 + i*34
		fmt.Fprintf(&b, "M%d 290q2-%d 14-%dq12 0 14 %dz", x, h, h, h)
		b.WriteString(disc(x+14, 290-h, 4))
	}
	return b.String() + rect(190, 240, 160, 50) + "M450 290q2-120 24-150q24 30 26 150z" + rect(80, 226, 70, 64)
}

func paris() string {
	return "M286 290q30-70 36-200h8q6 130 36 200h-22q-6-30-18-30t-18 30z" + rect(308, 196, 36, 6) + rect(316, 150, 20, 5) + rect(325, 70, 2, 22) + rect(90, 210, 120, 80) + dome(150, 210, 34, 44) + rect(147, 150, 6, 20) +
		"M430 290v-64l12-18h130l12 18v64z"
}

func london() string {
	return rect(200, 130, 28, 160) + spire(214, 132, 34, 50) + rect(228, 226, 130, 64) + spire(250, 228, 12, 30) + spire(290, 228, 12, 30) + spire(340, 228, 12, 30) +
		"M420 200a70 70 0 1 0 140 0a70 70 0 1 0-140 0zM426 200a64 64 0 1 1 128 0a64 64 0 1 1-128 0z" + "M489 200h2l40 90h-8l-33-78l-33 78h-8z" + rect(424, 199, 132, 2) + rect(489, 134, 2, 132) + rect(90, 220, 70, 70) + dome(125, 220, 28, 40) + rect(123, 166, 4, 18)
}

func rome() string {
	arches := "M90 290v-74q80-22 160-4v78z"
	return arches + rect(300, 216, 150, 74) + rect(336, 196, 78, 24) + dome(375, 196, 38, 54) + rect(370, 126, 10, 20) + dome(316, 216, 12, 16) + dome(434, 216, 12, 16) + spire(540, 290, 12, 110)
}

func venice() string {
	return rect(200, 140, 28, 150) + spire(214, 142, 34, 50) + rect(360, 220, 120, 70) + dome(420, 220, 44, 58) + rect(416, 148, 8, 20) + dome(372, 220, 14, 22) + dome(468, 220, 14, 22) + rect(90, 226, 80, 64) + rect(560, 200, 18, 90) + spire(569, 202, 24, 40)
}

func lisbon() string {
	return "M0 290q100-90 230-96q120 4 200 96z" + rect(120, 180, 90, 30) + rect(130, 164, 16, 30) + rect(180, 164, 16, 30) + rect(430, 150, 8, 140) + rect(452, 150, 8, 140) + rect(426, 176, 38, 4) + rect(570, 160, 8, 130) + rect(590, 160, 8, 130) +
		"M300 262h340v6h-340zM444 150q70 100 140 100q10-40 12-90l4 0q0 60-10 100h-20q-80-6-126-106z"
}

func (c *canvas) sky(l light, variant int) {
	c.fill(c.gradient(l.top, l.bottom), rect(0, 0, c.width, c.height))
	x, y := c.between(90, 550), c.between(60, 130)
	c.veil(l.sun, 25, disc(x, y, 62))
	c.veil(l.sun, 90, disc(x, y, 34-6*variant))
	if variant == 2 {
		var stars strings.Builder
		for range 22 {
			stars.WriteString(rect(c.between(0, c.width), c.between(0, 150), 2, 2))
		}
		c.veil("#fff", 70, stars.String())
		return
	}
	for range 3 {
		c.cloud(c.between(0, 560), c.between(40, 150), c.between(14, 26))
	}
}

func (c *canvas) row(colors []string, l light, night bool) {
	const base = 340
	var lit strings.Builder
	for x := -10; x < c.width; {
		w, h := c.between(44, 74), c.between(56, 96)
		color, roof, slate := colors[c.random.IntN(len(colors))], "#8d4b3c", "#5b5f6b"
		if night {
			color, roof, slate = shade(color), shade(roof), shade(slate)
		}
		c.fill(color, rect(x, base-h, w, h))
		if c.random.IntN(3) > 0 {
			c.fill(roof, fmt.Sprintf("M%d %dl%d -%dl%d %dz", x-3, base-h, w/2+3, 22, w/2+3, 22))
		} else {
			c.fill(slate, fmt.Sprintf("M%d %dl8 -18h%dl8 18z", x-2, base-h, w-12))
		}
		for y := base - h + 15; y < base-18; y += 23 {
			fmt.Fprintf(&lit, "M%d %dh%d", x+8, y, w-14)
		}
		x += w
	}
	c.dashes(l.lit, 11, "8 10", lit.String())
}

func (p *city) picture(variant int) string {
	c, l := newCanvas(640, 420, fmt.Sprint(p.name, variant)), lights[variant]
	c.sky(l, variant)
	if p.mountains {
		rock, snow := c.peaks(horizon, 190, 160)
		c.fill(l.far, rock)
		c.veil("#fff", 80, snow)
	}
	c.fill(l.far, c.ridge(horizon-20, 60, 128))
	left, shift := c.between(360, 384), 0
	if variant == 1 {
		left, shift = c.between(24, 40), 150
	}
	fmt.Fprintf(c, `<path fill="%s" transform="translate(%d 0)" d="%s"/>`, l.middle, shift, p.landmarks())
	c.veil(l.bottom, 20, rect(0, 200, 640, 90))
	c.row(p.houses, l, variant == 2)
	c.ground(p, l)
	c.hotel(left, variant, l, p.houses[(variant+1)%len(p.houses)])
	for _, x := range []int{left - 34, left + 262, c.between(20, 620)} {
		c.tree(x, 388, p.trees)
	}
	return c.svg()
}

func (c *canvas) ground(p *city, l light) {
	c.fill("#cdbfa9", rect(0, 338, 640, 82))
	c.fill("#b3a48e", rect(0, 384, 640, 36))
	if !p.water {
		c.veil("#fff", 50, rect(40, 400, 60, 4)+rect(180, 400, 60, 4)+rect(320, 400, 60, 4)+rect(460, 400, 60, 4)+rect(600, 400, 60, 4))
		return
	}
	c.fill(c.gradient(l.top, l.middle), rect(0, 392, 640, 28))
	c.veil("#fff", 45, repeat(12, func(int) string { return rect(c.between(0, 620), c.between(396, 416), c.between(12, 50), 2) }))
}

func (c *canvas) hotel(x, variant int, l light, color string) {
	const top = 150
	c.veil("#000", 15, rect(x+14, top+14, 240, 238))
	c.fill(c.gradient(color, "#f7f1e6"), rect(x, top, 240, 238))
	switch variant {
	case 0: // mansard
		c.fill("#4c566a", fmt.Sprintf("M%d %dl16 -44h224l16 44z", x-8, top))
		c.veil(l.lit, 90, arch(x+30, top-6, 22, 28)+arch(x+84, top-6, 22, 28)+arch(x+138, top-6, 22, 28)+arch(x+192, top-6, 22, 28))
	case 1: // gable
		c.fill("#8a4636", fmt.Sprintf("M%d %dl128 -62l128 62z", x-8, top))
		c.veil(l.lit, 90, disc(x+120, top-22, 12))
	default: // flat roof terrace
		c.fill("#3c4358", rect(x-6, top-8, 252, 10))
		c.fill("#2f6b57", disc(x+30, top-16, 12)+disc(x+54, top-14, 9)+disc(x+206, top-16, 13))
		c.fill("#e2725b", spire(x+120, top-24, 70, 20))
		c.fill("#3c4358", rect(x+119, top-26, 3, 20))
	}
	rows, sills := "", ""
	for floor := range 4 {
		y := top + 30 + floor*43
		rows += fmt.Sprintf("M%d %dh206", x+16, y)
		sills += fmt.Sprintf("M%d %dh206", x+11+(floor+variant)%3*36, y+15)
	}
	c.dashes("#fffaf0", 33, "26 10", rows)
	c.dashes(windowColor[variant], 27, "0 2 10 2 10 12", rows)
	c.dashes("#39424e", 6, "32 76", sills)
	c.veil("#fff", 70, rect(x, top+186, 240, 4))
	c.entrance(x, top+238, l)
}

var windowColor = []string{"#86b6d6", "#f3c873", "#ffd46b"}

func (c *canvas) entrance(x, base int, l light) {
	c.fill("#39424e", rect(x+10, base-42, 62, 32)+rect(x+168, base-42, 62, 32))
	c.fill(l.lit, rect(x+13, base-39, 27, 26)+rect(x+42, base-39, 27, 26)+rect(x+171, base-39, 27, 26)+rect(x+200, base-39, 27, 26))
	c.fill("#39424e", rect(x+98, base-44, 44, 44))
	c.fill(l.lit, rect(x+102, base-40, 17, 40)+rect(x+121, base-40, 17, 40))
	c.dashes("#c8452f", 16, "6", fmt.Sprintf("M%d %dh72", x+84, base-50))
	c.dashes("#fff4e0", 16, "6", fmt.Sprintf("M%d %dh66", x+90, base-50))
	c.fill("#2f7d5b", disc(x+86, base-12, 9)+disc(x+154, base-12, 9))
	c.fill("#8c5a3c", rect(x+80, base-8, 12, 8)+rect(x+148, base-8, 12, 8))
}

func (c *canvas) tree(x, y int, kind string) {
	switch kind {
	case "palm":
		c.stroke("#8c6a4a", 6, fmt.Sprintf("M%d %dq-6-50 4-96", x, y))
		ends := [][2]int{{-40, 10}, {-30, -22}, {0, -34}, {30, -22}, {40, 10}}
		c.fill("#2f7d5b", repeat(len(ends), func(i int) string {
			to := ends[i]
			return fmt.Sprintf("M%d %dq%d %d %d %dq%d %d %d %dz", x+4, y-96, to[0]/2, to[1]-14, to[0], to[1], -to[0]/3, -12, -to[0], -to[1])
		}))
	case "cypress":
		c.fill("#2c6048", fmt.Sprintf("M%d %dq-20-70 0-120q20 50 0 120z", x, y))
	default:
		c.fill("#7a5540", rect(x-3, y-40, 6, 40))
		c.fill("#3f8a5f", disc(x, y-66, 28))
		c.veil("#fff", 15, disc(x-8, y-74, 14))
	}
}
