package fault

import (
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"holdfast/test/binary"
)

// service is what a service provides so that every fault runs against it.
type service struct {
	name    string   // as in FAULT_SERVICE
	section string   // of its settings, as in variables of the environment
	vars    []string // settings that its workload needs
	spanner bool     // has a backend for Spanner

	// Settings of one test, whose processes may share a PostgreSQL database; may be nil.
	own func(t *testing.T, postgres bool) []string

	// The clients: some, or few for an emulator.
	workload func(t *testing.T, few bool) workload

	// What the guide says to do with a PostgreSQL database after a restore; may be nil.
	afterRestore func(t *testing.T, url string)

	// An owner outside of the workload; nil if no request takes long.
	largeOwner func(t *testing.T) largeOwner

	// Statements that lock, in PostgreSQL, the rows of some clients, or rows and tables that
	// requests of all clients need.
	someRows string
	locks    []string

	next nextRelease
}

// nextRelease is how a service differs in the next release.
type nextRelease struct {
	migrations map[string]string    // what they add, by the folder of the backend
	code       map[string][2]string // text of a file and its replacement
	written    string               // counts, in PostgreSQL, the records that this code has written
}

// all returns the services that have a workload.
func all() []service {
	some := []service{syncService(), accountsService(), extService(), bucketsService()}
	if haveRedis() {
		some = append(some, guestService())
	}
	return some
}

// services returns all services, or the one in FAULT_SERVICE. One server runs them all, so that a
// fault affects requests of every service at once. Guests, which need a Redis for each test on
// PostgreSQL, join by default only where a test asks for withGuests.
func services() []service {
	guests := os.Getenv("FAULT_SERVICE") == "guest" || os.Getenv("FAULT_ROUNDS") != ""
	return slices.DeleteFunc(withGuests(), func(s service) bool { return s.name == "guest" && !guests })
}

// withGuests is services with guests.
func withGuests() []service {
	only := os.Getenv("FAULT_SERVICE")
	return slices.DeleteFunc(all(), func(s service) bool { return only != "" && only != s.name })
}

// workload is the clients of a service and what they know from their answers. Only the functions
// that clients returns run concurrently.
type workload interface {
	// clients returns the clients of a round. Each writes or reads until the fault is over, and
	// its choices follow from its own random source. It sends requests with judge, counts
	// acknowledgements with acknowledge, and reports any answer that the protocol does not allow.
	clients(h *harness, l *load) []client

	// grow adds clients, so that there are n in a round.
	grow(t *testing.T, n int)

	// unanswered lists the writes whose result is unknown.
	unanswered() []string

	// check compares the data with the acknowledgements: all acknowledged writes are there, and an
	// unanswered write is there as a whole or not at all. It tells the clients what is there.
	check(h *harness)

	// checkCopy compares a copy, which h.server serves, with the data at one moment between two
	// readings of h.clock. It also writes to the copy. After a restore it skips numbers that the
	// original may have assigned since.
	checkCopy(h *harness, begun, ended int64, restored bool)

	// finish checks, after the last round, what follows an acknowledgement later.
	finish(h *harness)

	// probe writes as an owner outside of the workload.
	probe(h *harness, s *binary.Server) (binary.Answer, error)

	// reads returns requests that need a connection to the database, enough to use all connections
	// at once.
	reads(h *harness) []func() (binary.Answer, error)
}

// largeOwner has much data in a service, for requests that take long.
type largeOwner interface {
	fill(h *instance, bytes int)
	download(h *instance) *http.Request            // of at least as many bytes
	upload(h *instance, id string) *http.Request   // of some ten thousand bytes
	uploaded(h *instance, id string) *http.Request // has status 200 if the upload was done
}

// client writes or reads in a round.
type client func(choose *rand.Rand)

// servicesOn returns the settings of a server whose services all use a database.
func servicesOn(url string) []string { return settings(services(), "DATABASE_URL", url) }

// timeouts sets the timeouts for a connection and for a statement.
func timeouts(of []service, d time.Duration) []string {
	return append(settings(of, "DATABASE_POOL_CONNECTION_TIMEOUT", d.String()), settings(of, "DATABASE_STATEMENT_TIMEOUT", d.String())...)
}

// settings sets one key in the sections of some services.
func settings(of []service, key, value string) (vars []string) {
	for _, s := range of {
		vars = append(vars, "HOLDFAST_"+s.section+"__"+key+"="+value)
	}
	return vars
}
