// Command bench measures the services over HTTP and, in the same run, their limit: the same rows in the same engine
// without HTTP, signatures, JSON and service rules. It prints Markdown tables, and writes them into a document
// between markers that name its parts.
//
//	make bench
//
// Only the ratio matters, because absolute figures depend on the machine and its load. Therefore server and limit are
// measured in alternating windows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	command     string
	binary      string
	against     string // binary
	peer        string // URL of a Sync server
	peerSecret  string
	peerPIDs    []int
	pocketBase  string // binary
	minIO       string // binary
	versityGW   string // binary
	works       *regexp.Regexp
	out         string
	parts       []string
	window      time.Duration
	runs        int
	connections []int
	engines     []string
	profiles    string

	loads []load
	size  *size
}

// size are the numbers that tests make small. There is no flag for them, so that tables are comparable.
type size struct {
	batch        int
	batches      []int // batch sizes for memory
	starts       int
	idle         time.Duration // time to wait after a start
	batchCallers int           // maximum connections for batches

	reads    int // small objects to read
	large    int
	listKeys int   // objects in the listed bucket; a multiple of 1,000
	deletes  int   // per connection in a round
	huge     int64 // object size for memory, in bytes; a multiple of 1 MiB
}

var full = size{
	batch: 10_000, batches: []int{100, 1_000, 10_000, 100_000}, batchCallers: 16, starts: 10, idle: time.Second,
	reads: 1000, large: 64 << 20, listKeys: 100_000, deletes: 100, huge: 5 << 30,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measureAll(ctx)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureAll(ctx context.Context) error {
	o, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	return run(ctx, &o, os.Stdout)
}

// parse also writes options.command for the document, without flags that do not affect the measurement, and with
// placeholders for a peer's address and secret.
func parse(args []string) (options, error) {
	var connections, names, engineNames, pids string
	sizes := full
	o := options{command: "go run ./bench", loads: loads(&sizes), size: &sizes, works: regexp.MustCompile("")}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.binary, "binary", "bin/holdfast", "the server's binary")
	f.StringVar(&o.against, "against", "", "compare -binary with this binary instead of with the bare limit, in alternating windows.\n"+
		"Prints ratios of throughput, server and engine CPU, and memory for the works in the parts load, ext and buckets.\n"+
		"Each binary runs its own server and engine. A ratio of 0.60 in a CPU column means -binary needs 60 % of the CPU per operation.\n"+
		"Example: bench -binary bin/holdfast -against /tmp/holdfast-before -parts load -engines sqlite -connections 16,64 -works POST -runs 9")
	f.StringVar(&o.peer, "peer", "", "compare Sync with a running server, e.g. http://127.0.0.1:8001, in alternating windows.\n"+
		"The comparison writes records for users 1, 2, 3 … to the peer.")
	f.StringVar(&o.peerSecret, "peer-secret", "", "the peer's master secret, which signs its tokens")
	f.StringVar(&pids, "peer-pids", "", "the peer's PIDs on this machine, e.g. 123,456, to measure its CPU and memory")
	f.StringVar(&o.pocketBase, "pocketbase", "", "compare extension storage with this PocketBase binary")
	f.StringVar(&o.minIO, "minio", "", "compare buckets with this MinIO binary")
	f.StringVar(&o.versityGW, "versitygw", "", "compare buckets with this versitygw binary")
	f.TextVar(o.works, "works", o.works,
		"measure only works whose name matches this `regexp`, in the parts load, ext, buckets and neighbour, and beside peers; empty: all")
	f.StringVar(&o.out, "out", "", "document whose tables are replaced; empty: print only")
	f.StringVar(&names, "parts", strings.Join(partNames(), ","), "parts to measure: "+strings.Join(partNames(), ", "))
	f.DurationVar(&o.window, "window", 5*time.Second, "duration of a measurement")
	f.IntVar(&o.runs, "runs", 5, "measurements per side; the median counts")
	f.StringVar(&connections, "connections", "1,16,64", "connection counts for the parts load, ext and buckets")
	f.StringVar(&engineNames, "engines", strings.Join(engines, ","), "engines")
	f.StringVar(&o.profiles, "profiles", "", "folder for CPU profiles of the server, one for each row of the parts load, ext and buckets; empty: none")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	f.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "binary", "against", "out", "profiles": // do not affect the measurement
			return
		case "peer", "peer-secret", "peer-pids": // do not belong in the document
			value = map[string]string{"peer": "URL", "peer-secret": "SECRET", "peer-pids": "PIDS"}[f.Name]
		case "pocketbase", "minio", "versitygw":
			value = filepath.Base(value)
		}
		o.command += " -" + f.Name + " " + value
	})
	var errs [5]error
	o.connections, errs[0] = numbers("connections", connections, 1000)
	o.peerPIDs, errs[1] = numbers("peer-pids", pids, 1<<22)
	o.engines, errs[2] = choice("engines", engineNames, engines)
	o.parts, errs[3] = choice("parts", names, partNames())
	if o.runs < 1 || o.window <= 0 || connections == "" {
		errs[4] = errors.New("-runs, -window and -connections must be more than 0")
	}
	return o, errors.Join(append(errs[:], o.checkPeer())...)
}

