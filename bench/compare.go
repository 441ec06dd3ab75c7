package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	workload "holdfast/internal/workload/buckets"
)

// onSide starts a server on an engine for the time that fn runs.
type onSide func(ctx context.Context, engine string, fn func(*server) error) error

// holdfast returns a side that runs this binary on an empty engine of its own.
func holdfast(binary string, of service) onSide {
	return func(ctx context.Context, name string, fn func(*server) error) error {
		return onEngine(name, func(e *engine) error { return onServer(ctx, binary, of, e, nil, fn) })
	}
}

// compareSides writes a row for each work that both sides have, and each number of connections.
func (o *options) compareSides(ctx context.Context, a, b *server, t *table) error {
	all := slices.DeleteFunc(a.operations(), func(op operation) bool {
		return !o.works.MatchString(op.name) || named(b, op.name) == nil
	})
	if len(all) == 0 {
		return nil
	}
	for _, s := range []*server{a, b} {
		if err := s.fillAll(ctx, slices.Max(o.connections)); err != nil {
			return err
		}
	}
	return o.eachWork(all, func(op *operation, n int) error {
		theirs := named(b, op.name)
		windows := func(runs int, d time.Duration) ([]sample, error) {
			return alternate(runs,
				func() (sample, error) { return op.window(ctx, a, a.owners[:n], d) },
				func() (sample, error) { return theirs.window(ctx, b, b.owners[:n], d) })
		}
		if _, err := windows(1, o.window/2); err != nil { // a warm-up
			return err
		}
		got, err := windows(o.runs, o.window)
		if err == nil {
			t.beside(op.name, a.engine.name, n, got[0], got[1])
		}
		return err
	})
}

// beside writes a row with the ratios of a to b. Unknown figures are 0.
func (t *table) beside(work, engine string, connections int, a, b sample) {
	pair := func(x, y any, r float64) string {
		ratio := none
		if r > 0 {
			ratio = fmt.Sprintf("**%.2f**", r)
		}
		return text(x) + " | " + text(y) + " | " + ratio
	}
	over := func(x, y time.Duration) float64 {
		if y == 0 {
			return 0
		}
		return float64(x) / float64(y)
	}
	theirs := any(size64(b.peak))
	if b.peak == 0 { // its processes are unknown
		theirs = none
	}
	t.row(work, engine, connections, pair(a.ops, b.ops, a.ops/b.ops), a.p50, b.p50, a.p99, b.p99,
		pair(micros(a.cpu), micros(b.cpu), over(a.cpu, b.cpu)), pair(micros(a.engine), micros(b.engine), over(a.engine, b.engine)), size64(a.peak), theirs)
}

// peer is another server for the clients of a service.
type peer struct {
	part, name string
	of         string // part of the service
	on         onSide
	also       func(ctx context.Context, o *options, out io.Writer) error // may be nil
}

// compare compares Holdfast with the peer, which always uses its own database, on each engine.
func (p *peer) compare(ctx context.Context, o *options, out io.Writer) error {
	fmt.Fprintf(out, "%v windows, median of %d; each ratio is Holdfast to %s.\n\n", o.window, o.runs, p.name)
	const columns = "work|engine|connections>|ops/s>|@>|ratio>|p50>|@>|p99>|@>|server CPU µs/op>|@>|ratio>|engine CPU µs/op>|@>|ratio>|peak memory>|@>"
	t, ours := newTable(out, strings.ReplaceAll(columns, "@", p.name)), holdfast(o.binary, o.load(p.of).service)
	for _, name := range o.engines {
		err := ours(ctx, name, func(a *server) error {
			return p.on(ctx, name, func(b *server) error { return o.compareSides(ctx, a, b, t) })
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if p.also == nil {
		return nil
	}
	return p.also(ctx, o, out)
}

// peers returns the peers that are selected by flags. An older Holdfast is a peer for each part.
func (o *options) peers() (all []peer) {
	if o.peer != "" {
		all = append(all, peer{part: "peer", name: "the peer", of: "load", on: func(_ context.Context, _ string, fn func(*server) error) error {
			u, _ := url.Parse(o.peer)
			sync := newSync(o.size)
			sync.secret, sync.retries = o.peerSecret, 100
			s := &server{service: sync, engine: &engine{name: "peer"}, listen: u.Host, theirs: o.peerPIDs, next: 1}
			return fn(s)
		}})
	}
	if o.pocketBase != "" {
		p := &pocketBase{binary: o.pocketBase}
		all = append(all, peer{part: "pocketbase", name: "PocketBase", of: "ext", on: p.on, also: p.starts})
	}
	if o.minIO != "" { // syncs its writes
		all = append(all, peer{part: "minio", name: "MinIO", of: "buckets", on: o.onS3(o.minIO, "server", "--quiet", "--address", "LISTEN", "DIR")})
	}
	if o.versityGW != "" { // does not sync its writes
		all = append(all, peer{part: "versitygw", name: "versitygw", of: "buckets", on: o.onS3(o.versityGW, "--port", "LISTEN", "--access", s3PeerKey, "--secret", s3PeerKey, "--keep-alive", "posix", "DIR")})
	}
	if o.against != "" {
		all = nil
		for i := range o.loads {
			if l := &o.loads[i]; slices.Contains(o.parts, l.part) {
				all = append(all, peer{part: "against", name: "before", of: l.part, on: holdfast(o.against, l.service)})
			}
		}
	}
	return all
}

const s3PeerKey = "benchbench"

// onS3 returns a side that runs another S3 server. Among args, LISTEN stands for its address, and DIR for an empty folder.
func (o *options) onS3(program string, args ...string) onSide {
	return func(ctx context.Context, _ string, fn func(*server) error) error {
		w := newBuckets(o.size)
		w.retries, w.key = 100, func(s *server) (string, sigv4test.Signer, error) {
			return s.listen, workload.Key(s3PeerKey, s3PeerKey), nil
		}
		return onPeer(w, func(s *server) error {
			owner, err := w.owner(s, 1)
			if err != nil {
				return err
			}
			s.env = append(os.Environ(), "MINIO_ROOT_USER="+s3PeerKey, "MINIO_ROOT_PASSWORD="+s3PeerKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
			ready := func() error {
				return with(ctx, owner, func(c *caller) error { return c.do(ctx, http.MethodGet, "/", nil) })
			}
			filled := each(args, strings.NewReplacer("LISTEN", s.listen, "DIR", s.data()).Replace)
			if err := s.run(ctx, ready, program, filled...); err != nil {
				return err
			}
			return fn(s)
		})
	}
}

// onPeer makes a folder and an address for another server, which fn starts.
func onPeer(of service, fn func(*server) error) error {
	s, err := newServer(of, &engine{name: "peer"})
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.remove())
}

// checkPeer checks the flags for a running Sync server.
func (o *options) checkPeer() error {
	if o.peer == "" {
		if o.peerSecret != "" || len(o.peerPIDs) > 0 {
			return errors.New("-peer-secret and -peer-pids need -peer")
		}
		return nil
	}
	u, err := url.Parse(o.peer)
	switch {
	case err != nil || u.Scheme != "http" || u.Port() == "" || u.Path != "":
		return fmt.Errorf("-peer: invalid value %q: expected an address such as http://127.0.0.1:8001", o.peer)
	case o.peerSecret == "":
		return errors.New("-peer needs -peer-secret, the master secret of the peer")
	case slices.Contains(o.peerPIDs, os.Getpid()):
		return errors.New("-peer-pids: the list contains the load generator")
	}
	return nil
}
