package ext

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/obs"
	"holdfast/internal/outbox"
)

// auditFile is the file of the audit in the data folder.
const auditFile = "extstorage-audit.jsonl"

// auditSink opens the sink of the audit.
func (s *Extensions) auditSink() (sink outbox.Sink, end func() error, err error) {
	setting := s.cfg.Audit
	if setting == "log" {
		return outbox.Log{Logger: s.deps.Log}, func() error { return nil }, nil
	}
	path, set := strings.CutPrefix(setting, "file:")
	if !set {
		path = filepath.Join(s.deps.Data, auditFile)
		if err := engine.MakeFolder(s.deps.Data); err != nil {
			return nil, nil, err
		}
	}
	lines, err := outbox.OpenLines(path)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("extstorage.audit: %s: %w", path, err), lines.Close())
	}
	return lines, lines.Close, nil
}

// startRelay starts to publish the audit. end publishes the remaining events, with a
// timeout, and stops.
func (s *Extensions) startRelay(ctx context.Context) (end func() error, err error) {
	sink, closeSink, err := s.auditSink()
	if err != nil {
		return nil, err
	}
	o := observedRelay(s.deps.Metrics)
	o.Box, o.Waker, o.Sink, o.Clock, o.Log = s.audit, s.waker, sink, s.deps.Clock, s.deps.Log
	o.Share, o.Hint = s.relayShare, deadHint
	relay := outbox.NewRelay(o)
	ctx = context.WithoutCancel(ctx)
	running, stop := context.WithCancel(ctx)
	var relaying sync.WaitGroup
	ready := false
	relaying.Go(func() {
		if ready = s.awaitDatabase(running); ready {
			relay.Run(running)
		}
	})
	return func() error {
		stop()
		if relaying.Wait(); ready {
			last, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if _, err := relay.Pass(last); err != nil {
				s.deps.Log.Warn("could not publish the remaining audit events, they will be published at the next start", "error", err)
			}
		}
		return closeSink()
	}, nil
}

// awaitDatabase waits until the database is reachable and migrated. It returns false if
// ctx ended.
func (s *Extensions) awaitDatabase(ctx context.Context) bool {
	for s.opened.Ping(ctx) != nil {
		if !clock.Sleep(ctx, time.Second) {
			return false
		}
	}
	return true
}

// observedRelay registers the metrics of the outbox.
func observedRelay(m *obs.Metrics) (o outbox.Options) {
	events := m.Counter("holdfast_outbox_events_total", "Events published.", "service").WithLabelValues(Name)
	failures := m.Counter("holdfast_outbox_failures_total", "Failed attempts to publish events.", "service").WithLabelValues(Name)
	delay := m.Histogram("holdfast_outbox_delay_seconds", "Age of the oldest event of each published batch.", "service").WithLabelValues(Name)
	var dead atomic.Int64
	m.Gauge("holdfast_outbox_dead_events", "Events set aside because the sink rejects them.",
		func(set obs.Set) { set(float64(dead.Load()), Name) }, "service")
	o.ObserveDead = func(n int) { dead.Store(int64(n)) }
	o.Observe = func(published int, late time.Duration, err error) {
		if err != nil {
			failures.Inc()
			return
		}
		events.Add(float64(published))
		delay.Observe(late.Seconds())
	}
	return o
}
