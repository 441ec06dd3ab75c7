// Package service is the interface between a Holdfast service and the server: a value of type Service.
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

// Service is a Holdfast service. Name, Config and Open are required. A Service may hold state after Open, so each
// server needs its own.
type Service struct {
	Name    string       // configuration section, label in logs and metrics, SQLite file name
	Doc     string       // section description, a single sentence
	Config  Config       // default settings, overwritten with the operator's
	Aliases []conf.Alias // environment variables of the replaced server
	Secrets []Secret     // own secrets, and MasterSecret if it signs clients' tokens

	Listeners func() []Listener

	// Reports problems beyond Config.Check, and may adjust settings to each other.
	Check func(Settings) conf.Problems

	// Rules returns the rules about the service's settings that concern several settings, also those of the server.
	Rules func(Settings) []conf.Rule

	// ProtocolPaths begin the paths of the service's protocol on the main listener, such as /1.5. server.public_url must
	// not contain them, because the server appends them.
	ProtocolPaths []string

	// The largest request's memory in bytes (web.ChargeMemory). The server does not start if server.request_memory is
	// lower.
	LargestRequest func() int64

	// Checks dependencies other than databases for `holdfast check`, without changes.
	Probe func(context.Context) []Finding

	// Open opens the service. SQLite databases are migrated afterwards; database servers may be unavailable.
	Open func(context.Context, *Deps) (*Opened, error)

	// For copies between engines and for read-only mode. Expendable tables, e.g. relay leases, are omitted.
	Tables []rows.Group

	Import *Import

	// Credentials lists what operators must check after a restore to an older state.
	Credentials []Credential

	// Each is a command, a console page or button, and an admin route.
	Operations []operate.Operation

	// Commands that are not operations. Equally named commands of several services are merged.
	Commands func(*Shell) []*cobra.Command
}

// CommandName is the service name in commands and admin paths, without "storage": "ext" for "extstorage".
func (s *Service) CommandName() string { return strings.TrimSuffix(s.Name, "storage") }

// CheckSettings runs all the service's checks and rules. in describes the rest of the configuration. Settings without
// effect and warnings go to the report.
func (s *Service) CheckSettings(report *conf.Report, in Settings) []conf.Problem {
	problems := s.Config.Check()
	in.Origin = func(key string) string { return report.Where(s.Name + "." + key) }
	in.Note = func(key, what string) {
		if where := in.Origin(key); where != "default" {
			report.Notes = append(report.Notes, conf.Problem{Where: where, Key: s.Name + "." + key, What: what})
		}
	}
	if s.Check != nil {
		problems = append(problems, s.Check(in)...)
	}
	all := problems.In(s.Name, *report)
	if s.Rules != nil && s.Config.IsEnabled() {
		all = append(all, conf.Apply(s.Rules(in), report)...)
	}
	return all
}

// Config is a pointer to a configuration section; see package conf. It may also be a FileKeeper and Explained.
type Config interface {
	IsEnabled() bool
	Check() conf.Problems
}

// FileKeeper is a Config whose service may store files in the data folder besides its database.
type FileKeeper interface{ KeepsFiles() bool }

// Explained is a Config of a default-on service that may turn itself off.
type Explained interface {
	// WhyOff returns the setting that turned the service off and the setting that decides; "" if the service is on, or off
	// by the operator. Clients see it, too.
	WhyOff() string
}

// Secret is a setting that the server generates and keeps in its secrets file unless the operator sets it.
type Secret struct {
	Name    string    // in the configuration section and the secrets file
	Setting *string   // in Config; nil: the server's MasterSecret
	Old     *[]string // in Config: setting old_NAMEs with former, still accepted secrets; nil: unsupported

	// The data is useless without this secret. The database keeps its hash, and the server does not start with another
	// secret.
	Bound bool
}

var MasterSecret = Secret{Name: "master_secret", Bound: true}

// Settings is the other input of Service.Check and Service.Rules.
type Settings struct {
	PublicURL       string                 // server.public_url
	HasService      func(name string) bool // the service of this name is enabled
	HasMasterSecret bool                   // server.master_secret is set
	IsProxied       bool                   // clients come through a proxy that is not in server.trusted_proxies

	LogLevel string
	Public   string                  // why clients on other machines may reach the server, e.g. "server.public_url is set"; "": they cannot
	Origin   func(key string) string // where key was set, or "default"
	Note     func(key, what string)  // notes a setting without effect
}

// Deps are the server's parts that Service.Open gets.
type Deps struct {
	Server  Server          // addresses and secrets
	Engines *engine.Opener  // opens databases
	Log     *slog.Logger    // the server's log
	Metrics *obs.Metrics    // the server's, to register the service's
	Clock   clock.Clock     // use it instead of time.Now
	Data    string          // data folder
	Create  bool            // missing files and folders may be created
	Unsaved map[string]bool // generated for this process only, e.g. "extstorage.token_secret"

	// Backups and the replica that contain any of these services' databases; see Deleted. nil: none known.
	Retained func(services ...string) (Copies, error)

	// An error if the service's database is a partial copy.
	Whole func(ctx context.Context) error
}

// Backup is a known backup.
type Backup struct {
	Path string // a folder, or a URL without parameters
	At   time.Time
	Has  []string // databases and other files, e.g. buckets.db; nil: not recorded
}

