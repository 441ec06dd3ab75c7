package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
)

func measurePeers(ctx context.Context, o *options, r *report) error {
	var all []error
	if o.peer != "" {
		all = append(all, r.part("peer", func(out io.Writer) error {
			return comparePeer(ctx, o, "the peer", o.service("load"), o.withPeer, out)
		}))
	}
	if o.pocketBase != "" {
		all = append(all, r.part("pocketbase", func(out io.Writer) error {
			err := comparePeer(ctx, o, "PocketBase", o.service("ext"), o.withPocketBase, out)
			if err == nil {
				err = o.pocketStart(ctx, out)
			}
			return err
		}))
	}
	if o.minIO != "" {
		all = append(all, r.part("minio", func(out io.Writer) error {
			return comparePeer(ctx, o, "MinIO", o.service("buckets"), o.withMinIO, out)
		}))
	}
	if o.versityGW != "" {
		all = append(all, r.part("versitygw", func(out io.Writer) error {
			return comparePeer(ctx, o, "versitygw", o.service("buckets"), o.withVersityGW, out)
		}))
	}
	return errors.Join(all...)
}

func comparePeer(ctx context.Context, o *options, name string, ours service, with func(context.Context, func(*side) error) error, out io.Writer) error {
	fmt.Fprintf(out, "%v windows, median of %d; each ratio is Holdfast to %s.\n\n", o.window, o.runs, name)
	fmt.Fprintf(out, compareHead, name)
	for _, engine := range o.engines {
		if engine == "spanner" {
			fmt.Fprintln(os.Stderr, "bench: spanner: skipped: the emulator says nothing about the speed of Spanner")
			continue
		}
		self := &side{name: o.binary, service: ours}
		err := onBinaries(ctx, o, engine, []*side{self}, func() error {
			return with(ctx, func(peer *side) error { return compareSides(ctx, o, []*side{self, peer}, out) })
		})
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
	}
	return nil
}

func (o *options) withPeer(_ context.Context, fn func(*side) error) error {
	e := &engine{name: "peer"}
	u, _ := url.Parse(o.peer)
	s := &server{engine: e, listen: u.Host, theirs: o.peerPIDs, next: 1}
	return fn(&side{name: o.peer, service: peerLoad{&syncLoad{secret: o.peerSecret}}, engine: e, server: s})
}

// peerLoad is a Sync load for a peer, whose clients retry after a 503.
type peerLoad struct{ *syncLoad }

func (w peerLoad) owner(s *server, n int) (credentials, error) {
	c, err := w.syncLoad.owner(s, n)
	c.retries = 100
	return c, err
}

func (o *options) checkPeer() error {
	if o.peer == "" {
		if o.peerSecret != "" || len(o.peerPIDs) > 0 {
			return errors.New("-peer-secret and -peer-pids need -peer")
		}
		return nil
	}
	u, err := url.Parse(o.peer)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.Path != "" {
		return fmt.Errorf("-peer: invalid value %q: expected an address such as http://127.0.0.1:8001", o.peer)
	}
	if o.peerSecret == "" {
		return errors.New("-peer needs -peer-secret, the master secret of the peer")
	}
	if slices.Contains(o.peerPIDs, os.Getpid()) {
		return errors.New("-peer-pids: the list contains the load generator")
	}
	return nil
}