// numbers parses ascending whole numbers, separated by commas; name is the flag.
func numbers(name, list string, most int) (all []int, err error) {
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("-%s: invalid value %q: expected a whole number from 1 to %d", name, text, most)
		}
		all = append(all, n)
	}
	if !slices.IsSorted(all) {
		return nil, fmt.Errorf("-%s: expected ascending numbers", name)
	}
	return all, nil
}

// choice parses names from a list, separated by commas; name is the flag.
func choice(name, list string, of []string) ([]string, error) {
	all := strings.Split(list, ",")
	for _, one := range all {
		if !slices.Contains(of, one) {
			return nil, fmt.Errorf("-%s: invalid value %q: expected one of %s", name, one, strings.Join(of, ", "))
		}
	}
	return all, nil
}

// part measures a table, on each engine.
type part struct {
	name    string
	intro   func(o *options) string // how it is measured; may be nil
	columns string                  // see newTable
	measure func(ctx context.Context, o *options, e *engine, t *table) error
}

// parts returns all parts, in the order of measurement.
func parts(of []load) (all []part) {
	for i := range of {
		all = append(all, part{of[i].part, loadIntro, loadColumns, of[i].measure})
	}
	return append(all,
		part{"memory", nil, memoryColumns, measureMemory},
		part{"start", startIntro, startColumns, measureStart},
		part{"neighbour", neighbourIntro, neighbourColumns, measureNeighbours},
		part{"bucketsmemory", nil, memoryColumns, measureBucketsMemory},
	)
}

func partNames() (names []string) {
	for _, p := range parts(loads(&size{})) {
		names = append(names, p.name)
	}
	return names
}

// load returns the service that is measured in a part.
func (o *options) load(part string) *load {
	return &o.loads[slices.IndexFunc(o.loads, func(l load) bool { return l.part == part })]
}

// run measures the selected parts, and prints their tables.
func run(ctx context.Context, o *options, terminal io.Writer) error {
	on, err := machine(ctx, o)
	if err != nil {
		return err
	}
	r := report{terminal: terminal, document: o.out, begin: fmt.Sprintf("`%s` on %s", o.command, on)}
	if o.against != "" {
		r.document = ""
	}
	if peers := o.peers(); len(peers) > 0 {
		var all []error
		for _, p := range peers {
			all = append(all, r.part(p.part, func(out io.Writer) error { return p.compare(ctx, o, out) }))
		}
		return errors.Join(all...)
	}
	for _, p := range parts(o.loads) {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		if err := r.part(p.name, func(out io.Writer) error { return p.write(ctx, o, out) }); err != nil {
			return err
		}
	}
	return nil
}

// write writes the part's table with the rows of all engines.
func (p *part) write(ctx context.Context, o *options, out io.Writer) error {
	if p.intro != nil {
		fmt.Fprintf(out, "%s\n\n", p.intro(o))
	}
	t := newTable(out, p.columns)
	for _, name := range o.engines {
		if err := onEngine(name, func(e *engine) error { return p.measure(ctx, o, e, t) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
