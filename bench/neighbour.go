package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	workload "holdfast/internal/workload/guest"
)

// neighbours are two owners: the first attacks the service while the second uses it.
type neighbours struct {
	title    string
	settings []string
	owners   func(ctx context.Context, s *server) ([]credentials, error)
	works    func(ctx context.Context, c *caller, i int) error
	attacks  []attack
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

const (
	neighbourGoal = 100 * time.Millisecond
	floodCallers  = 300
	holdCallers   = 400
)

func neighbourTable(o *options, out io.Writer) *table {
	fmt.Fprintf(out, "%v windows, median of %d. The goal for the neighbour's p99 is %v.\n\n", o.window, o.runs, neighbourGoal)
	return newTable(out, "service|engine|one client's attack|connections>|its answers/s>|its 503s/s>|neighbour's p50, p99 alone>|beside it>|503s>")
}

func measureNeighbours(ctx context.Context, o *options, e *engine, t *table) error {
	for _, n := range []neighbours{syncNeighbours(o, e), extNeighbours(e), bucketsNeighbours(o), guestNeighbours()} {
		var chosen []attack
		for _, a := range n.attacks {
			if o.works.MatchString(a.name) {
				chosen = append(chosen, a)
			}
		}
		if len(chosen) == 0 {
			continue
		}
		err := onServer(ctx, o.binary, e, n.settings, func(s *server) error {
			owners, err := n.owners(ctx, s)
			if err != nil {
				return err
			}
			for i := range chosen {
				if err := n.measure(ctx, o, s, owners, &chosen[i], t); err != nil {
					return fmt.Errorf("%s: %w", chosen[i].name, err)
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

func (n *neighbours) measure(ctx context.Context, o *options, s *server, owners []credentials, a *attack, t *table) error {
	var d damage
	var attacked time.Duration
	all, err := alternate(o.runs,
		func() (sample, error) { return n.window(ctx, owners[1], o.window) },
		func() (got sample, err error) {
			start := time.Now()
			err = a.during(ctx, owners[0], &d, func() error {
				got, err = n.window(ctx, owners[1], o.window)
				return err
			})
			attacked += time.Since(start)
			return got, err
		})
	if err != nil {
		return err
	}
	alone, beside := all[0], all[1]
	busy := alone.busy + beside.busy
	t.row(n.title, s.engine.name, a.name, a.callers, perSecond(int(d.served.Load()), attacked), perSecond(int(d.refused.Load()), attacked),
		text(alone.p50)+", "+text(alone.p99), goalCell(beside.p99 > neighbourGoal || busy > 0, text(beside.p50)+", "+text(beside.p99)), busy)
	return nil
}

func (n *neighbours) window(ctx context.Context, owner credentials, window time.Duration) (got sample, err error) {
	var busy int64
	err = with(ctx, owner, func(c *caller) error {
		p, err := drive(ctx, 1, lasting(window), func(ctx context.Context, _, i int) error {
			err := n.works(ctx, c, i)
			if errors.Is(err, errBusy) {
				busy++
				return nil
			}
			return err
		})
		if err == nil {
			got = p.sample()
			got.busy = busy
		}
		return err
	})
	return got, err
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

// flood sends requests as fast as possible.
func flood(name string, do func(ctx context.Context, c *caller, i int) error) attack {
	return attack{name: name, callers: floodCallers, run: func(ctx context.Context, owner credentials, d *damage) error {
		sent := sync.OnceFunc(d.sent.Done)
		defer sent()
		return ended(ctx, with(ctx, owner, func(c *caller) error {
			for i := 0; ctx.Err() == nil; i++ {
				sent()
				switch err := do(ctx, c, i); {
				case errors.Is(err, errBusy):
					d.refused.Add(1)
				case err != nil:
					return err
				default:
					d.served.Add(1)
				}
			}
			return nil
		}))
	}}
}

// hold sends half a request, and waits for the response; then it begins again.
func hold(name, method, path string, body []byte) attack {
	return attack{name: name, callers: holdCallers, run: func(ctx context.Context, owner credentials, d *damage) error {
		sent := sync.OnceFunc(d.sent.Done)
		defer sent()
		var err error
		for ctx.Err() == nil && err == nil {
			err = with(ctx, owner, func(c *caller) error { return c.hold(ctx, d, sent, method, path, body) })
		}
		return ended(ctx, err)
	}}
}

func (c *caller) hold(ctx context.Context, d *damage, sent func(), method, path string, body []byte) error {
	defer context.AfterFunc(ctx, c.hangUp)()
	req, err := c.request(ctx, method, path, bytes.NewReader(body), int64(len(body)))
	if err != nil {
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

// ended ignores errors after the attack's end.
func ended(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// filledOwners returns two owners with the records that the operations use.
func filledOwners(of service) func(ctx context.Context, s *server) ([]credentials, error) {
	return func(ctx context.Context, s *server) ([]credentials, error) { return s.filled(ctx, of, 2) }
}

func syncNeighbours(o *options, e *engine) neighbours {
	of := newSync(o.size)
	return neighbours{owners: filledOwners(of), title: "sync", works: named(of, e, workPut).do, attacks: []attack{
		flood(workList, named(of, e, workList).do), flood(workPost, named(of, e, workPost).do),
		hold("2 MB POST, half sent", http.MethodPost, "/storage/"+postCollection, list(0, 100, 20_000)),
	}}
}

func extNeighbours(e *engine) neighbours {
	of := extLoad{}
	return neighbours{owners: filledOwners(of), title: "extension storage", works: named(of, e, workExtPut).do, attacks: []attack{
		flood(workExtList, named(of, e, workExtList).do), flood(workExtBulk, named(of, e, workExtBulk).do),
		hold("400 kB batch, half sent", http.MethodPost, "/batch", bytes.Repeat([]byte(" "), 400_000)),
	}}
}

const (
	s3Attacked  = "/attacked"
	s3Neighbour = "/neighbour"
	// Escaping in lists makes them six times as long.
	s3LongKeys = 1000
	// s3Listers is the number of attackers. A list takes as long as a hundred other requests.
	s3Listers = 48
)

// bucketsNeighbours have an account each.
func bucketsNeighbours(o *options) neighbours {
	attacker, other := newBuckets(o.size), newBuckets(o.size)
	other.key = holdfastKey("neighbour")
	lists := flood("s3 list, 1,000 long keys", func(ctx context.Context, c *caller, _ int) error {
		return done(c.do(ctx, http.MethodGet, s3Attacked+"?list-type=2", nil))
	})
	lists.callers = s3Listers
	put := func(ctx context.Context, owner credentials, bucket string, keys []string, body []byte) error {
		return with(ctx, owner, func(c *caller) error {
			_, err := c.do(ctx, http.MethodPut, bucket, nil)
			for i := 0; i < len(keys) && err == nil; i++ {
				_, err = c.do(ctx, http.MethodPut, bucket+"/"+keys[i], body)
			}
			return err
		})
	}
	return neighbours{
		title: "buckets", attacks: []attack{lists},
		owners: func(ctx context.Context, s *server) ([]credentials, error) {
			first, err := attacker.owner(s, 1)
			if err != nil {
				return nil, err
			}
			if _, err := s.command(ctx, "buckets", "accounts", "create", "neighbour"); err != nil {
				return nil, err
			}
			second, err := other.owner(s, 1)
			if err != nil {
				return nil, err
			}
			long := make([]string, s3LongKeys)
			for i := range long {
				long[i] = fmt.Sprintf("%04d%s", i, strings.Repeat("%22", 1000))
			}
			return []credentials{first, second}, errors.Join(put(ctx, first, s3Attacked, long, nil), put(ctx, second, s3Neighbour, []string{"small"}, other.body(s3Small)))
		},
		works: func(ctx context.Context, c *caller, _ int) error {
			return done(c.do(ctx, http.MethodGet, s3Neighbour+"/small", nil))
		},
	}
}

const guestSearch = `{"country":"AT","pageSize":50}`

// guestNeighbours uses settings that let the load generator choose each guest's address. They also disable rate limits,
// which would refuse the attack too early.
func guestNeighbours() neighbours {
	post := func(name, path string) attack {
		return flood(name, func(ctx context.Context, c *caller, _ int) error {
			return done(c.do(ctx, http.MethodPost, workload.API+path, []byte(guestSearch)))
		})
	}
	return neighbours{
		title: "guest",
		settings: []string{
			"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_BUCKETS__ENABLED=false", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__BOTS__ENABLED=false",
			"HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1",
		},
		attacks: []attack{post("guest search, 50 hotels", "/search"), post("guest search map", "/search/map")},
		owners: func(ctx context.Context, s *server) (all []credentials, err error) {
			for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
				v := workload.Visitor{Header: http.Header{"X-Forwarded-For": {address}}}
				if err := v.Begin(ctx, "http://"+s.listen); err != nil {
					return nil, err
				}
				all = append(all, credentials{Endpoint: "http://" + s.listen, sign: func(r *http.Request) error {
					r.Header.Set("X-Forwarded-For", address)
					r.Header.Set("Cookie", v.Cookie)
					return nil
				}})
			}
			return all, nil
		},
		works: func(ctx context.Context, c *caller, _ int) error {
			return done(c.do(ctx, http.MethodGet, workload.API+"/wishlist", nil))
		},
	}
}
