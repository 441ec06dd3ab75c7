// Package service is the interface between a service of Holdfast and the server that
// composes it: a value of type Service. The server reads its configuration, opens it,
// serves its handlers, migrates, checks, sweeps and backs up its databases, exports its
// metrics, adds its commands and shuts it down.
package service

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
	"holdfast/internal/obs"
	"holdfast/internal/operate"
	"holdfast/internal/replica"
	"holdfast/internal/sweep"
	"holdfast/internal/web"
	"holdfast/internal/web/dockerflow"
)

// Service is one service of Holdfast. Name, Config and Open are required. Use a value
// for one server only, because it may hold state after Open.
type Service struct {
	Name    string       // its section of the configuration and its label in logs and metrics; names its SQLite file
	Doc     string       // of the section, one sentence
	Config  Config       // the section with its defaults, which the server overwrites with the operator's settings
	Aliases []conf.Alias // variables of the server that it replaces
	Secrets []Secret     // its own, and MasterSecret if clients hold tokens that are signed with it

	// Listeners, if set, returns the additional listeners of the service.
	Listeners func() []Listener

	// Check, if set, returns the problems of the settings that Config.Check does not
	// find. It may adjust settings to each other.
	Check func(Settings) conf.Problems

	// LargestRequest, if set, returns how many bytes the largest request needs at once
	// (web.ChargeMemory). A server with less server.request_memory does not start.
	LargestRequest func() int64

	// Probe, if set, checks for `holdfast check` what the service needs besides its
	// databases. It changes nothing.
	Probe func(context.Context) []Finding

	// Open opens the service. SQLite databases are migrated after it; database servers
	// may be unavailable.
	Open func(context.Context, *Deps) (*Opened, error)

	// Tables are the tables of the service, for copies between engines and for read-only;
	// nil if there are none. What may be lost, such as leases, is not among them.
	Tables []rows.Group

	// Import, if set, reads the database of another server.
	Import *Import

	// Operations are what an operator can do with the service: each is a command, a page or a button of the
	// console, and a route of the admin listener.
	Operations []operate.Operation

	// Commands, if set, returns the commands of the service that are no operations. Commands of several services
	// with the same name are merged.
	Commands func(*Shell) []*cobra.Command
}

// CommandName returns the name of the service in commands and in paths of the admin listener: without "storage", so
// "ext" for "extstorage".
func (s *Service) CommandName() string { return strings.TrimSuffix(s.Name, "storage") }

