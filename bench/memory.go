package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const memoryColumns = "operation|engine|memory when idle>|peak memory>|above idle>|goal|time>"

// memoryRow measures what the server needs above its idle memory. A goal of 0 means no goal.
func memoryRow(t *table, s *server, what string, goal int64, do func() error) error {
	if err := s.resetPeak(); err != nil {
		return err
	}
	idle, err := memory(s.pid(), "VmRSS")
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := do(); err != nil {
		return err
	}
	took := time.Since(begun)
	peak, err := s.peak()
	if err != nil {
		return err
	}
	cell := none
	if goal > 0 {
		cell = goalCell(peak-idle > goal, size64(goal))
	}
	t.row(what, s.engine.name, size64(idle), size64(peak), size64(peak-idle), cell, fmt.Sprintf("%.1f s", took.Seconds()))
	return nil
}

// onOwner starts a server, and dials as the owner with this number, while fn runs. settings are as for onServer.
func onOwner(ctx context.Context, o *options, of service, e *engine, settings []string, number int, fn func(*server, *caller) error) error {
	return onServer(ctx, o.binary, of, e, settings, func(s *server) error {
		owner, err := of.owner(s, number)
		if err != nil {
			return err
		}
		return with(ctx, owner, func(c *caller) error { return fn(s, c) })
	})
}

// measureMemory measures each batch size on its own server.
func measureMemory(ctx context.Context, o *options, e *engine, t *table) error {
	for _, n := range o.size.batches {
		// Allows batches above the default limit.
		raised := []string{"HOLDFAST_SYNCSTORAGE__LIMITS__MAX_TOTAL_RECORDS=" + strconv.Itoa(max(n, 10_000))}
		// On PostgreSQL all servers share a database, so each batch belongs to another user.
		err := onOwner(ctx, o, newSync(o.size), e, raised, n, func(s *server, c *caller) error {
			err := memoryRow(t, s, "appends "+thousands(n)+" × 500 B", 0, func() error {
				for _, body := range posts(n, 500) {
					if err := c.stage(ctx, body); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			return memoryRow(t, s, "commits "+thousands(n)+" × 500 B", 0, func() error { return c.commit(ctx) })
		})
		if err != nil {
			return fmt.Errorf("a batch of %d: %w", n, err)
		}
	}
	return nil
}

const bucketsMemoryGoal = 64 << 20

// measureBucketsMemory stores and reads a single object that is larger than the server's memory.
func measureBucketsMemory(ctx context.Context, o *options, e *engine, t *table) error {
	w, size := newBuckets(o.size), o.size.huge
	return onOwner(ctx, o, w, e, nil, 1, func(s *server, c *caller) error {
		if err := c.do(ctx, http.MethodPut, s3Objects, nil); err != nil {
			return err
		}
		const key = s3Objects + "/huge"
		mebibytes := slices.Repeat([][]byte{w.body(s3Middle)}, int(size/s3Middle))
		body := io.MultiReader(each(mebibytes, func(data []byte) io.Reader { return bytes.NewReader(data) })...)
		what := fmt.Sprintf(" a %s MiB object", thousands(int(size>>20)))
		err := memoryRow(t, s, "stores"+what, bucketsMemoryGoal, func() error {
			return c.transfer(ctx, http.MethodPut, key, body, size, io.Discard)
		})
		if err != nil {
			return err
		}
		return memoryRow(t, s, "returns"+what, bucketsMemoryGoal, func() error { return getObject(ctx, c, key, int(size)) })
	})
}

const (
	readyGoal    = 300 * time.Millisecond
	idleGoal     = 60 << 20
	startColumns = "engine|ready, median>|ready, slowest>|goal>|memory when idle>|goal>"
)

func startIntro(o *options) string { return fmt.Sprintf("Median of %d starts.", o.size.starts) }

// measureStart does not count the first start, because it creates the tables.
func measureStart(ctx context.Context, o *options, e *engine, t *table) error {
	return onServer(ctx, o.binary, nil, e, nil, func(s *server) error {
		ready, memory, err := s.restarts(o, func() error { return s.start(ctx) })
		if err != nil {
			return err
		}
		d, m := median(ready), median(memory)
		t.row(e.name, d, slices.Max(ready), goalCell(d > readyGoal, readyGoal), size64(m), goalCell(m > idleGoal, size64(idleGoal)))
		return nil
	})
}

// restarts returns how long each start took, and the resident memory a while after it.
func (s *server) restarts(o *options, start func() error) (ready []time.Duration, idle []int64, err error) {
	for range o.size.starts {
		s.stop()
		begun := time.Now()
		if err := start(); err != nil {
			return nil, nil, err
		}
		ready = append(ready, time.Since(begun))
		time.Sleep(o.size.idle)
		m, err := memory(s.pid(), "VmRSS")
		if err != nil {
			return nil, nil, err
		}
		idle = append(idle, m)
	}
	return ready, idle, nil
}
