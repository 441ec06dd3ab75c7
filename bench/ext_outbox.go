package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

var outboxGoal = map[string]float64{"postgres": 5000}

func outboxHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "%v windows, median of %d. Events go from the database to the audit's file, which is synced for each batch. "+
		"Server CPU includes the writes, if any.\n\n", o.window, o.runs)
	fmt.Fprintln(out, "| events | engine | events/s | goal | write p99 | server CPU µs/event | engine CPU µs/event |")
	fmt.Fprintln(out, "|---|---|--:|---|--:|--:|--:|")
}

// measureOutbox measures how long audit events take to reach the file: events from current writes, and events that are
// pending when a server starts.
func (w *extLoad) measureOutbox(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		callers := o.size.rowsCallers
		written, behind := outboxRow{engine: e.name}, outboxRow{engine: e.name, goal: outboxGoal[e.name]}
		written.what = fmt.Sprintf("puts of %d records, %d connections", extBulk, callers)
		behind.what = thousands(o.size.events) + " waiting events from 1,000 installs"
		installs, err := s.newOwners(w, callers)
		if err != nil {
			return err
		}
		for range o.runs {
			got, err := s.publishWritten(ctx, installs, lasting(o.window))
			if err != nil {
				return fmt.Errorf("written: %w", err)
			}
			written.samples = append(written.samples, got)
			if got, err = s.publishBehind(ctx, o.size.events); err != nil {
				return fmt.Errorf("behind: %w", err)
			}
			behind.samples = append(behind.samples, got)
		}
		written.print(out)
		behind.print(out)
		return nil
	})
}

type outboxRow struct {
	what, engine string
	goal         float64
	samples      []sample
}

func (r *outboxRow) print(out io.Writer) {
	rate := median(r.samples, func(s sample) float64 { return s.ops })
	goal := "–"
	if r.goal > 0 {
		if goal = thousands(int(r.goal)); rate < r.goal {
			goal = "**missed** " + goal
		}
	}
	p99 := "–"
	if d := median(r.samples, func(s sample) time.Duration { return s.p99 }); d > 0 {
		p99 = ms(d)
	}
	fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %d | %s |\n", r.what, r.engine, thousands(int(rate)), goal, p99,
		median(r.samples, func(s sample) time.Duration { return s.cpu }).Microseconds(),
		engineCPU(median(r.samples, func(s sample) time.Duration { return s.engine })))
}

func (s *server) publishWritten(ctx context.Context, installs []credentials, more more) (sample, error) {
	all, hangUp, err := dialAll(ctx, installs)
	if err != nil {
		return sample{}, err
	}
	defer hangUp()
	body := extItems(0, extBulk)
	began := time.Now()
	p, err := s.measured(ctx, len(all), more, func(ctx context.Context, c, _ int) error {
		_, err := all[c].send(ctx, http.MethodPost, "/namespaces/"+extBulkNamespace+"/records", body, "")
		return err
	}, extPublished)
	if err != nil {
		return sample{}, err
	}
	got := p.sample()
	got.ops = perSecond(extBulk*len(p.took), time.Since(began))
	got.cpu, got.engine = got.cpu/extBulk, got.engine/extBulk
	return got, nil
}

func (s *server) publishBehind(ctx context.Context, events int) (got sample, err error) {
	s.stop()
	if err := s.appendEvents(ctx, events); err != nil {
		return got, err
	}
	before, err := s.engine.cpu()
	if err != nil {
		return got, err
	}
	began := time.Now()
	if err := s.start(ctx); err != nil {
		return got, err
	}
	if err := extPublished(ctx, s); err != nil {
		return got, err
	}
	got.ops = perSecond(events, time.Since(began))
	after, err := s.spent()
	if err != nil {
		return got, err
	}
	got.cpu, got.engine = after.server.since(nil)/time.Duration(events), after.engine.since(before)/time.Duration(events)
	return got, nil
}

// Events like a service's events.
const (
	outboxPayload = `{"operation":"put","namespace":"settings","key":"theme","schemaVersion":3,"caller":"token","callerId":"7e000000","revision":17}`

	pgEvents = `INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at)
		SELECT ('00000000-0000-4000-8000-' || lpad((n %% 100)::text, 12, '0'))::uuid, ('00000000-0000-4000-8001-' || lpad((n %% 1000)::text, 12, '0'))::uuid,
			n, 'extstorage.put', 'settings/theme', '` + outboxPayload + `', now() FROM generate_series(1, %d) n`
	liteEvents = `WITH RECURSIVE e (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < %d)
		INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at, part)
		SELECT printf('00000000-0000-4000-8000-%%012d', n %% 100), printf('00000000-0000-4000-8001-%%012d', n %% 1000),
			n, 'extstorage.put', 'settings/theme', '` + outboxPayload + `', unixepoch() * 1000000, n %% 10 * 2 %% 16 FROM e`
)

func (s *server) appendEvents(ctx context.Context, n int) error {
	if s.engine.postgres != nil {
		return errors.Join(s.engine.exec(ctx, fmt.Sprintf(pgEvents, n)), s.engine.settle(ctx, ""))
	}
	return fillFile(extFile(s.data()), []string{fmt.Sprintf(liteEvents, n)})
}
