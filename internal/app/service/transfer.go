package service

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// WriteWhole makes a file that is there when all is in it.
func WriteWhole(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".partial-*") // mode 0600
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Bar shows on a terminal how far a command is.
type Bar struct {
	to    io.Writer // nil: nothing is shown
	what  string
	n     int64
	total int64 // 0: not known
	drawn time.Time
}

// Bar returns a bar of so many of something; 0 is a number that nobody knows.
func (s *Shell) Bar(what string, total int64) *Bar {
	b := &Bar{what: what, total: total}
	if isTerminal(s.Stderr) {
		b.to = s.Stderr
	}
	return b
}

// OnTerminal reports whether somebody reads the output on a terminal.
func (s *Shell) OnTerminal() bool { return isTerminal(s.Stdout) }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Show is for every step; ten times a second are enough to see.
func (b *Bar) Show(n int64) {
	b.n = n
	if b.to != nil && time.Since(b.drawn) >= 100*time.Millisecond {
		b.draw()
	}
}

const barWidth = 30

func (b *Bar) draw() {
	b.drawn = time.Now()
	if b.total == 0 {
		fmt.Fprintf(b.to, "\r%d %s", b.n, b.what)
		return
	}
	filled := int(min(b.n, b.total) * barWidth / b.total)
	fmt.Fprintf(b.to, "\r[%s%s] %d of %d %s", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), b.n, b.total, b.what)
}

// End draws the bar a last time.
func (b *Bar) End() {
	if b.to != nil && !b.drawn.IsZero() {
		b.draw()
		fmt.Fprintln(b.to)
	}
}

// Reader returns a reader that shows how much was read of r.
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

// units are those of FormatBytes and ParseBytes.
var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// FormatBytes formats a number of bytes for people, such as 1.5 MiB.
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

// ParseBytes reads a number of bytes, which may have a unit: 5000, 5000B, 10GiB.
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
