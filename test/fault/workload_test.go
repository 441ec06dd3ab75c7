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

// service is what a service brings so that every fault runs against it.
type service struct {
	name    string   // as FAULT_SERVICE has it
	section string   // of its settings, as variables of the environment name it
	vars    []string // settings that its workload needs
	spanner bool     // has a backend for Spanner

	// The clients: some, or the few that an emulator can serve.
	workload func(t *testing.T, few bool) workload

	// What the guide says to do with a database of PostgreSQL after a restore; may
	// be nil.
	afterRestore func(t *testing.T, url string)

	// Somebody who is none of the clients; nil where no request takes its time.
	guest func(t *testing.T) guest

	// What others hold, in statements for PostgreSQL: the rows of some clients,
	// and rows and tables that requests of all clients need.
	someRows string
	locks    []string

	next nextRelease
}

// nextRelease is how a service differs in the release after this one.
type nextRelease struct {
	migrations map[string]string    // what they add, by the folder of the backend
	code       map[string][2]string // text of a file, and what stands there instead
	written    string               // counts, in PostgreSQL, the records that this code has written
}

// all are the services that have a workload.
func all() []service { return []service{syncService(), accountsService(), extService()} }

// services are all, or the one that FAULT_SERVICE names. One server runs them
// all, so that a fault meets the requests of every service at once.
func services() []service {
	only := os.Getenv("FAULT_SERVICE")
	return slices.DeleteFunc(all(), func(s service) bool { return only != "" && only != s.name })
}

// workload is the clients of a service, and what they know from the answers that
// they got. Only what clients returns runs while others do.
type workload interface {
	// clients returns those of a round. Each writes or reads until the fault is
	// over, and its choices follow from a source of its own. It sends requests by
	// judge, counts acknowledgements by acknowledge, and reports any answer that
	// the protocol does not have there.
	clients(h *harness, l *load) []client

	// grow adds clients, so that there are n in a round.
	grow(t *testing.T, n int)

	// unanswered lists the writes of which nobody knows whether they were done.
	unanswered() []string

	// check compares what is there with what was acknowledged: all of it is
	// there, and an unanswered write is there as a whole or not at all. From then
	// on the clients know what is there.
	check(h *harness)

	// checkCopy compares what a copy has, which h.server serves, with what was
	// there at one moment between two readings of h.clock. It also writes to the
	// copy. After a restore numbers that the original may have given out since
	// are left out.
	checkCopy(h *harness, begun, ended int64, restored bool)

	// finish checks, after the last round, what follows an acknowledgement later.
	finish(h *harness)

	// probe writes as somebody who is none of the clients.
	probe(h *harness, s *binary.Server) (binary.Answer, error)

	// reads are requests that need a connection to the database, enough of them
	// at once to use all that there are.
	reads(h *harness) []func() (binary.Answer, error)
}

// guest has much data in a service, for requests that take their time.
type guest interface {
	fill(h *house, bytes int)
	download(h *house) *http.Request            // of at least as many bytes
	upload(h *house, id string) *http.Request   // of some ten thousand bytes
	uploaded(h *house, id string) *http.Request // is answered with 200 when that was done
}

// client is who writes or reads in a round.
type client func(choose *rand.Rand)

// servicesOn are the settings of a server whose services all use a database.
func servicesOn(url string) []string { return settings(services(), "DATABASE_URL", url) }

// timeouts set how long a server waits for a connection, and how long for a
// statement.
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
