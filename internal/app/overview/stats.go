package overview

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/operate"
)

const (
	shownFindings = 3               // above the overview; a link leads to the others
	statSpan      = 5 * time.Minute // period of the figures for traffic
	linePoints    = 60              // points in a sparkline: an hour
	leastShown    = 2 * time.Hour   // growth over a shorter time is not on cards
)

// findings lists problems, worst first, or that everything works. at is zero while the first check runs.
func (o *Overview) findings(findings []service.Finding, at time.Time) (blocks []service.Block) {
	problems := withStates(findings, service.Wrong, service.Warning)
	failed, late := lateSweeps(o.Sweeps.list(), o.Clock())
	if failed+late > 0 {
		problems = append(problems, service.Finding{State: service.Warning, What: "sweeps", Says: fmt.Sprintf("%d failed, %d late", failed, late), Fix: "see the page Sweeps"})
	}
	for i, f := range problems {
		if i == shownFindings {
			blocks = append(blocks, &service.Links{All: []service.Link{{Text: service.Count(int64(len(problems)-i), "more finding"), To: "checks"}}})
			break
		}
		text := f.What + ": " + f.Says + "."
		if f.Fix != "" {
			text += " " + strings.ToUpper(f.Fix[:1]) + f.Fix[1:] + "."
		}
		blocks = append(blocks, &service.Notice{State: f.State, Text: text})
	}
	switch {
	case at.IsZero():
		blocks = append(blocks, &service.Notice{State: service.OK, Text: "The first check is running."})
	case len(problems) == 0:
		blocks = []service.Block{&service.Notice{State: service.OK, Text: "Everything works: " + service.Count(int64(len(findings)), "check") + " passed, and all sweeps are on time."}}
	}
	return blocks
}

// lateSweeps counts jobs; a job that fails is not also late.
func lateSweeps(all []swept, now time.Time) (failed, late int) {
	for i := range all {
		if all[i].fails() {
			failed++
		} else if all[i].late(now) {
			late++
		}
	}
	return failed, late
}

// stats returns the figures at the top: traffic, the fullest disk, the replica and the backup. charts are the last
// hour's.
func (o *Overview) stats(charts *service.Charts) *service.Stats {
	all := o.trafficStats(charts)
	if d := o.fullest(); d != nil {
		note := fmt.Sprintf("%.0f %% of %s used", 100*(1-d.free/d.size), service.FormatBytes(int64(d.size)))
		if days := d.days(); days > 0 {
			note += ", full in " + service.Count(int64(days), "day")
		}
		s := service.Stat{Name: "Disk", Value: service.FormatBytes(int64(d.free)), Unit: " free", Note: note, Most: d.size, Share: d.size - d.free}
		if c := d.condition(o.DiskDays()); c != nil {
			s.State = c.State
		}
		all = append(all, s)
	}
	return &service.Stats{All: append(all, o.replicaStat(), o.backupStat())}
}

// trafficStats compares the counters with those from statSpan ago, or from the start.
func (o *Overview) trafficStats(charts *service.Charts) []service.Stat {
	now := Point{At: o.Clock(), Traffic: o.Traffic(), Shed: o.Gate.Stats().Shed}
	before := o.History.before(now.At.Add(-statSpan))
	done, seconds := now.Traffic.Since(before.Traffic), now.At.Sub(before.At).Seconds()
	requests := service.Stat{Name: "Requests", Value: "0", Unit: "/s", Note: "no errors", Line: latestOf(charts.All[0])}
	if seconds > 0 {
		requests.Value = formatRate(float64(done.Requests) / seconds)
	}
	var bad []string
	if done.Errors > 0 {
		bad = append(bad, service.Count(done.Errors, "server error"))
	}
	if shed := now.Shed - before.Shed; shed > 0 {
		bad = append(bad, strconv.FormatInt(shed, 10)+" rejected")
	}
	if len(bad) > 0 {
		requests.State, requests.Note = service.Warning, strings.Join(bad, ", ")
	}
	requests.Note += " in " + formatSpan(max(time.Minute, now.At.Sub(before.At)))
	slow := service.Stat{Name: "99th percentile", Value: "-", Note: "no requests", Line: latestOf(charts.All[1])}
	if done.Requests > 0 {
		ms := done.Quantile(.99) * 1000
		slow.Value, slow.Unit, slow.Note = strconv.FormatFloat(ms, 'g', 3, 64), " ms", "request duration"
	}
	return []service.Stat{requests, slow}
}

