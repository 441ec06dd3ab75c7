package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

func memoryHead(_ *options, out io.Writer) {
	fmt.Fprintf(out, "| operation | engine | memory when idle | peak memory | time | 503s |\n|---|---|--:|--:|--:|--:|\n")
}

func (w *syncLoad) measureMemory(ctx context.Context, o *options, e *engine, out io.Writer) error {
	for _, n := range o.size.batches {
		// Allows batches above the default limit.
		raised := []string{"HOLDFAST_SYNCSTORAGE__LIMITS__MAX_TOTAL_RECORDS=" + strconv.Itoa(max(n, 10_000))}
		err := onServer(ctx, o, e, raised, func(s *server) error { return w.batchMemory(ctx, s, n, out) })
		if err != nil {
			return fmt.Errorf("a batch of %d: %w", n, err)
		}
	}
	return onServer(ctx, o, e, nil, func(s *server) error { return w.loadMemory(ctx, o.size, s, out) })
}

func (w *syncLoad) batchMemory(ctx context.Context, s *server, n int, out io.Writer) error {
	s.next = n
	users, err := s.newOwners(w, 1)
	if err != nil {
		return err
	}
	c, err := dial(ctx, users[0])
	if err != nil {
		return err
	}
	defer c.hangUp()
	open := ""
	err = memoryRow(out, s, "appends "+thousands(n)+" × 500 B", func() (int64, error) {
		for _, body := range posts(n, 500) {
			if err := c.stage(ctx, &open, body); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	if err != nil {
		return err
	}
	return memoryRow(out, s, "commits "+thousands(n)+" × 500 B", func() (int64, error) { return 0, c.commit(ctx, open) })
}

func memoryRow(out io.Writer, s *server, what string, do func() (refused int64, err error)) error {
	var refused int64
	m, err := s.memory(func() (err error) {
		refused, err = do()
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| %s | %s | %s | %s | %.1f s | %d |\n", what, s.engine.name, mb(m.before), mb(m.most), m.took.Seconds(), refused)
	return nil
}

type use struct {
	before, most int64
	took         time.Duration
}

func (s *server) memory(do func() error) (m use, err error) {
	if err := resetPeak(s.pid()); err != nil {
		return m, err
	}
	if m.before, err = resident(s.pid()); err != nil {
		return m, err
	}
	begun := time.Now()
	if err := do(); err != nil {
		return m, err
	}
	m.took = time.Since(begun)
	m.most, err = peak(s.pid())
	return m, err
}

const recordBytes = 10_000

func (w *syncLoad) loadMemory(ctx context.Context, n *size, s *server, out io.Writer) error {
	s.next = 1 << 20
	readers, err := s.newOwners(w, n.downloads)
	if err != nil {
		return err
	}
	reading, hangUp, err := dialAll(ctx, readers)
	if err != nil {
		return err
	}
	defer hangUp()
	large := posts(n.download, recordBytes)
	_, _, err = drive(ctx, len(reading), times(len(large)), func(ctx context.Context, c, i int) error {
		_, err := reading[c].send(ctx, http.MethodPost, "/storage/"+listCollection, large[i], "")
		return err
	})
	if err != nil {
		return err
	}
	// The load needs a new process.
	s.stop()
	if err := s.start(ctx); err != nil {
		return err
	}
	writers, err := s.newOwners(w, n.uploads)
	if err != nil {
		return err
	}
	all, hangUpAll, err := dialAll(ctx, slices.Concat(writers, readers))
	if err != nil {
		return err
	}
	defer hangUpAll()
	upload := posts(n.batch, 500)
	open := make([]string, n.uploads)
	also := fmt.Sprintf(" × 500 B by each of %d clients while %d others read %d MB each", n.uploads, n.downloads, n.download*recordBytes/1_000_000)
	err = memoryRow(out, s, "appends "+thousands(n.batch)+also, func() (int64, error) {
		return whileReading(ctx, all[n.uploads:], n.download, n.uploads, times(len(upload)), func(ctx context.Context, c, i int) error {
			return all[c].stage(ctx, &open[c], upload[i])
		})
	})
	if err != nil {
		return err
	}
	return memoryRow(out, s, "commits "+thousands(n.batch)+also, func() (int64, error) {
		return whileReading(ctx, all[n.uploads:], n.download, n.uploads, times(1), func(ctx context.Context, c, _ int) error {
			return all[c].commit(ctx, open[c])
		})
	})
}

// whileReading runs writers while every reader reads its large collection once.
func whileReading(ctx context.Context, readers []*caller, records, writers int, more more, write step) (refused int64, err error) {
	var busy atomic.Int64
	again := func(step step) step {
		return func(ctx context.Context, c, i int) error {
			begun := time.Now()
			err := step(ctx, c, i)
			for errors.Is(err, errBusy) && time.Since(begun) < patience {
				busy.Add(1)
				time.Sleep(time.Second)
				err = step(ctx, c, i)
			}
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, _, err := drive(ctx, writers, more, again(write))
		return err
	})
	g.Go(func() error {
		_, _, err := drive(ctx, len(readers), times(1), again(func(ctx context.Context, c, _ int) error {
			return readers[c].exchange(ctx, http.MethodGet, "/storage/"+listCollection+"?full=1", nil, strconv.Itoa(records), io.Discard)
		}))
		return err
	})
	err = g.Wait()
	return busy.Load(), err
}
