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

	"holdfast/internal/syncstorage/budget"
	"holdfast/internal/testdb"
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
	rows        []int
	profiles    string
	copySync    int
	copyWrites  int
	copyExt     int
	citus       string // database URL

	services []entry
	size     *size
}

type size struct {
	batch         int
	batches       []int // batch sizes for memory
	starts        int
	idle          time.Duration // time to wait after a start
	uploads       int           // concurrent batches for memory
	downloads     int           // concurrent readers
	download      int           // 10 kB records per reader
	users         int           // maximum number of users for PUTs in a large table
	ofOne         int           // the single large user's records
	rowsCallers   int
	manyRecords   int   // the other users' records in that table
	rowsPayload   int   // bytes
	batchCallers  int   // maximum connections for batches
	extInstalls   int   // maximum installs for puts in a large table
	extNamespaces []int // keys per namespace
	extSpread     int   // installs in that table's last row
	events        int
	hotCallers    []int // connection counts for writes to the same record
	diskRecords   int   // for disk usage

	reads      int // small objects to read
	large      int
	listKeys   int   // objects in the listed bucket; a multiple of 1,000
	deletes    int   // per window
	huge       int64 // object size for memory, in bytes
	bucketKeys []int // keys per bucket

	guests    int // sessions for memory
	guestRows int
	browsers  int // sessions that publish events

	consoleRows int
}

// On Spanner a batch must fit into a single commit.
func (s *size) records(e *engine) int {
	if e.spanner != nil {
		return min(s.batch, budget.Records)
	}
	return s.batch
}

var full = size{
	batch: 10_000, batches: []int{100, 1_000, 10_000, 100_000}, batchCallers: 16, starts: 10, idle: time.Second,
	uploads: 64, downloads: 16, download: 10_000,
	users: 2_000, ofOne: 100_000, manyRecords: 100, rowsCallers: 16, rowsPayload: 150,
	extInstalls: 100, extSpread: 2_000, extNamespaces: []int{100, 1_000, 5_000}, events: 50_000,
	hotCallers: []int{1, 64, 240}, diskRecords: 20_000,
	reads: 1000, large: 64 << 20, listKeys: 100_000, deletes: 2000, huge: 5 << 30, bucketKeys: []int{1000, 1_000_000},
	guests: 1_000_000, guestRows: 2000, browsers: 1000, consoleRows: 1_000_000,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if os.Getenv(guestBareListen) != "" {
		err = serveBare(ctx)
	} else {
		err = measureAll(ctx)
	}
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

func parse(args []string) (options, error) {
	var connections, names, engineNames, rows, works, pids string
	sizes := full
	o := options{command: "go run ./bench", services: services(&sizes), size: &sizes}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.binary, "binary", "bin/holdfast", "the server's binary")
	f.StringVar(&o.against, "against", "", "compare -binary with this binary instead of with the bare limit, in alternating windows.\n"+
		"Prints ratios of throughput, server and engine CPU, and memory for the works in the parts load and ext.\n"+
		"Each binary runs its own server and engine. A ratio of 0.60 in a CPU column means -binary needs 60 % of the CPU per operation.\n"+
		"Example: bench -binary bin/holdfast -against /tmp/holdfast-before -parts load -engines sqlite -connections 16,64 -works POST -runs 9")
	f.StringVar(&o.peer, "peer", "", "compare Sync with a running server, e.g. http://127.0.0.1:8001, in alternating windows.\n"+
		"The comparison writes records for users 1, 2, 3 … to the peer.")
	f.StringVar(&o.peerSecret, "peer-secret", "", "the peer's master secret, which signs its tokens")
	f.StringVar(&pids, "peer-pids", "", "the peer's PIDs on this machine, e.g. 123,456, to measure its CPU and memory")
	f.StringVar(&o.pocketBase, "pocketbase", "", "compare extension storage with this PocketBase binary")
	f.StringVar(&o.minIO, "minio", "", "compare buckets with this MinIO binary")
	f.StringVar(&o.versityGW, "versitygw", "", "compare buckets with this versitygw binary")
	f.StringVar(&works, "works", "", "measure only works whose name matches this regular expression, in the parts load and ext and with -against; empty: all")
	f.StringVar(&o.out, "out", "", "document whose tables are replaced; empty: print only")
	f.StringVar(&names, "parts", strings.Join(partNames(false), ","), "parts to measure: "+strings.Join(partNames(true), ", "))
	f.DurationVar(&o.window, "window", 5*time.Second, "duration of a measurement")
	f.IntVar(&o.runs, "runs", 5, "measurements per side; the median counts")
	f.StringVar(&connections, "connections", "1,16,64", "connection counts for the parts load and ext")
	f.StringVar(&engineNames, "engines", strings.Join(engines, ","), "engines")
	f.StringVar(&rows, "rows", "1e4,1e5,1e6,1e7", "row counts for the parts rows and extrows, ascending")
	f.IntVar(&o.copyWrites, "copy-writes", 500, "writes per second during each copy in the part copy")
	f.IntVar(&o.copySync, "copy-sync", 100_000, "Sync records in the part copy")
	f.IntVar(&o.copyExt, "copy-ext", 100_000, "extension storage records in the part copy")
	f.StringVar(&o.citus, "citus", "", "database with the Citus extension, for the part copy, which replaces databases bench_… on all nodes")
	f.StringVar(&o.profiles, "profiles", "", "folder for CPU profiles of the server, one for each missed goal, row count and budgets row; empty: none")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	f.Visit(func(f *flag.Flag) {
		if !slices.Contains([]string{"binary", "against", "out", "profiles", "peer", "peer-secret", "peer-pids", "pocketbase", "minio", "versitygw", "citus"}, f.Name) { // these flags do not affect the measurement
			o.command += " -" + f.Name + " " + f.Value.String()
		}
	})
	if o.peer != "" {
		o.command += " -peer URL -peer-secret SECRET -peer-pids PIDS"
	}
	if o.pocketBase != "" {
		o.command += " -pocketbase " + filepath.Base(o.pocketBase)
	}
	if o.minIO != "" {
		o.command += " -minio " + filepath.Base(o.minIO)
	}
	if o.versityGW != "" {
		o.command += " -versitygw " + filepath.Base(o.versityGW)
	}
	var err error
	if o.connections, err = numbers("connections", connections, 1000); err != nil {
		return o, err
	}
	if o.rows, err = numbers("rows", rows, 1e9); err != nil {
		return o, err
	}
	if o.engines, err = choice("engines", engineNames, engines); err != nil {
		return o, err
	}
	if o.parts, err = choice("parts", names, partNames(true)); err != nil {
		return o, err
	}
	if o.works, err = regexp.Compile(works); err != nil {
		return o, fmt.Errorf("-works: %w", err)
	}
	if pids != "" {
		if o.peerPIDs, err = numbers("peer-pids", pids, 1<<22); err != nil {
			return o, err
		}
	}
	if err := o.checkPeer(); err != nil {
		return o, err
	}
	if o.runs < 1 || o.window <= 0 {
		return o, errors.New("-runs and -window must be more than 0")
	}
	return o, nil
}