// Server describes the server to its services.
type Server struct {
	PublicURL      string               // without a trailing slash; "" if unset
	Listen         string               // host:port of the main listener
	InternalListen string               // "" if unset
	Scheme         string               // main and internal listener
	MasterSecrets  []string             // the current one first, then former ones that still verify
	QueueWait      time.Duration        // maximum queue time of a request
	Backoff        func() time.Duration // client backoff before the next request; 0 without load

	// Address returns the URL for a listen address.
	Address func(listen string) string

	// Address of an open listener, for hints and clients, with the actual port instead of 0. "" if not serving.
	OpenAddress func(listener string) string
}

const (
	Main     = "main"     // for clients
	Internal = "internal" // for the operator's services
	Admin    = "admin"    // for the operator; requires the admin token
	Redirect = "redirect" // HTTP listener beside a main listener with ACME; services cannot mount on it
)

// Mount is a handler for its paths on a listener.
type Mount struct {
	Listener string   // Main, Internal, Admin, or one of Service.Listeners
	Paths    []string // for the error for unknown paths
	web.Mount
}

// Listener is a service's own listener.
type Listener struct {
	Name    string // unique in the server, e.g. "s3"
	Setting string // holds the address, e.g. "buckets.listen"
	Address string // host:port; "" if disabled
}

// Opened is an open service. Every field is optional.
type Opened struct {
	Mounts    []Mount            // handlers with their paths and listeners
	Databases []*engine.Database // migrated by the server, and closed by it last
	Jobs      []sweep.Job        // deletions of expired data

	// Ready returns an error that names the unusable dependency, e.g. Database.Ready.
	Ready func(context.Context) error

	// Inspect checks the tables of a reachable and migrated database for `holdfast check`.
	Inspect func(context.Context) ([]Finding, error)

	// Settle initializes a new database after its migrations. It must be idempotent, and is retried until it
	// succeeds.
	Settle func(context.Context) error

	// Start starts background work. stop ends it and closes everything except the databases and Redis, after the last
	// request and sweep.
	Start func(context.Context) (stop func() error, err error)

	// Reload applies settings tagged reload to the running service. next is a valid section with no other changes;
	// queueWait is Server.QueueWait.
	Reload func(next Config, queueWait time.Duration)

	// Caches returns how many bytes caches use, and at most.
	Caches func() (bytes, maxBytes int64)

	Files *Files // nil: everything is in the databases

	// AfterRestore prepares restored data for clients that know more than it. holdfast restore runs these steps.
	AfterRestore []RestoreStep

	Refusals Refusals // reasons for operators

	// Quota is reported by /__heartbeat__. /__lbheartbeat__ reports the same service's database connections.
	Quota func() dockerflow.Quota

	Hint   func(base string) Hint   // printed at the start for new users
	Client func(base string) Client // on the status page

	Console *Console // nil: only the pages for operations
}

// Running is an opened service with the parts of its Service that others need.
type Running struct {
	*Opened

	Name        string
	Tables      []rows.Group
	Command     string // Service.CommandName
	Credentials []Credential
}

// Rows returns the database for copies and read-only mode; nil if unsupported.
func (r *Running) Rows() rows.Database {
	if len(r.Tables) == 0 || len(r.Databases) != 1 {
		return nil
	}
	return r.Databases[0].Rows(nil)
}

// Table returns the service's table with this name, or nil.
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

// Embedded reports whether all databases are SQLite files.
func (r *Running) Embedded() bool {
	return !slices.ContainsFunc(r.Databases, func(d *engine.Database) bool { return !d.Embedded() })
}

// Files backs up non-database data.
type Files struct {
	// Hold is called before the databases are copied. Until release, the service removes nothing that the copies
	// reference. held ends if the service can no longer guarantee that.
	Hold func(ctx context.Context) (held context.Context, release func(), err error)

	// Copy writes the files below the folder dir, while held.
	Copy func(ctx context.Context, dir string, progress func(done, total int64)) (Copied, error)

	// Omitted describes everything that a backup without Copy lacks, a line each.
	Omitted func(ctx context.Context) ([]string, error)

	// For a replica, which copies files individually.
	Bodies *replica.Bodies

	// Restore writes the files that the restored database references into the data folder dir.
	Restore func(ctx context.Context, dir string, open FileSource, progress func(done, total int64)) (Copied, error)
}

// FileSource opens a file by its name and size in Files.Bodies, from a replica or a folder that Copy wrote. Errors:
// errcode.NotFound if missing, errcode.Internal if damaged, errcode.Unavailable if readable later.
type FileSource func(ctx context.Context, name string, size int64) (io.ReadCloser, error)

// Copied is the result of Files.Copy and Files.Restore.
type Copied struct {
	Names   []string // files
	Missing []string // not copied, a line each
	Lost    []string // unreadable, a line each
}

// Hint tells new users how to continue. Its addresses begin with the main listener's URL.
type Hint struct {
	Text  string   // a sentence up to its colon
	Lines []string // e.g. commands to type

	// Private replaces Text and Lines on a terminal, whose output is not stored. It may contain secrets.
	Private *Hint
}

// Client describes client configuration. It is public.
type Client struct {
	Title   string
	Text    string // how to use the setting or address; without an address, the service's purpose
	Setting string // client's setting name, or ""
	Address string
	Guide   string // file name, shipped with the server

	Misled string // for a browser that looks here for a sign-in page, which the server lacks; "": none does
}

// State says how good a Finding is.
type State string

const (
	OK      State = "ok"
	Warning State = "warn"
	Wrong   State = "WRONG"
)

// Finding is a line of `holdfast check` output.
type Finding struct {
	State State
	What  string // the checked thing, e.g. "database"
	Says  string // result, without a full stop
	Fix   string // remedy, or ""

	Service string // "": the server
}
