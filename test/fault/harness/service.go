package harness

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/test/binary"
)

// Service describes a service, so that every fault runs against it.
type Service struct {
	Name    string // as in FAULT_SERVICE
	Section string // settings section, as in variables
	Vars    []string
	Spanner bool

	// A test's settings, whose processes may share a PostgreSQL database; may be nil.
	Own func(t *testing.T, postgres bool) []string

	// Clients; few for an emulator.
	Workload func(t *testing.T, few bool) Workload

	// An owner outside the workload; nil if no request takes long.
	LargeOwner func(t *testing.T) LargeOwner

	// Users on any Citus node; zero if the tables are not distributed.
	Neighbours Neighbours

	// PostgreSQL statements that lock some clients' rows, or rows and tables that all clients need.
	SomeRows string
	Locks    []string

	Next NextRelease
}

// Neighbours are numbered users outside the workload, unless it contains the only user.
type Neighbours struct {
	Table string             // distributed by Citus
	Key   func(n int) string // SQL for its distribution column, as text
	Send  func(h *Harness, w Workload, n int) (binary.Answer, error)
}

// NextRelease describes a service's changes in the next release.
type NextRelease struct {
	Migrations map[string]string    // SQL by backend folder
	Code       map[string][2]string // text and replacement by file
	Written    string               // PostgreSQL query that counts the records written by this code
}

// Workload is a service's clients and their model. Only Client functions run concurrently.
type Workload interface {
	// Clients returns a round's clients. Each writes or reads until the fault ends, choosing with its own random
	// source. It uses Judge and Acknowledge, and reports protocol violations.
	Clients(h *Harness, l *Load) []Client

	// Grow adds clients up to n per round.
	Grow(t *testing.T, n int)

	// Unanswered lists the writes with an unknown result.
	Unanswered() []string

	// Check compares the data with the acknowledgements: acknowledged writes exist, unanswered ones completely or not
	// at all. It updates the model.
	Check(h *Harness)

	// CheckCopy compares a copy, served by h.Server, with the data at some moment between two readings of h.Clock. It
	// also writes to the copy. After a restore, the copy skips numbers that the original may have assigned.
	CheckCopy(h *Harness, begun, ended int64, restored bool)

	// Finish checks delayed effects after the last round.
	Finish(h *Harness)

	// Probe writes as an owner outside the workload.
	Probe(h *Harness, s *binary.Server) (binary.Answer, error)

	// Reads returns enough requests to use all database connections.
	Reads(h *Harness) []func() (binary.Answer, error)
}

// LargeOwner owns enough data for long requests.
type LargeOwner interface {
	Fill(h *Instance, bytes int)
	Download(h *Instance) *http.Request            // at least as many bytes
	Upload(h *Instance, id string) *http.Request   // tens of kilobytes
	Uploaded(h *Instance, id string) *http.Request // status 200 if the upload was done
}

// Client is a client's work in a round.
type Client func(choose *rand.Rand)

// Timeouts sets the timeouts for connections and statements.
func Timeouts(of []Service, d time.Duration) []string {
	return append(Settings(of, "DATABASE_POOL_CONNECTION_TIMEOUT", d.String()), Settings(of, "DATABASE_STATEMENT_TIMEOUT", d.String())...)
}

// Settings sets a key in services' sections.
func Settings(of []Service, key, value string) (vars []string) {
	for _, s := range of {
		vars = append(vars, "HOLDFAST_"+s.Section+"__"+key+"="+value)
	}
	return vars
}

// Clients returns a client per writer.
func Clients[W any](writers []W, run func(w W, choose *rand.Rand)) (all []Client) {
	for _, w := range writers {
		all = append(all, func(choose *rand.Rand) { run(w, choose) })
	}
	return all
}

// Unanswered lists writes with an unknown result; lost returns a writer's unanswered write, or nil.
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