func numbers(name, list string, most float64) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n < 1 || n > most || n != float64(int(n)) {
			return nil, fmt.Errorf("-%s: invalid value %q: expected a whole number from 1 to %.0f", name, text, most)
		}
		all = append(all, int(n))
	}
	if !slices.IsSorted(all) {
		return nil, fmt.Errorf("-%s: expected ascending numbers", name)
	}
	return all, nil
}

func choice(name, list string, of []string) ([]string, error) {
	all := strings.Split(list, ",")
	for _, one := range all {
		if !slices.Contains(of, one) {
			return nil, fmt.Errorf("-%s: invalid value %q: expected one of %s", name, one, strings.Join(of, ", "))
		}
	}
	return all, nil
}

// part is a measurement with an empty engine and a new server. Some parts make no sense on the Spanner emulator,
// which scans whole tables and limits batches.
type part struct {
	name    string
	slow    bool // run only if named
	spanner bool
	head    func(*options, io.Writer)
	measure func(ctx context.Context, o *options, e *engine, out io.Writer) error
}

func parts(of []entry) (all []part) {
	for i := range of {
		b := &of[i]
		all = append(all, part{name: b.part, spanner: b.spanner, head: measureHead, measure: b.measure})
		all = append(all, b.parts...)
	}
	return append(all, part{name: "guest", head: guestHead, measure: measureGuest}, part{name: "guestsize", head: guestSizeHead, measure: measureGuestSize},
		part{name: "console", head: consoleHead, measure: measureConsole},
		part{name: "copy", head: copyHead, measure: measureCopy})
}

func partNames(slow bool) (names []string) {
	for _, p := range parts(services(&size{})) {
		if slow || !p.slow {
			names = append(names, p.name)
		}
	}
	return names
}

func run(ctx context.Context, o *options, terminal io.Writer) error {
	on, err := machine(ctx, o)
	if err != nil {
		return err
	}
	if o.against != "" {
		fmt.Fprintf(terminal, "`%s` on %s\n\n", o.command, on)
		return compare(ctx, o, terminal)
	}
	r := report{terminal: terminal, document: o.out, begin: fmt.Sprintf("`%s` on %s", o.command, on)}
	if o.peer != "" || o.pocketBase != "" || o.minIO != "" || o.versityGW != "" {
		return measurePeers(ctx, o, &r)
	}
	for _, p := range parts(o.services) {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		err := r.part(p.name, func(out io.Writer) error {
			p.head(o, out)
			for _, name := range o.engines {
				if name == "spanner" && !p.spanner {
					continue
				}
				err := onEngine(name, func(e *engine) error { return p.measure(ctx, o, e, out) })
				if errors.Is(err, testdb.ErrNoEmulator) {
					fmt.Fprintf(os.Stderr, "bench: %s: skipped: %v\n", name, err)
					continue
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
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

func onEngine(name string, fn func(*engine) error) error {
	e, err := openEngine(name)
	if err != nil {
		return err
	}
	defer e.close()
	return fn(e)
}

func onServer(ctx context.Context, o *options, e *engine, settings []string, fn func(*server) error) error {
	var all []string
	for _, b := range o.services {
		all = append(all, b.settings(e)...)
	}
	if e.postgres != nil {
		// The previous server's data folder was deleted with its bodies.
		err := e.exec(ctx, `DO $$ BEGIN IF to_regclass('manta_bucket_node') IS NOT NULL THEN DELETE FROM manta_bucket_node; END IF; END $$`)
		if err != nil {
			return err
		}
	}
	s, err := serve(ctx, o.binary, e, append(all, settings...))
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.remove())
}

func onFilled(ctx context.Context, o *options, e *engine, of service, n int, fn func(s *server, owners []credentials) error) error {
	own, err := enabled(of)
	if err != nil {
		return err
	}
	return onServer(ctx, o, e, own, func(s *server) error {
		owners, err := s.filled(ctx, of, n)
		if err != nil {
			return fmt.Errorf("fill the server: %w", err)
		}
		return fn(s, owners)
	})
}
