package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

type rows struct {
	service

	// grow adds this number of records to each owner, directly in the stopped server's database. It would take hours
	// through the server.
	grow    func(ctx context.Context, s *server, first, owners, records, bytes int) error
	rewrite func(bytes int) func(ctx context.Context, c *caller, record int) error
	// check fails if writes created records instead of overwriting records.
	check func(ctx context.Context, c *caller, records int) error

	settle func(ctx context.Context, s *server) error
}

type line struct {
	rows, records int // total rows, and records per owner
	numbers       []int
	bytes         int

	owners  []credentials
	samples []sample
}

func rowsHead(o *options, out io.Writer, window time.Duration, bytes int) {
	fmt.Fprintf(out, "%v windows, median of %d, %d connections, %d B records.\n\n", window, o.runs, o.size.rowsCallers, bytes)
	fmt.Fprintln(out, "| total rows | rows per owner | owners | engine | writes/s | server CPU µs/op | engine CPU µs/op |\n|--:|--:|--:|---|--:|--:|--:|")
}

func spread(first, n, most int) (numbers []int) {
	most = min(n, most)
	for i := range most {
		numbers = append(numbers, first+i*n/most)
	}
	return numbers
}

// growing fills the tables step by step and measures writes by a fixed number of owners, spread over the tables.
func (w *rows) growing(ctx context.Context, o *options, s *server, most int, out io.Writer) (have int, err error) {
	for _, rows := range o.rows {
		owners := max(1, rows/o.size.manyRecords)
		if err := w.grow(ctx, s, 1+have, owners-have, o.size.manyRecords, o.size.rowsPayload); err != nil {
			return 0, err
		}
		have = owners
		l := line{rows: have * o.size.manyRecords, records: o.size.manyRecords, numbers: spread(1, have, most), bytes: o.size.rowsPayload}
		if err := w.measure(ctx, o, s, o.window, []*line{&l}, out); err != nil {
			return 0, err
		}
	}
	return have, nil
}

func (w *rows) measure(ctx context.Context, o *options, s *server, window time.Duration, lines []*line, out io.Writer) error {
	for _, l := range lines {
		for _, n := range l.numbers {
			c, err := w.owner(s, n)
			if err != nil {
				return err
			}
			l.owners = append(l.owners, c)
		}
	}
	for run := range 1 + o.runs {
		for _, l := range lines {
			p, err := w.load(ctx, o, s, l, lasting(window))
			if err != nil {
				return err
			}
			if run > 0 {
				l.samples = append(l.samples, p.sample())
			}
		}
	}
	for _, l := range lines {
		for _, owner := range []credentials{l.owners[0], l.owners[len(l.owners)-1]} {
			if err := w.checkOwner(ctx, owner, l.records); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %.0f | %d | %s |\n", thousands(l.rows), thousands(l.records), thousands(len(l.owners)), s.engine.name,
			median(l.samples, func(s sample) float64 { return s.ops }),
			median(l.samples, func(s sample) time.Duration { return s.cpu }).Microseconds(),
			engineCPU(median(l.samples, func(s sample) time.Duration { return s.engine })))
		name := fmt.Sprintf("rows-%s-%d-%d-%d-%d", s.engine.name, l.rows, l.records, len(l.owners), l.bytes)
		err := s.profile(ctx, o, name, func(more more) error {
			_, err := w.load(ctx, o, s, l, more)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *rows) load(ctx context.Context, o *options, s *server, l *line, more more) (phase, error) {
	callers, hangUp, err := dialAll(ctx, slices.Repeat(l.owners[:1], o.size.rowsCallers))
	if err != nil {
		return phase{}, err
	}
	defer hangUp()
	rewrite := w.rewrite(l.bytes)
	return s.measured(ctx, len(callers), more, func(ctx context.Context, c, _ int) error {
		callers[c].credentials = l.owners[rand.IntN(len(l.owners))]
		return rewrite(ctx, callers[c], rand.IntN(l.records))
	}, w.settle)
}

func (w *rows) checkOwner(ctx context.Context, owner credentials, records int) error {
	c, err := dial(ctx, owner)
	if err != nil {
		return err
	}
	defer c.hangUp()
	return w.check(ctx, c, records)
}

func (s *server) past(ctx context.Context, file string, lite, postgres []string) error {
	s.stop()
	var err error
	if s.engine.postgres != nil {
		err = s.engine.exec(ctx, postgres...)
	} else {
		err = fillFile(file, lite)
	}
	if err != nil {
		return fmt.Errorf("fill the tables: %w", err)
	}
	return s.start(ctx)
}

func fillFile(file string, script []string) error {
	return withFile(file, func(c *sqlite.Conn) error {
		for _, sql := range slices.Concat([]string{
			`PRAGMA journal_mode = OFF`, `PRAGMA synchronous = OFF`, `PRAGMA locking_mode = EXCLUSIVE`, `PRAGMA cache_size = -262144`, `PRAGMA foreign_keys = OFF`,
		}, script) {
			if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func script(statements []string, args ...any) (all []string) {
	for _, sql := range statements {
		if strings.Contains(sql, "%") {
			sql = fmt.Sprintf(sql, args...)
		}
		all = append(all, sql)
	}
	return all
}
