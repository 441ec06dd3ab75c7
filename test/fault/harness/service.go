package harness

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/test/binary"
)

// Service describes a service to the fault tests, so that every fault runs against it.
type Service struct {
	Name    string   // as in FAULT_SERVICE
	Section string   // of its settings, as in variables of the environment
	Vars    []string // settings that its workload needs
	Spanner bool     // has a backend for Spanner

	// Settings of one test, whose processes may share a PostgreSQL database; may be nil.
	Own func(t *testing.T, postgres bool) []string

	// The clients: some, or few for an emulator.
	Workload func(t *testing.T, few bool) Workload

	// An owner outside of the workload; nil if no request takes long.
	LargeOwner func(t *testing.T) LargeOwner

	// Users on any node of Citus; zero if Citus does not distribute the tables.
	Neighbours Neighbours

	// Statements that lock, in PostgreSQL, the rows of some clients, or rows and tables that
	// requests of all clients need.
	SomeRows string
	Locks    []string

	Next NextRelease
}

// Neighbours are users outside of the workload, by number, except where the workload has the only one.
type Neighbours struct {
	Table string             // one that Citus distributes
	Key   func(n int) string // SQL with the value of its distribution column, as text
	Send  func(h *Harness, w Workload, n int) (binary.Answer, error)
}

// NextRelease is how a service differs in the next release.
type NextRelease struct {
	Migrations map[string]string    // SQL, by the folder of the backend
	Code       map[string][2]string // text of a file and its replacement
	Written    string               // counts, in PostgreSQL, the records that this code has written
}

// Workload is the clients of a service and what they know from their answers. Only the functions
// that clients returns run concurrently.
type Workload interface {
	// Clients returns the clients of a round. Each writes or reads until the fault is over, and
	// its choices follow from its own random source. It sends requests with judge, counts
	// acknowledgements with acknowledge, and reports any answer that the protocol does not allow.
	Clients(h *Harness, l *Load) []Client

	// Grow adds clients, so that there are n in a round.
	Grow(t *testing.T, n int)

	// Unanswered lists the writes whose result is unknown.
	Unanswered() []string

	// Check compares the data with the acknowledgements: all acknowledged writes are there, and an
	// unanswered write is there as a whole or not at all. It updates the clients' expected state.
	Check(h *Harness)

	// CheckCopy compares a copy, which h.server serves, with the data at one moment between two
	// readings of h.clock. It also writes to the copy. After a restore it skips numbers that the
	// original may have assigned since.
	CheckCopy(h *Harness, begun, ended int64, restored bool)

	// Finish checks, after the last round, delayed effects of acknowledged writes.
	Finish(h *Harness)

	// Probe writes as an owner outside of the workload.
	Probe(h *Harness, s *binary.Server) (binary.Answer, error)

	// Reads returns requests that need a connection to the database, enough to use all connections
	// at once.
	Reads(h *Harness) []func() (binary.Answer, error)
}

// LargeOwner has much data in a service, for requests that take long.
type LargeOwner interface {
	Fill(h *Instance, bytes int)
	Download(h *Instance) *http.Request            // of at least as many bytes
	Upload(h *Instance, id string) *http.Request   // of some ten thousand bytes
	Uploaded(h *Instance, id string) *http.Request // has status 200 if the upload was done
}

// Client writes or reads in a round.
type Client func(choose *rand.Rand)

// Timeouts sets the timeouts for a connection and for a statement.
func Timeouts(of []Service, d time.Duration) []string {
	return append(Settings(of, "DATABASE_POOL_CONNECTION_TIMEOUT", d.String()), Settings(of, "DATABASE_STATEMENT_TIMEOUT", d.String())...)
}

// Settings sets a key in the sections of some services.
func Settings(of []Service, key, value string) (vars []string) {
	for _, s := range of {
		vars = append(vars, "HOLDFAST_"+s.Section+"__"+key+"="+value)
	}
	return vars
}

// Clients returns a client for each writer.
func Clients[W any](writers []W, run func(w W, choose *rand.Rand)) (all []Client) {
	for _, w := range writers {
		all = append(all, func(choose *rand.Rand) { run(w, choose) })
	}
	return all
}

// Unanswered lists the writes with an unknown result; lost returns a writer's unanswered write, or nil.
func Unanswered[W any, D interface {
	comparable
	fmt.Stringer
}](writers []W, lost func(W) D) (all []string) {
	var none D
	for _, w := range writers {
		if d := lost(w); d != none {
			all = append(all, d.String())
		}
	}
	return all
}
