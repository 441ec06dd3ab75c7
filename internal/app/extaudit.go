package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

// auditFile is the file of the audit in the data folder.
const auditFile = "extstorage-audit.jsonl"

// auditSink opens what the audit of extensions' records is written to.
func (a *App) auditSink() (sink outbox.Sink, end func() error, err error) {
	setting := a.cfg.Extstorage.Audit
	if setting == "log" {
		return outbox.Log{Logger: a.log}, func() error { return nil }, nil
	}
	path, set := strings.CutPrefix(setting, "file:")
	if !set {
		path = filepath.Join(a.data, auditFile)
		if err := makeData(a.data); err != nil {
			return nil, nil, err
		}
	}
	lines, err := outbox.OpenLines(path)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("extstorage.audit: %s: %w", path, err), lines.Close())
	}
	return lines, lines.Close, nil
}

// startRelay publishes the audit until end is called, which publishes what is
// left, for a while.
func (a *App) startRelay(ctx context.Context) (end func() error, err error) {
	if a.records == nil {
		return func() error { return nil }, nil
	}
	sink, closeSink, err := a.auditSink()
	if err != nil {
		return nil, err
	}
	relay := outbox.NewRelay(outbox.Options{Box: a.audit, Sink: sink, Clock: a.now, Log: a.log, Observe: a.observeRelay(extRoom)})
	ctx = context.WithoutCancel(ctx)
	running, stop := context.WithCancel(ctx)
	var relaying sync.WaitGroup
	ready := false
	relaying.Go(func() {
		if ready = a.awaitRecords(running); ready {
			relay.Run(running)
		}
	})
	return func() error {
		stop()
		if relaying.Wait(); ready {
			last, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if _, err := relay.Pass(last); err != nil {
				a.log.Warn("the last of the audit will be published at the next start", "error", err)
			}
		}
		return closeSink()
	}, nil
}

// awaitRecords waits until the room's database can be used: one that is still to
// be migrated has no events. It is false when ctx ended.
func (a *App) awaitRecords(ctx context.Context) bool {
	for a.records.Store.Ping(ctx) != nil {
		if !clock.Rest(ctx, time.Second) {
			return false
		}
	}
	return true
}

// observeRelay registers the metrics of a room's outbox.
func (a *App) observeRelay(room string) func(published int, late time.Duration, err error) {
	events := a.metrics.Counter("holdfast_outbox_events_total", "Events that were published.", "room").WithLabelValues(room)
	failures := a.metrics.Counter("holdfast_outbox_failures_total", "Attempts to publish events that failed.", "room").WithLabelValues(room)
	delay := a.metrics.Histogram("holdfast_outbox_delay_seconds", "How late the oldest event of each batch was published.", "room").WithLabelValues(room)
	return func(published int, late time.Duration, err error) {
		if err != nil {
			failures.Inc()
			return
		}
		events.Add(float64(published))
		delay.Observe(late.Seconds())
	}
}
