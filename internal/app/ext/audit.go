package ext

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/conf/settings"
	"holdfast/internal/db/engine"
	"holdfast/internal/outbox"
)

// auditFile is the audit's file in the data folder if extstorage.audit is not set.
const auditFile = "extstorage-audit.jsonl"

// auditSource is the CloudEvents source for brokers and the log.
const auditSource = "/ext/v1"

// auditSink opens the audit's destination, and makes the data folder if the file is there. end closes it.
func (s *Extensions) auditSink(ctx context.Context) (sink outbox.Sink, end func() error, err error) {
	setting := s.cfg.Audit
	if setting == "log" || settings.IsBroker(setting) {
		sink, end, err = s.brokers.Open(ctx, sinks.Options{Setting: setting, Source: auditSource, Log: s.deps.Log, Clock: s.deps.Clock})
		if err != nil {
			err = fmt.Errorf("extstorage.audit: %w", err)
		}
		return sink, end, err
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

// startRelay opens the sink, and publishes audit events when the database is reachable. end publishes the remaining
// events and closes the sink.
func (s *Extensions) startRelay(ctx context.Context) (end func() error, err error) {
	sink, closeSink, err := s.auditSink(ctx)
	if err != nil {
		return nil, err
	}
	return service.Relay{
		Service: Name, Ping: s.opened.Ping, Close: closeSink,
		Options: outbox.Options{Box: s.audit, Waker: s.waker, Sink: sink, Share: s.relayShare, Hint: deadHint},
	}.Start(ctx, s.deps), nil
}
