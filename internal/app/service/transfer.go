package service

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"holdfast/internal/durable"
)

// WriteWhole writes to a temporary file and renames it once complete and synced. The temporary name is visible, so
// that users find the remains of a killed export.
func WriteWhole(name string, write func(io.Writer) error) error {
	return durable.File{Name: name, Temporary: filepath.Base(name) + ".partial-"}.Replace(write)
}

// Bar is a progress bar on standard error; without a terminal it shows nothing.
type Bar struct {
	to    io.Writer // nil: hidden
	what  string
	n     int64
	total int64 // 0: unknown
	begun time.Time
	drawn time.Time
	line  bool

	Bytes int64 // bytes moved, shown with the rate; 0: hidden
}

// Bar returns a bar; what is the unit in plural, e.g. "rows", and total 0 means unknown.
func (s *Shell) Bar(what string, total int64) *Bar {
	b := &Bar{what: what, total: total, begun: time.Now()}
	if IsTerminal(s.Stderr) {
		b.to = s.Stderr
	}
	return b
}

// Show may be called often: it draws ten times a second.
func (b *Bar) Show(n int64) {
	b.n = n
	if b.to != nil && time.Since(b.drawn) >= 100*time.Millisecond {
		b.draw()
	}
}

// ShowOf is Show with another total.
func (b *Bar) ShowOf(n, total int64) {
	b.total = total
	b.Show(n)
}

// ShowLine shows a text instead of the bar, until the next update.
func (b *Bar) ShowLine(text string) {
	if b.to != nil {
		b.line, b.drawn = true, time.Time{}
		fmt.Fprintf(b.to, "\r%s\x1b[K", text)
	}
}

const barWidth = 30

func (b *Bar) draw() {
	b.drawn, b.line = time.Now(), false
	if b.total == 0 {
		fmt.Fprintf(b.to, "\r%d %s%s", b.n, b.what, b.moved())
		return
	}
	filled := int(min(b.n, b.total) * barWidth / b.total)
	fmt.Fprintf(b.to, "\r[%s%s] %d of %d %s%s\x1b[K", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), b.n, b.total, b.what, b.moved()+b.rate())
}

// moved returns the transferred bytes and their rate.
func (b *Bar) moved() string {
	passed := b.drawn.Sub(b.begun)
	if b.Bytes == 0 || passed < time.Second {
		return ""
	}
	return fmt.Sprintf(", %s, %s/s", FormatBytes(b.Bytes), FormatBytes(int64(float64(b.Bytes)/passed.Seconds())))
}

// rate returns the rate and the estimated time left.
func (b *Bar) rate() string {
	passed := b.drawn.Sub(b.begun)
	if passed < time.Second || b.n == 0 {
		return ""
	}
	text := fmt.Sprintf(", %.0f/s", float64(b.n)/passed.Seconds())
	if left := b.total - b.n; left > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(float64(passed)*float64(left)/float64(b.n)).Round(time.Second))
	}
	return text
}

// End draws the last state and ends the line.
func (b *Bar) End() {
	switch {
	case b.to == nil:
	case b.line:
		fmt.Fprintln(b.to)
	case !b.drawn.IsZero():
		b.draw()
		fmt.Fprintln(b.to)
	}
}

// Reader shows the number of bytes read.
func (b *Bar) Reader(r io.Reader) io.Reader { return &counting{r, b, 0} }

type counting struct {
	io.Reader
	bar  *Bar
	read int64
}

func (r *counting) Read(p []byte) (n int, err error) {
	n, err = r.Reader.Read(p)
	if r.read += int64(n); n > 0 {
		r.bar.Show(r.read)
	}
	return n, err
}

var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// FormatBytes formats bytes for people, e.g. 1.5 MiB.
func FormatBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for ; v >= 1023.95 && i < len(units)-1; i++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

// ParseBytes parses bytes with an optional unit: 5000, 5000B, 10GiB.
func ParseBytes(s string) (int64, bool) {
	digits, factor := strings.TrimSuffix(s, "B"), int64(1)
	for i, unit := range units {
		if before, ok := strings.CutSuffix(s, unit); ok {
			digits, factor = before, 1<<(10*(i+1))
		}
	}
	digits = strings.TrimSuffix(digits, " ")
	if digits == "" || len(digits) > 19 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' || n > (1<<63-1-int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if n > (1<<63-1)/factor {
		return 0, false
	}
	return n * factor, true
}

// Bytes is a size in a result: rounded with a unit for people, exact in JSON and scripts.
type Bytes int64

func (n Bytes) Rounded() string { return FormatBytes(int64(n)) }

// Rounded is a result with sizes: rounded on pages and terminals, otherwise, e.g. in a pipe, exact (fmt.Sprint).
type Rounded interface{ Rounded() string }
