package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type neighbours struct {
	service
	title   string
	works   operation
	attacks []attack
}

type attack struct {
	name    string
	callers int
	run     func(ctx context.Context, c credentials, d *damage) error
}

type damage struct {
	served, refused atomic.Int64
	sent            sync.WaitGroup // done when every caller is about to send its first request
}

const neighbourGoal = 100 * time.Millisecond

func neighbourHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "%v windows, median of %d. The goal for the neighbour's p99 is %v.\n\n", o.window, o.runs, neighbourGoal)
	fmt.Fprintln(out, "| service | engine | one client's attack | connections | its answers/s | its 503s/s | neighbour's p50, p99 alone | beside it | 503s |")
	fmt.Fprintln(out, "|---|---|---|--:|--:|--:|--:|--:|--:|")
}

func measureNeighbours(ctx context.Context, o *options, e *engine, out io.Writer) error {
	for _, n := range []neighbours{syncNeighbours(o.service("load")), extNeighbours(o.service("ext")), bucketsNeighbours(o.service("buckets")), guestNeighbours(e)} {
		n.attacks = slices.DeleteFunc(n.attacks, func(a attack) bool { return !o.works.MatchString(a.name) })
		if len(n.attacks) == 0 {
			continue
		}
		err := onFilled(ctx, o, e, n.service, 2, func(s *server, owners []credentials) error {
			for i := range n.attacks {
				if err := n.measure(ctx, o, s, owners, &n.attacks[i], out); err != nil {
					return fmt.Errorf("%s: %w", n.attacks[i].name, err)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", n.title, err)
		}
	}
	return nil
}

func (n *neighbours) measure(ctx context.Context, o *options, s *server, owners []credentials, a *attack, out io.Writer) error {
	var alone, beside []sample
	var busy int64
	var d damage
	var attacked time.Duration
	for range o.runs {
		one, refused, err := n.window(ctx, owners[1], o.window)
		if err != nil {
			return err
		}
		alone, busy = append(alone, one), busy+refused
		start := time.Now()
		err = a.during(ctx, owners[0], &d, func() error {
			one, refused, err := n.window(ctx, owners[1], o.window)
			beside, busy = append(beside, one), busy+refused
			return err
		})
		attacked += time.Since(start)
		if err != nil {
			return err
		}
	}
	p50 := func(s sample) time.Duration { return s.p50 }
	p99 := func(s sample) time.Duration { return s.p99 }
	missed := ""
	if median(beside, p99) > neighbourGoal || busy > 0 {
		missed = "**missed** "
	}
	fmt.Fprintf(out, "| %s | %s | %s | %d | %.0f | %.0f | %s, %s | %s%s, %s | %d |\n", n.title, s.engine.name, a.name, a.callers,
		perSecond(int(d.served.Load()), attacked), perSecond(int(d.refused.Load()), attacked),
		ms(median(alone, p50)), ms(median(alone, p99)), missed, ms(median(beside, p50)), ms(median(beside, p99)), busy)
	return nil
}

func (n *neighbours) window(ctx context.Context, owner credentials, window time.Duration) (found sample, refused int64, err error) {
	c, err := dial(ctx, owner)
	if err != nil {
		return found, 0, err
	}
	defer c.hangUp()
	var p phase
	p.took, p.all, err = drive(ctx, 1, lasting(window), func(ctx context.Context, _, i int) error {
		err := n.works.do(ctx, c, i)
		if errors.Is(err, errBusy) {
			refused++
			return nil
		}
		return err
	})
	if err != nil {
		return found, refused, err
	}
	return p.sample(), refused, nil
}

func (a *attack) during(ctx context.Context, owner credentials, d *damage, fn func() error) error {
	attacking, end := context.WithCancel(ctx)
	failed := make(chan error, a.callers)
	d.sent.Add(a.callers)
	for range a.callers {
		go func() { failed <- a.run(attacking, owner, d) }()
	}
	d.sent.Wait()
	errs := []error{fn()}
	end()
	for range a.callers {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

const floodCallers = 300

func flood(name string, do func(ctx context.Context, c *caller, i int) error) attack {
	return attack{name: name, callers: floodCallers, run: func(ctx context.Context, owner credentials, d *damage) error {
		sent := sync.OnceFunc(d.sent.Done)
		defer sent()
		c, err := dial(ctx, owner)
		if err != nil {
			return ended(ctx, err)
		}
		defer c.hangUp()
		for i := 0; ctx.Err() == nil; i++ {
			sent()
			switch err := do(ctx, c, i); {
			case errors.Is(err, errBusy):
				d.refused.Add(1)
			case err != nil:
				return ended(ctx, err)
			default:
				d.served.Add(1)
			}
		}
		return nil
	}}
}

func hold(name string, callers int, method, path string, body []byte) attack {
	return attack{name: name, callers: callers, run: func(ctx context.Context, owner credentials, d *damage) error {
		sent := sync.OnceFunc(d.sent.Done)
		defer sent()
		for ctx.Err() == nil {
			if err := holdOne(ctx, owner, d, sent, method, path, body); err != nil {
				return ended(ctx, err)
			}
		}
		return nil
	}}
}

func holdOne(ctx context.Context, owner credentials, d *damage, sent func(), method, path string, body []byte) error {
	c, err := dial(ctx, owner)
	if err != nil {
		return err
	}
	defer c.hangUp()
	defer context.AfterFunc(ctx, c.hangUp)()
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if err := c.sign(req); err != nil {
		return err
	}
	var all bytes.Buffer
	if err := req.Write(&all); err != nil {
		return err
	}
	if _, err := c.conn.Write(all.Bytes()[:all.Len()-len(body)/2]); err != nil {
		return err
	}
	sent()
	resp, err := http.ReadResponse(c.in, req)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		d.refused.Add(1)
	} else {
		d.served.Add(1)
	}
	return resp.Body.Close()
}

func ended(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func syncNeighbours(of service) neighbours {
	ops := of.operations()
	return neighbours{service: of, title: "sync", works: ops[0], attacks: []attack{
		flood(workList, named(ops, workList)),
		flood(workPost, named(ops, workPost)),
		hold("2 MB POST, half sent", 400, http.MethodPost, "/storage/"+postCollection, list(0, 100, 20_000)),
	}}
}

func extNeighbours(of service) neighbours {
	ops := of.operations()
	return neighbours{service: of, title: "extension storage", works: ops[0], attacks: []attack{
		flood(workExtList, named(ops, workExtList)),
		flood(workExtBulk, named(ops, workExtBulk)),
		hold("400 kB batch, half sent", 400, http.MethodPost, "/batch", bytes.Repeat([]byte(" "), 400_000)),
	}}
}

func named(ops []operation, name string) func(ctx context.Context, c *caller, i int) error {
	return ops[slices.IndexFunc(ops, func(op operation) bool { return op.name == name })].do
}
