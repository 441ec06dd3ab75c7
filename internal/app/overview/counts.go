package overview

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

const (
	// countRests limits counting to 1% of the time. Counting a million rows takes up to a second.
	countRests = 100

	countedNow = 2 * time.Minute // a card shows the age of older counts
)

// stored holds a service's Console.Counts values, in their order. nil: the engine cannot count it quickly.
type stored []*int64

// counts caches the counts by service. The zero value is ready.
type counts struct {
	mu  sync.Mutex
	all map[string]*listing[stored]
}

// of returns the cache for a service, which it creates if needed.
func (c *counts) of(name string) *listing[stored] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*listing[stored]{}
	}
	if c.all[name] == nil {
		c.all[name] = &listing[stored]{rests: countRests}
	}
	return c.all[name]
}

// countLines summarizes each service's data, e.g. "3 accounts, 1 storage node".
func (o *Overview) countLines(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, checksPatience)
	defer cancel()
	var all []<-chan struct{}
	for _, s := range o.Services {
		if s.Console != nil && len(s.Console.Counts) > 0 {
			all = append(all, o.counts.of(s.Name).ask(ctx, s.Name, o.Clock, func(ctx context.Context) (stored, error) { return count(ctx, s) }))
		}
	}
	for _, reading := range all {
		if reading != nil {
			select {
			case <-reading:
			case <-ctx.Done():
			}
		}
	}
	lines := map[string]string{}
	for _, s := range o.Services {
		if s.Console != nil {
			counts, at := o.counts.of(s.Name).latest()
			lines[s.Name] = countLine(s.Console.Counts, counts, o.Clock().Sub(at))
		}
	}
	return lines
}

// count reads a service's counts from a snapshot. It is an error if the service names a table that it does not have.
func count(ctx context.Context, s *service.Running) (counts stored, err error) {
	db := s.Rows()
	if db == nil {
		return nil, errcode.New(errcode.Unavailable, "the service has no database with tables")
	}
	err = db.View(ctx, func(v rows.View) error {
		counts = nil
		for _, c := range s.Console.Counts {
			t := s.Table(c.Table)
			if t == nil {
				return fmt.Errorf("%s has no table %s", s.Name, c.Table)
			}
			n, err := v.Total(rows.Total{Table: t, Sum: c.Sum, Where: c.Where})
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				counts = append(counts, nil)
			case err != nil:
				return err
			default:
				counts = append(counts, &n)
			}
		}
		return nil
	})
	return counts, err
}

// countLine returns a card's line. It adds the age if the counts are older than countedNow; without any count it is
// "".
func countLine(all []service.Counted, counts stored, age time.Duration) string {
	var parts []string
	for i, n := range counts {
		if n != nil {
			text := service.Count(*n, all[i].Of)
			_, noun, _ := strings.Cut(text, " ")
			parts = append(parts, groupDigits(*n)+" "+noun)
		}
	}
	line := strings.Join(parts, ", ")
	if line != "" && age > countedNow {
		line += " (" + formatSpan(age) + " ago)"
	}
	return line
}

// groupDigits separates thousands with commas.
func groupDigits(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
