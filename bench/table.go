package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

type row struct {
	work, engine string
	connections  int
	goal         goal
	server       []sample
	limit        []float64
	peak         int64
}

func (r *row) title() string { return fmt.Sprintf("%s-%s-%d", r.work, r.engine, r.connections) }

func (r *row) ops() float64 { return median(r.server, func(s sample) float64 { return s.ops }) }

func (r *row) bare() float64 { return median(r.limit, func(ops float64) float64 { return ops }) }

func (r *row) cpu() time.Duration {
	return median(r.server, func(s sample) time.Duration { return s.cpu })
}

func (r *row) missed() bool {
	return r.ops()/r.bare() < r.goal.ratio || r.goal.cpu > 0 && r.cpu() > r.goal.cpu
}

func (r *row) goalText() string {
	if r.goal.ratio == 0 {
		return "–"
	}
	text := fmt.Sprintf("%.2f", r.goal.ratio)
	if r.goal.cpu > 0 {
		text += fmt.Sprintf(", %d µs", r.goal.cpu.Microseconds())
	}
	if r.missed() {
		text = "**missed** " + text
	}
	return text
}

type table struct{ out io.Writer }

func (t *table) head() {
	fmt.Fprintln(t.out, "| work | engine | connections | server ops/s | limit ops/s | ratio | goal | p50 | p99 | server CPU µs/op | engine CPU µs/op | peak memory |")
	fmt.Fprintln(t.out, "|---|---|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|")
}

func (t *table) row(r *row) {
	fmt.Fprintf(t.out, "| %s | %s | %d | %.*f | %.*f | %.2f | %s | %s | %s | %d | %s | %s |\n",
		r.work, r.engine, r.connections, digits(r.ops()), r.ops(), digits(r.bare()), r.bare(), r.ops()/r.bare(), r.goalText(),
		ms(median(r.server, func(s sample) time.Duration { return s.p50 })),
		ms(median(r.server, func(s sample) time.Duration { return s.p99 })),
		r.cpu().Microseconds(), engineCPU(median(r.server, func(s sample) time.Duration { return s.engine })), mb(r.peak))
}

func digits(ops float64) int {
	if ops < 100 {
		return 1
	}
	return 0
}

func engineCPU(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return strconv.FormatInt(d.Microseconds(), 10)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func mb(bytes int64) string { return fmt.Sprintf("%d MB", bytes>>20) }

func thousands(n int) string {
	text := strconv.Itoa(n)
	var out strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(digit)
	}
	return out.String()
}
