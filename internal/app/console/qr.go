package console

import (
	"image/color"
	"strconv"
	"strings"

	"github.com/boombuler/barcode/qr"

	"holdfast/internal/app/service"
)

// quiet is the margin in modules; ISO/IEC 18004 requires four.
const quiet = 4

// qr draws a QR code as an SVG path with a rectangle for each run of dark modules. It uses the lowest error
// correction, which gives the largest modules.
func (r *renderer) qr(b *service.QR) {
	code, err := qr.Encode(b.Text, qr.L, qr.Unicode)
	if err != nil {
		return
	}
	size := code.Bounds().Dx()
	dark := func(x, y int) bool { return x < size && color.GrayModel.Convert(code.At(x, y)).(color.Gray).Y < 128 }
	var path strings.Builder
	for y := range size {
		for x := 0; x < size; x++ {
			if !dark(x, y) {
				continue
			}
			begin := x
			for dark(x, y) {
				x++
			}
			path.WriteString("M" + strconv.Itoa(begin+quiet) + " " + strconv.Itoa(y+quiet) + "h" + strconv.Itoa(x-begin) + "v1h-" + strconv.Itoa(x-begin) + "z")
		}
	}
	side := strconv.Itoa(size + 2*quiet)
	r.open("svg", "class", "qr", "role", "img", "viewBox", "0 0 "+side+" "+side, "aria-label", b.Label)
	r.open("path", "d", path.String())
	r.close("path", "svg")
}
