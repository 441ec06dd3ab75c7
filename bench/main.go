// Command bench measures the sync room as its clients meet it, and in the same
// run the bare limit beside it: the same rows in the same engine without HTTP,
// signatures, JSON and the rules of the room. It prints a table in Markdown.
//
//	make build && go run ./bench
//
// The ratio of the two is what counts. Absolute figures are the machine's, and
// on a shared one those of the moment; server and limit therefore take turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	binary      string
	window      time.Duration
	runs        int
	connections []int
	engines     []string
	profiles    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	t := &table{out: os.Stdout}
	t.head(&o)
	for _, name := range o.engines {
		if err := measure(ctx, &o, name, t); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func parse(args []string) (options, error) {
	var (
		o                    options
		connections, engines string
	)
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.binary, "binary", "bin/holdfast", "the server's binary")
	f.DurationVar(&o.window, "window", 5*time.Second, "how long one measurement takes, in whole seconds")
	f.IntVar(&o.runs, "runs", 5, "measurements of each side, of which the median counts")
	f.StringVar(&connections, "connections", "1,16,64", "numbers of connections, at most 64")
	f.StringVar(&engines, "engines", "sqlite,postgres", "engines")
	f.StringVar(&o.profiles, "profiles", "", "folder for a CPU profile of the server at each goal that is missed; empty: none")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for text := range strings.SplitSeq(connections, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > users {
			return o, fmt.Errorf("-connections: %q is not a number from 1 to %d", text, users)
		}
		o.connections = append(o.connections, n)
	}
	o.engines = strings.Split(engines, ",")
	for _, name := range o.engines {
		if !slices.Contains([]string{"sqlite", "postgres"}, name) {
			return o, fmt.Errorf("-engines: %q is neither sqlite nor postgres", name)
		}
	}
	if o.runs < 1 || o.window < time.Second || o.window%time.Second != 0 {
		return o, errors.New("-runs must be at least 1 and -window a number of whole seconds") // pgbench counts in seconds
	}
	return o, nil
}

// measure fills the table's rows of one engine.
func measure(ctx context.Context, o *options, name string, t *table) (err error) {
	l, err := openLimit(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	s, err := serve(ctx, o.binary, l.databaseURL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.fill(ctx); err != nil {
		return fmt.Errorf("fill the server: %w", err)
	}
	for _, w := range works() {
		for _, n := range o.connections {
			if err := measureWork(ctx, o, s, l, &w, n, t); err != nil {
				return fmt.Errorf("%s at %d: %w", w.name, n, err)
			}
		}
	}
	return measureBatch(ctx, o, s, l, t)
}

// measureWork fills one row.
func measureWork(ctx context.Context, o *options, s *server, l limit, w *work, callers int, t *table) error {
	r := row{work: w.name, engine: l.name(), connections: callers, goal: w.goals[l.name()]}
	if err := s.resetPeak(); err != nil {
		return err
	}
	for range o.runs {
		got, err := s.window(ctx, w, callers, o.window)
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		r.server = append(r.server, got)
		bare, err := l.window(ctx, w.name, callers, o.window)
		if err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		r.limit = append(r.limit, bare)
	}
	var err error
	if r.peak, err = s.peak(); err != nil {
		return err
	}
	t.row(&r)
	return s.profile(ctx, o, &r, func() error {
		_, err := s.window(ctx, w, callers, o.window+time.Second)
		return err
	})
}