// formatRate shows three digits at most.
func formatRate(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// latestOf returns a chart's newest values, from the first series.
func latestOf(c *service.Chart) []float64 {
	values := c.Series[0].Values
	return values[max(0, len(values)-linePoints):]
}

// before returns the newest point that is not after a time, or else the oldest point. A history without points returns the zero Point.
func (h *History) before(at time.Time) (p Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.points {
		if i > 0 && h.points[i].At.After(at) {
			break
		}
		p = h.points[i]
	}
	return p
}

// fullest returns the disk that is expected to be full first, or else the one with the smallest free share. nil: no
// database is a file.
func (o *Overview) fullest() *disk {
	all := o.disks()
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *disk) int {
		daysOf := func(d *disk) int { return cmp.Or(d.days(), math.MaxInt) }
		return cmp.Or(cmp.Compare(daysOf(a), daysOf(b)), cmp.Compare(a.free/a.size, b.free/b.size))
	})
}

// cards shows each service with its state, amounts and sizes; services with the same title share a card, which has the
// worst state. Services that are off come last.
func (o *Overview) cards(ctx context.Context, usages map[string]usage, findings []service.Finding) *service.Cards {
	unready, counted := o.Unready(ctx), o.countLines(ctx)
	b := &service.Cards{Title: "Services"}
	var databases [][]*engine.Database // by card
	for _, s := range o.Services {
		c := service.Card{Title: operate.Sentence(s.Name), State: service.OK}
		if s.Console != nil {
			c.Title, c.Icon = s.Console.Title, s.Console.Icon
		}
		c.To = o.FirstPage(s.Name)
		if err := unready[s.Name]; err != nil {
			c.State, c.Lines = service.Wrong, []string{err.Error()}
		} else if ready := readyCell(ctx, s); ready.State != service.OK {
			c.State, c.Lines = ready.State, []string{ready.Text}
		} else {
			c.State, c.Problem = problemOf(findings, s.Name)
		}
		if line := counted[s.Name]; line != "" {
			c.Lines = append(c.Lines, line)
		}
		at := slices.IndexFunc(b.All, func(other service.Card) bool { return other.Title == c.Title })
		if at < 0 {
			at, b.All, databases = len(b.All), append(b.All, c), append(databases, nil)
		} else {
			b.All[at] = joinedCards(b.All[at], c)
		}
		databases[at] = append(databases[at], s.Databases...)
	}
	for i, all := range databases {
		b.All[i].Lines = append(b.All[i].Lines, sizeLines(all, usages)...)
	}
	for _, name := range o.Disabled {
		b.All = append(b.All, service.Card{Title: operate.Sentence(name), Lines: []string{"disabled", "set " + name + ".enabled to use it"}})
	}
	return b
}

// joinedCards returns a card with the lines of both, and the state and problem of the worse.
func joinedCards(a, b service.Card) service.Card {
	order := []service.State{service.OK, service.Warning, service.Wrong}
	if slices.Index(order, b.State) > slices.Index(order, a.State) {
		a.State, a.Problem = b.State, b.Problem
	}
	a.Lines = append(a.Lines, b.Lines...)
	return a
}

// problemOf returns the worst finding about a service, as a link to the checks.
func problemOf(findings []service.Finding, name string) (state service.State, why *service.Link) {
	problems := withStates(findings, service.Wrong, service.Warning)
	problems = slices.DeleteFunc(problems, func(f service.Finding) bool { return f.Service != name })
	if len(problems) == 0 {
		return service.OK, nil
	}
	text := problems[0].What + ": " + problems[0].Says
	if more := int64(len(problems) - 1); more > 0 {
		text += ", and " + service.Count(more, "more finding")
	}
	return problems[0].State, &service.Link{Text: text, To: "checks"}
}

// sizeLines returns a line for each engine, e.g. "SQLite, 1.2 MiB, +3 KiB in 5 hours". A database that several services
// share is counted once; the growth is left out unless it is known for the same period for all.
func sizeLines(all []*engine.Database, usages map[string]usage) (lines []string) {
	sums, counted := map[string]*usage{}, map[string]bool{}
	var titles []string
	for _, d := range all {
		if counted[d.Where] {
			continue
		}
		counted[d.Where] = true
		title, u := d.Target.Kind.Title(), usages[d.Where]
		sum := sums[title]
		if sum == nil {
			sums[title], titles = &u, append(titles, title)
			continue
		}
		if sum.in != u.in {
			sum.in = 0
		}
		sum.size, sum.grown, sum.isKnown = sum.size+u.size, sum.grown+u.grown, sum.isKnown && u.isKnown
	}
	for _, title := range titles {
		line, u := title, sums[title]
		if text := u.sizeText(); text != "" {
			line += ", " + text
		}
		if u.in >= leastShown {
			line += ", " + u.growthText()
		}
		lines = append(lines, line)
	}
	return lines
}
