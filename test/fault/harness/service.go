package harness

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/test/binary"
)

// Service describes a service, so that every fault test can include it.
type Service struct {
	Name    string // as in FAULT_SERVICE
	Section string // settings section, as spelled in environment variables
	Vars    []string
	Spanner bool

	// Own returns the settings for a test, whose processes may share a PostgreSQL database; may be nil.
	Own func(t *testing.T, postgres bool) []string

	// Workload returns the clients; few for an emulator.
	Workload func(t *testing.T, few bool) Workload

	// LargeOwner returns an owner outside the workload. It is nil if no request takes long.
	LargeOwner func(t *testing.T) LargeOwner

	// Neighbours are users on any Citus node. It is zero if the tables are not distributed.
	Neighbours Neighbours

	// SomeRows and Locks are PostgreSQL statements: SomeRows locks some clients' rows, and Locks lock rows and tables that
	// all clients need.
	SomeRows string
	Locks    []string

	Next NextRelease
}

// Neighbours are numbered users outside the workload. A workload with a single user is an exception: it contains that
// user.
type Neighbours struct {
	Table string             // table distributed by Citus
	Key   func(n int) string // SQL for the n-th user's distribution column, as text
	Send  func(h *Harness, w Workload, n int) (binary.Answer, error)
}

// NextRelease describes a service's changes in the next release.
type NextRelease struct {
	Migrations map[string]string    // migration SQL by backend folder
	Code       map[string][2]string // text and its replacement, by file
	Written    string               // PostgreSQL query that counts the records written by the new code
}

// Workload is a service's clients and their model. Only Client functions run concurrently.
type Workload interface {
	// Clients returns a round's clients. Each writes or reads until the fault ends, and uses its own random source. It
	// sends requests with Judge, counts acknowledged writes with Acknowledge, and reports responses that the protocol does
	// not allow.
	Clients(h *Harness, l *Load) []Client

	// Grow adds clients until there are n per round.
	Grow(t *testing.T, n int)

	// Unanswered lists the writes with an unknown result.
	Unanswered() []string

	// Check compares the data with the acknowledgements and updates the model: acknowledged writes must exist, and
	// writes without a response must exist completely or not at all.
	Check(h *Harness)

	// CheckCopy compares a copy, served by h.Server, with the data at some moment between two readings of h.Clock. It
	// also writes to the copy. After a restore, the copy must skip numbers that the original may have assigned.
	CheckCopy(h *Harness, begun, ended int64, restored bool)

	// Finish checks effects that occur after the last round.
	Finish(h *Harness)

	// Probe sends a write for an owner outside the workload.
	Probe(h *Harness, s *binary.Server) (binary.Answer, error)

	// Reads returns requests that need a database connection, enough to use all connections at once.
	Reads(h *Harness) []func() (binary.Answer, error)
}

// LargeOwner is an owner with enough data for long requests.
type LargeOwner interface {
	Fill(h *Instance, bytes int)
	Download(h *Instance) *http.Request            // downloads at least this number of bytes
	Upload(h *Instance, id string) *http.Request   // uploads tens of kilobytes
	Uploaded(h *Instance, id string) *http.Request // returns status 200 if the upload succeeded
}

type Client func(choose *rand.Rand)

// Timeouts returns settings for connection and statement timeouts.
func Timeouts(of []Service, d time.Duration) []string {
	return append(Settings(of, "DATABASE_POOL_CONNECTION_TIMEOUT", d.String()), Settings(of, "DATABASE_STATEMENT_TIMEOUT", d.String())...)
}

// Settings returns settings that set a key in each service's section.
func Settings(of []Service, key, value string) (vars []string) {
	for _, s := range of {
		vars = append(vars, "HOLDFAST_"+s.Section+"__"+key+"="+value)
	}
	return vars
}

func Clients[W any](writers []W, run func(w W, choose *rand.Rand)) (all []Client) {
	for _, w := range writers {
		all = append(all, func(choose *rand.Rand) { run(w, choose) })
	}
	return all
}

// Unanswered lists writes with an unknown result. lost returns a writer's unanswered write, or nil.
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
