package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

const (
	neighbourGoal    = 100 * time.Millisecond // for the neighbour's p99
	attackers        = 300                    // connections of the client that attacks
	neighbourColumns = "one client's attack|engine|its answers/s>|its 503s/s>|neighbour's p50, p99 alone>|beside it>|503s>"
)

func neighbourIntro(o *options) string {
	return fmt.Sprintf("%v windows, median of %d. The attack uses %d connections. The goal for the neighbour's p99 is %v.", o.window, o.runs, attackers, neighbourGoal)
}

// measureNeighbours measures a client that repeats its service's first work on one connection, while another client
// repeats a larger work on many connections.
func measureNeighbours(ctx context.Context, o *options, e *engine, t *table) error {
	for i := range o.loads {
		l := &o.loads[i]
		var attacks []*operation
		for _, op := range l.operations() {
			if op.attack && o.works.MatchString(op.name) {
				attacks = append(attacks, &op)
			}
		}
		if len(attacks) == 0 {
			continue
		}
		err := onServer(ctx, o.binary, l.service, e, nil, func(s *server) error {
			if err := s.fillAll(ctx, 2); err != nil {
				return err
			}
			for _, a := range attacks {
				if err := a.measureAttack(ctx, o, s, t); err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// measureAttack writes a row: the work of the second owner alone, and while the first owner repeats op.
func (op *operation) measureAttack(ctx context.Context, o *options, s *server, t *table) error {
	var refused, refusals atomic.Int64
	var attack phase
	neighbour := s.operations()[0]
	neighbour.do, neighbour.settle = counting(neighbour.do, &refused), nil // the attack leaves no time to settle
	window := func() (sample, error) { return neighbour.window(ctx, s, s.owners[1:], o.window) }
	all, err := alternate(o.runs, window, func() (got sample, err error) {
		err = withAll(ctx, slices.Repeat(s.owners[:1], attackers), func(callers []*caller) error {
			var over atomic.Bool
			do, end := counting(op.do, &refusals), make(chan error, 1)
			go func() {
				p, err := drive(ctx, len(callers), func(int, time.Duration) bool { return !over.Load() },
					func(ctx context.Context, c, i int) error { return do(ctx, callers[c], i) })
				attack.add(p)
				end <- err
			}()
			got, err = window()
			over.Store(true)
			return errors.Join(err, <-end)
		})
		return got, err
	})
	if err != nil {
		return err
	}
	alone, beside, no := all[0], all[1], refused.Load()
	refusedAttacks := int(refusals.Load())
	t.row(op.name, s.engine.name, perSecond(len(attack.took)-refusedAttacks, attack.all), perSecond(refusedAttacks, attack.all),
		text(alone.p50)+", "+text(alone.p99), goalCell(beside.p99 > neighbourGoal || no > 0, text(beside.p50)+", "+text(beside.p99)), no)
	return nil
}

// counting returns an operation's step that counts refusals (503) instead of returning them as errors.
func counting(do do, refusals *atomic.Int64) do {
	return func(ctx context.Context, c *caller, i int) error {
		err := do(ctx, c, i)
		if errors.Is(err, errBusy) {
			refusals.Add(1)
			return nil
		}
		return err
	}
}
