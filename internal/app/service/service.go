// Package service says what a service of Holdfast hands over to the server that
// composes it: one value of type Service. The server reads its configuration,
// opens it, serves its handlers, migrates, checks, sweeps and backs up its
// databases, measures it, adds its commands and shuts it down.
package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/obs"
	"holdfast/internal/sweep"
	"holdfast/internal/web"
	"holdfast/internal/web/dockerflow"
)

// Service is one part of Holdfast. Name, Config and Open are required. A value
// is good for one server: it may hold what Open has opened.
type Service struct {
	Name    string       // its section of the configuration and its label in logs and metrics; names its SQLite file
	Doc     string       // of the section, one sentence
	Config  Config       // the section with its defaults, which the server overwrites with the operator's settings
	Aliases []conf.Alias // variables of the server that it replaces
	Secrets []Secret

	// BoundToMaster says that clients hold what server.master_secret has signed, so the
	// data is of use only with the same one; see Secret.Bound.
	BoundToMaster bool

	// KeepsFiles, when set, reports whether the service needs the data folder for other
	// files than its database.
	KeepsFiles func() bool

	// Added says that a later release than the first has added the service, so
	// there is data without it: commands pass over it while its SQLite file does
	// not exist.
	Added bool

	// Listeners, when set, are those of the service's own, as the section says.
	Listeners func() []Listener

	// Check, when set, reports what is wrong with the settings besides what
	// Config.Check finds, and may fit settings to each other.
	Check func(Settings) conf.Problems

	// LargestRequest, when set, returns how many bytes the request that needs the most
	// memory needs at once (web.ChargeMemory). A server with less is not started.
	LargestRequest func() int64

	// Probe, when set, reaches for `holdfast check` what the service needs besides
	// its databases. It changes nothing.
	Probe func(context.Context) []Finding

	// DatabaseFix, when set, says how to fix a database that cannot be used.
	DatabaseFix func() string

	// Open opens the service. Embedded databases are migrated after it; database
	// servers may be away.
	Open func(context.Context, *Deps) (*Opened, error)

	// Commands, when set, returns the service's commands. Commands of several
	// services that have the same name become one.
	Commands func(*Shell) []*cobra.Command
}

// CheckSettings applies all rules of the service to its section. What the operator
// set without effect is noted in the report.
func (s *Service) CheckSettings(report *conf.Report, logLevel string) []conf.Problem {
	problems := s.Config.Check()
	if s.Check != nil {
		origin := func(key string) string { return report.Where(s.Name + "." + key) }
		problems = append(problems, s.Check(Settings{
			LogLevel: logLevel,
			Origin:   origin,
			Note: func(key, what string) {
				if where := origin(key); where != "default" {
					report.Notes = append(report.Notes, conf.Problem{Where: where, Key: s.Name + "." + key, What: what})
				}
			},
		})...)
	}
	return problems.In(s.Name, *report)
}

// Config is a pointer to a section of the configuration; see package conf.
type Config interface {
	IsEnabled() bool
	Check() conf.Problems
}

// Secret is a setting that the server generates when the operator has not set
// it, and keeps in its secrets file.
type Secret struct {
	Name    string    // of the setting, in the section of the service, there and in the secrets file
	Setting *string   // in Config
	Old     *[]string // in Config: the setting old_NAMEs, which are accepted too; nil: there is none

	// Bound says that the data is of use only with the secret. Its hash is kept in the
	// database, and the server does not start with another one.
	Bound bool
}

// Settings is what a check knows besides the section of its service.
type Settings struct {
	LogLevel string
	Origin   func(key string) string // names where a setting of the section comes from; "default" when nobody set it
	Note     func(key, what string)  // tells the operator that a setting which somebody set has no effect
}

// Deps is what the server gives to a service.
type Deps struct {
	Server  Server
	Engines *engine.Opener
	Log     *slog.Logger
	Metrics *obs.Metrics
	Clock   clock.Clock
	Data    string          // the data folder
	Create  bool            // the data folder and files in it are created when missing
	Unsaved map[string]bool // secrets by setting, such as "extstorage.token_secret", that were generated for this process only
}

// Server is what a service knows of the server that it is part of.
type Server struct {
	PublicURL      string // "" when unset; without a slash at its end
	Listen         string // address of the main listener
	InternalListen string // "" if unset
	Scheme         string // of the main and the internal listener
	MasterSecrets  []string
	QueueWait      time.Duration        // how long a request may wait for its turn
	Backoff        func() time.Duration // how long clients that need not come back soon should stay away

	// Address is where clients reach a listener that listens on an address.
	Address func(listen string) string
}

// Names of the listeners that the server has itself.
const (
	Main     = "main"     // for clients
	Internal = "internal" // for services of the operator
	Admin    = "admin"    // for the operator; the admin token is verified before
)

// Mount is a handler on a listener, for the paths that it owns there.
type Mount struct {
	Listener string // Main, Internal, Admin, or one of Service.Listeners
	web.Mount
}

// Listener is a listener of a service's own.
type Listener struct {
	Name    string // for Mount, logs and the start message
	Setting string // that holds the address, such as "buckets.listen"
	Address string // host:port; "" for none
}

// Opened is an open service. Every field may be left out.
type Opened struct {
	Mounts    []Mount
	Databases []*engine.Database
	Jobs      []sweep.Job
	SweepNote string // what `holdfast sweep` prints of a service that needs no sweep

	// Ready returns why the service cannot serve.
	Ready func(context.Context) error

	// Inspect reports on the tables of a database that is reachable and up to
	// date, for `holdfast check`.
	Inspect func(context.Context) ([]Finding, error)

	// Settle does what a new database needs after its migrations. It is
	// idempotent and called again until it succeeds.
	Settle func(context.Context) error

	// Start starts what runs in the background. stop is called after the last
	// request and the last sweep have ended.
	Start func(context.Context) (stop func() error, err error)

	// Caches, when set, returns how much memory the caches of the service take now, and
	// at most.
	Caches func() (bytes, most int64)

	// Reasons are those that Refusal may return: why a request was not let in,
	// which the server counts. Refusal returns "" for other errors.
	Reasons []string
	Refusal func(error) string

	Quota  *dockerflow.Quota        // for /__heartbeat__
	Pool   func() dockerflow.Pool   // for /__lbheartbeat__
	Hint   func(base string) Hint   // printed at the start: what a new user does next
	Client func(base string) Client // shown on the status page

	Close func() // what is open besides the databases
}

// Hint says what a new user does next, with the addresses below the base of the main
// listener.
type Hint struct {
	Text  string   // a sentence without its end
	Lines []string // that the user types or copies
}

// Client says what clients of a service are configured with. Everybody can read it.
type Client struct {
	Title   string // the service as its users call it
	Text    string // what to do with the setting or the address; without an address, what the service does
	Setting string // name of the client's setting; "" when it has none
	Address string
	Guide   string // file of the guide, which comes with the server
}

// State is the result of a check.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warn"
	Wrong   State = "WRONG"
)

// Finding is a line of the table that `holdfast check` prints.
type Finding struct {
	State State
	What  string // what was checked
	Says  string // what was found
	Fix   string // what to do about it; "" when nothing is to be done
}
