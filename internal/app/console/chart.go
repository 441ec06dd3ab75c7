package console

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
)

const (
	// Coordinates of the view box. The left margin holds the scale, the bottom margin the times.
	chartWidth, chartHeight = 600.0, 160.0 // Coordinates in the view box. The left margin holds the scale, the bottom margin the times.
	chartLeft, chartBottom  = 60.0, 20.0
)

// charts writes the charts below the links to other periods.
func (r *renderer) charts(b *service.Charts) {
	if len(b.Spans.All) > 0 {
		r.views(&b.Spans)
	}
	r.open("div", "class", "charts")
	for _, c := range b.All {
		r.chart(c)
	}
	r.close("div")
}

// chart draws a chart as SVG, which works without JavaScript and stays for screen readers, and adds its data for
// charts.js, which draws an interactive chart over it. The scale ends at a round number, for bytes at a power of two.
// A line needs two points in time, so a server shows a sentence for its first minute.
func (r *renderer) chart(c *service.Chart) {
	maximum := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				maximum = max(maximum, v)
			}
		}
	}
	r.open("figure")
	r.element("figcaption", c.Title)
	if len(c.Times) < 2 {
		r.element("p", "The chart begins a minute after the server starts.", "class", "empty")
		r.close("figure")
		return
	}
	top := roundUp(maximum)
	if c.Unit == "B" {
		top = math.Pow(2, math.Ceil(math.Log2(max(maximum, 1))))
	}
	r.open("svg", "class", "chart", "role", "img", "viewBox", fmt.Sprintf("0 0 %g %g", chartWidth, chartHeight), "aria-label", describe(c))
	for i := range 3 {
		y := (chartHeight - chartBottom) * (1 - float64(i)/2)
		y = max(y, 1)
		r.open("line", "x1", num(chartLeft), "x2", num(chartWidth), "y1", num(y), "y2", num(y), "class", "grid")
		r.close("line")
		r.element("text", formatValue(top*float64(i)/2, c.Unit), "x", num(chartLeft-4), "y", num(max(y, 10)), "class", "scale")
	}
	for i, s := range c.Series {
		r.open("path", "d", line(c, s.Values, top), "class", "line"+strconv.Itoa(i)+" line")
		r.close("path")
	}
	first, last := c.Times[0], c.Times[len(c.Times)-1]
	r.element("text", formatTime(first, first, last), "x", num(chartLeft), "y", num(chartHeight-4), "class", "from")
	r.element("text", formatTime(last, first, last)+" UTC", "x", num(chartWidth), "y", num(chartHeight-4), "class", "scale")
	r.close("svg")
	if data := plotData(c, top); data != "" {
		r.open("div", "class", "plot", "data-chart", data)
		r.close("div")
	}
	r.open("ul", "class", "legend")
	for i, s := range c.Series {
		r.open("li", "class", "line"+strconv.Itoa(i))
		r.text(s.Name + ": " + formatValue(latest(s.Values), c.Unit))
		r.close("li")
	}
	r.close("ul", "figure")
}

// formatTime adds the day if the chart, from first to last, is longer than longDay.
func formatTime(t, first, last time.Time) string {
	layout := "15:04"
	if last.Sub(first) > longDay {
		layout = "2 Jan 15:04"
	}
	return t.UTC().Format(layout)
}

// longDay must equal longDay in charts.js.
const longDay = 20 * time.Hour

// line returns an SVG path with gaps for missing values. An isolated value becomes a short stroke.
func line(c *service.Chart, values []float64, top float64) string {
	var b strings.Builder
	first := c.Times[0]
	span := c.Times[len(c.Times)-1].Sub(first).Seconds()
	pen := "M"
	known := func(i int) bool { return i >= 0 && i < len(values) && !math.IsNaN(values[i]) }
	for i, v := range values {
		if !known(i) {
			pen = "M"
			continue
		}
		x := chartLeft + (chartWidth-chartLeft)*c.Times[i].Sub(first).Seconds()/max(span, 1)
		y := (chartHeight - chartBottom) * (1 - v/top)
		b.WriteString(pen + num(x) + " " + num(max(y, 1)))
		if pen = "L"; !known(i-1) && !known(i+1) {
			b.WriteString("h-3")
		}
	}
	return b.String()
}

// plotData returns a chart's data as JSON for charts.js, with null for missing values and six significant digits. top
// ends the scale, so that the script draws the same one. It returns "" on an error; the page then keeps the SVG.
func plotData(c *service.Chart, top float64) string {
	number := func(v float64) json.RawMessage {
		if math.IsNaN(v) {
			return json.RawMessage("null")
		}
		return json.RawMessage(strconv.FormatFloat(v, 'g', 6, 64))
	}
	data := struct {
		Title  string              `json:"title"`
		Unit   string              `json:"unit"`
		Top    float64             `json:"top"`
		Times  []float64           `json:"times"` // Unix seconds
		Names  []string            `json:"names"`
		Values [][]json.RawMessage `json:"values"`
	}{Title: c.Title, Unit: c.Unit, Top: top}
	for _, t := range c.Times {
		data.Times = append(data.Times, float64(t.UnixMilli())/1000)
	}
	for _, s := range c.Series {
		values := make([]json.RawMessage, len(s.Values))
		for i, v := range s.Values {
			values[i] = number(v)
		}
		data.Names, data.Values = append(data.Names, s.Name), append(data.Values, values)
	}
	text, err := json.Marshal(data)
	if err != nil {
		return ""
	}
	return string(text)
}

// num formats a coordinate.
func num(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// roundUp returns the next number of the form 1, 2 or 5 times a power of ten, or 1 if v is not positive.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}

// latest returns NaN without values.
func latest(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return values[len(values)-1]
}

// describe returns the chart's text alternative for screen readers: for each series the current and the greatest
// value.
func describe(c *service.Chart) string {
	var parts []string
	for _, s := range c.Series {
		maximum := math.NaN()
		for _, v := range s.Values {
			if math.IsNaN(maximum) || v > maximum {
				maximum = v
			}
		}
		parts = append(parts, fmt.Sprintf("%s: now %s, at most %s", s.Name, formatValue(latest(s.Values), c.Unit), formatValue(maximum, c.Unit)))
	}
	first, last := c.Times[0], c.Times[len(c.Times)-1]
	return fmt.Sprintf("%s, %s to %s UTC. %s", c.Title, formatTime(first, first, last), formatTime(last, first, last), strings.Join(parts, ". "))
}

// formatValue formats a value in a Chart.Unit. Seconds below 1 become milliseconds; NaN is "none".
func formatValue(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "none"
	case unit == "B":
		return service.FormatBytes(int64(v))
	case unit == "s" && v < 1:
		return strconv.FormatFloat(v*1000, 'g', 3, 64) + " ms"
	case unit == "s":
		return strconv.FormatFloat(v, 'g', 3, 64) + " s"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64) + unit
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}