// CheckSettings runs all checks of the service on its section. Settings without effect
// are added to the notes of the report.
func (s *Service) CheckSettings(report *conf.Report, logLevel string, local bool) []conf.Problem {
	problems := s.Config.Check()
	if s.Check != nil {
		origin := func(key string) string { return report.Where(s.Name + "." + key) }
		problems = append(problems, s.Check(Settings{
			LogLevel: logLevel,
			Local:    local,
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

// Config is a pointer to a section of the configuration; see package conf. It may also be a FileKeeper and Explained.
type Config interface {
	IsEnabled() bool
	Check() conf.Problems
}

// FileKeeper is a Config with which the service may store files other than its database in the data folder.
type FileKeeper interface{ KeepsFiles() bool }

// Explained is a Config of a service that is on by default, and may turn itself off.
type Explained interface {
	// WhyOff says why the service has turned itself off; "" if it is on, or the operator has turned it off.
	WhyOff() string
}

// Secret is a setting that the server generates and keeps in its secrets file if the
// operator has not set it.
type Secret struct {
	Name    string    // key of the setting in the service's section of the configuration and the secrets file
	Setting *string   // in Config; nil: MasterSecret, which the server has
	Old     *[]string // in Config: the setting old_NAMEs with former secrets that are still accepted; nil if there is none

	// Bound says that the data is of use only with this secret. The database keeps its
	// hash, and the server does not start with another secret.
	Bound bool
}

// MasterSecret is server.master_secret.
var MasterSecret = Secret{Name: "master_secret", Bound: true}

// Settings is what Service.Check gets besides the section of the service.
type Settings struct {
	LogLevel string
	Local    bool                    // clients on other machines cannot reach the server
	Origin   func(key string) string // returns where a setting of the section was set, or "default"
	Note     func(key, what string)  // notes that a setting of the operator has no effect
}

// Deps is what a service gets from the server.
type Deps struct {
	Server  Server
	Engines *engine.Opener
	Log     *slog.Logger
	Metrics *obs.Metrics
	Clock   clock.Clock
	Data    string          // the data folder
	Create  bool            // create the data folder and files in it if they are missing
	Unsaved map[string]bool // settings of secrets that were generated for this process only, such as "extstorage.token_secret"

	// Retained returns the backups and the replica that have the databases of any of these services; see Deleted. nil: none is known.
	Retained func(services ...string) (Copies, error)

	// Whole returns an error if the database of the service has only a part of a copy.
	Whole func(ctx context.Context) error
}

// Backup is a backup that was made of the data folder.
type Backup struct {
	Path string
	At   time.Time
}

// Server is what a service knows about the server.
type Server struct {
	PublicURL      string // "" if unset; without a slash at the end
	Listen         string // address of the main listener
	InternalListen string // "" if unset
	Scheme         string // of the main and the internal listener
	MasterSecrets  []string
	QueueWait      time.Duration        // maximum time of a request in a queue
	Backoff        func() time.Duration // how long clients should wait before their next request; 0 without load

	// Address returns the URL at which clients reach a listener.
	Address func(listen string) string

	// OpenAddress returns the address that an open listener has, for hints and clients: the system chooses
	// the port if it is 0. In a process that does not serve it returns "".
	OpenAddress func(listener string) string
}

// Names of the listeners of the server.
const (
	Main     = "main"     // for clients
	Internal = "internal" // for services of the operator
	Admin    = "admin"    // for the operator; the server verifies the admin token
	Redirect = "redirect" // without TLS, beside a main listener with a certificate by ACME; services have no paths on it
)

// Mount is a handler for the paths that it owns on a listener.
type Mount struct {
	Listener string   // Main, Internal, Admin, or one of Service.Listeners
	Paths    []string // its paths, for the error that an unknown path of the listener gets
	web.Mount
}

// Listener is an additional listener of a service.
type Listener struct {
	Name    string // for Mount, logs and the start message
	Setting string // the setting with the address, such as "buckets.listen"
	Address string // host:port; "" if disabled
}

// Opened is an open service. Every field is optional.
type Opened struct {
	Mounts    []Mount
	Databases []*engine.Database
	Jobs      []sweep.Job

	// Ready returns an error if the service cannot serve requests, which names what it cannot use. For a database it is
	// Database.Ready.
	Ready func(context.Context) error

	// Inspect checks the tables of a database that is reachable and migrated, for
	// `holdfast check`.
	Inspect func(context.Context) ([]Finding, error)

	// Settle initializes a new database after its migrations. It is idempotent and
	// called until it succeeds.
	Settle func(context.Context) error

	// Start starts background work. stop ends it and closes everything except the databases and Redis. It is called after
	// the last request and the last sweep have ended.
	Start func(context.Context) (stop func() error, err error)

	// Reload, if set, applies the settings with the tag reload, while the service serves. next is a valid section, in which nothing
	// else has changed, and queueWait is Server.QueueWait.
	Reload func(next Config, queueWait time.Duration)

	// Caches returns the current and the maximum memory of the service's caches.
	Caches func() (bytes, most int64)

	// Files, if set, is what the service stores outside of its databases.
	Files *Files

	Refusals Refusals // of requests, which the server counts

	// Quota, if set, returns what /__heartbeat__ reports. /__lbheartbeat__ reports the connections to the database of the
	// same service.
	Quota func() dockerflow.Quota

	Hint   func(base string) Hint   // printed at the start for new users
	Client func(base string) Client // shown on the status page

	Console *Console // pages in the console; nil: none
}

// Running is a service that a process has opened, with what others need of its Service.
type Running struct {
	*Opened

	Name   string
	Tables []rows.Group
}

// Rows returns the database of a service that can be read-only and copied; nil if it cannot.
func (r *Running) Rows() rows.Database {
	if len(r.Tables) == 0 || len(r.Databases) != 1 {
		return nil
	}
	return r.Databases[0].Rows(nil)
}

// Table returns a table of the service by its name, or nil.
func (r *Running) Table(name string) *rows.Table {
	for _, g := range r.Tables {
		for _, t := range g.Tables {
			if t.Name == name {
				return t
			}
		}
	}
	return nil
}

// Embedded reports whether all databases of the service are SQLite files.
func (r *Running) Embedded() bool {
	return !slices.ContainsFunc(r.Databases, func(d *engine.Database) bool { return !d.Embedded() })
}

// Files is the backup of what a service stores outside of its databases.
type Files struct {
	// Hold is called before the databases are copied. Until release, the service removes
	// nothing that the copies refer to. held ends if that cannot be guaranteed any longer.
	Hold func(ctx context.Context) (held context.Context, release func(), err error)

	// Copy copies the files into dir, the folder of the backup, and reports how many of
	// them are done. An error means that the backup cannot be made.
	Copy func(ctx context.Context, dir string, progress func(done, total int64)) (Copied, error)

	// Omitted says what a backup without Copy lacks, a line each.
	Omitted func(ctx context.Context) ([]string, error)

	// Bodies are the files one by one, for a replica.
	Bodies *replica.Bodies

	// Restore writes the files that the restored database refers to into dir, the data folder, and reports how many of them are done.
	Restore func(ctx context.Context, dir string, open FileSource, progress func(done, total int64)) (Copied, error)
}

// FileSource opens a file by its name in Files.Bodies: the content that Bodies has, or a file that Copy has written. The error
// errcode.NotFound means that the source lacks the file, errcode.Internal that it is damaged, and errcode.Unavailable that it may be read later.
type FileSource func(ctx context.Context, name string) (io.ReadCloser, error)

// Copied is the result of Files.Copy and Files.Restore.
type Copied struct {
	Names   []string // of new files and folders in the folder
	Missing []string // files that are not copied, a line each
	Lost    []string // files that could not be read, a line each
}

// Hint tells a new user what to do next. Its addresses begin with the URL of the main
// listener.
type Hint struct {
	Text  string   // a sentence that ends before its colon
	Lines []string // for the user to type or copy

	// Private, if set, replaces Text and Lines on a terminal, whose output is not stored. It
	// may have secrets.
	Private *Hint
}

// Client describes how to configure clients of a service. It is public.
type Client struct {
	Title   string // name of the service for its users
	Text    string // what to do with the setting or the address; without an address, what the service does
	Setting string // name of the client's setting, or ""
	Address string
	Guide   string // file of the guide, which is shipped with the server
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
	Fix   string // what to do about it, or ""

	Service string // the service that it concerns; "": the server
}
