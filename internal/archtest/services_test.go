package archtest

import (
	"path"
	"slices"
)

// service is one service of the house.
type service struct {
	name     string
	wiring   string // its folder in internal/app
	backends []string
	helpers  []helper
	libs     []string // of its root
	below    []string // packages of the ground floor that its domain is made of
	wire     []string // libraries that its httpapi encodes and decodes with
}

// helper is a folder of a service that holds or wraps one thing and that the root
// sees at most as an interface.
type helper struct {
	name string
	ours []string // what it wraps of the ground floor
	libs []string // or of others
}

var services = []service{
	{
		name: "syncstorage", wiring: "sync", backends: []string{"sqlite", "postgres", "spanner"},
		helpers: []helper{{name: "budget"}},
		wire:    []string{"github.com/go-faster/jx"},
	},
	{
		name: "tokenserver", wiring: "accounts", backends: []string{"sqlite", "postgres"},
		helpers: []helper{
			{name: "fxa", libs: []string{"github.com/go-jose/go-jose/v4", "golang.org/x/sync/singleflight"}},
			{name: "nodeclient", ours: []string{"internal/auth/hawk"}},
		},
	},
	{
		name: "extstorage", wiring: "ext", backends: []string{"sqlite", "postgres"},
		helpers: []helper{{
			name: "jsonschema", ours: []string{"internal/fair"},
			libs: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		}},
		libs:  []string{"github.com/hashicorp/golang-lru/v2"},
		below: []string{"internal/canonjson"},
	},
}

// engines are what a backend of a name is made of.
var engines = map[string]helper{
	"sqlite":   {ours: []string{"internal/db/sqlitedb", "internal/outbox", "internal/outbox/sqlite"}, libs: []string{"zombiezen.com/go/sqlite"}},
	"postgres": {ours: []string{"internal/db/pgdb", "internal/outbox", "internal/outbox/postgres"}, libs: []string{"github.com/jackc/pgx/v5"}},
	"spanner":  {ours: []string{"internal/db/spannerdb", "internal/syncstorage/budget"}, libs: []string{"cloud.google.com/go/spanner"}},
}

// leaves may be imported by everybody.
var leaves = []string{"internal/fault", "internal/ident", "internal/clock", "internal/optional"}

// ground is the ground floor in its order, with the libraries that each package
// is there to wrap.
var ground = []helper{
	{name: "internal/canonjson"},
	{name: "internal/conf", libs: []string{"github.com/pelletier/go-toml/v2"}},
	{name: "internal/conf/settings"},
	{name: "internal/obs", libs: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel"}},
	{name: "internal/sweep"},
	{name: "internal/db/migrate"},
	{name: "internal/db/secrethash", libs: []string{"golang.org/x/crypto/argon2"}},
	{name: "internal/db/sqlitedb", libs: []string{"golang.org/x/sys/unix", "golang.org/x/sys/windows", "zombiezen.com/go/sqlite"}},
	{name: "internal/db/pgdb", libs: []string{"github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2"}},
	{name: "internal/db/spannerdb", libs: []string{"cloud.google.com/go/spanner", "google.golang.org/api", "google.golang.org/genproto", "google.golang.org/grpc"}},
	{name: "internal/db/engine"},
	{name: "internal/outbox"},
	{name: "internal/suite", libs: []string{"pgregory.net/rapid"}},
	{name: "internal/outbox/storetest"},
	{name: "internal/outbox/sqlite", libs: []string{"zombiezen.com/go/sqlite"}},
	{name: "internal/outbox/postgres", libs: []string{"golang.org/x/sync/errgroup"}},
	{name: "internal/auth/hawk"},
	{name: "internal/auth/tokenlib", libs: []string{"github.com/hashicorp/golang-lru/v2"}},
	{name: "internal/auth/bearer", libs: []string{"github.com/go-jose/go-jose/v4", "github.com/hashicorp/golang-lru/v2"}},
	{name: "internal/fair"},
	{name: "internal/web", libs: []string{"golang.org/x/sys/unix"}},
	{name: "internal/web/dockerflow"},
	{name: "internal/web/rate", libs: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/time/rate"}},
}

// rules of the whole house.
func rules() []rule {
	all := []rule{{
		who: leaves, notStd: []string{"net/http"},
		reason: "everybody imports the leaves, so they import nobody",
	}}
	all = append(all, groundRules()...)
	for _, r := range services {
		all = append(all, r.rules()...)
	}
	return append(all,
		rule{
			who: []string{"internal/app"}, ours: slices.Concat(leaves, groundFloor(), []string{"internal/app/service"}, wirings(), serviceRoots()),
			libs: []string{"*"}, tests: []string{"internal/**", "test/**"},
			reason: "app composes what serves; what only tests use would end up in the binary",
		},
		rule{
			who: []string{"internal/app/cli"}, ours: slices.Concat(leaves, []string{"internal/app", "internal/app/service", "internal/conf"}),
			libs:   []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
			reason: "cli has the commands of the server; those of a service come with it",
		},
		rule{
			who: []string{"internal/app/service"}, ours: slices.Concat(leaves, groundFloor()),
			libs:   []string{"github.com/spf13/cobra"},
			reason: "it is what every service hands over, so it knows none",
		},
		rule{
			who: []string{"internal/app/service/servicetest"}, ours: slices.Concat(leaves, groundFloor(), []string{"internal/app/service"}),
			reason: "it opens any service for its tests, so it knows none",
		},
		rule{
			who: []string{"cmd/holdfast"}, ours: []string{"internal/app", "internal/app/cli"}, libs: []string{"golang.org/x/crypto/x509roots/fallback"},
			reason: "main hands its process over to cli; what it did itself could not be tested",
		},
		rule{
			who: []string{"internal/testdb", "internal/testdb/cmd/testservers"}, ours: []string{"internal/fault", "internal/ident", "internal/testdb"},
			libs:   []string{"github.com/jackc/pgx/v5"},
			reason: "testdb starts servers for everybody's tests, and would be part of a cycle if it knew who they are",
		},
		rule{
			who: []string{"internal/testdb/spannertest"}, ours: []string{"internal/ident", "internal/testdb"},
			libs:   []string{"cloud.google.com/go/spanner/admin", "google.golang.org/grpc"},
			reason: "it is beside testdb so that the tests of other engines are not compiled with gRPC",
		},
		rule{
			who: []string{"internal/testdb/opened"}, ours: []string{"internal/db/migrate", "internal/db/pgdb", "internal/db/sqlitedb", "internal/fault", "internal/testdb"},
			libs:   []string{"zombiezen.com/go/sqlite"},
			reason: "it opens any service's databases, so it knows none of the services",
		},
		rule{
			who: []string{"internal/web/webtest"}, ours: []string{"internal/web"},
			reason: "it serves any service, so it knows none",
		},
		rule{
			who: []string{"internal/openapitest"}, libs: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
			reason: "it holds any service's answers against its description, so it knows neither",
		},
		rule{
			who:    []string{"internal/archtest"},
			reason: "it reads the house from outside: a house that does not build is still judged",
		},
		rule{
			who: []string{"bench"}, ours: []string{"internal/auth/*", "internal/db/*", "internal/syncstorage/*", "internal/extstorage/**", "internal/testdb"}, libs: []string{"*"}, tests: []string{"test/binary"},
			reason: "it measures the binary from outside; of the inside it takes what the bare limit is made of",
		},
		rule{
			who: []string{"packaging/release"}, libs: []string{"github.com/goreleaser/nfpm/v2", "github.com/goreleaser/nfpm/v2/*", "github.com/CycloneDX/cyclonedx-go"},
			reason: "it is a module of its own, so that what makes packages is no dependency of the server",
		},
		rule{
			who: []string{"client/ext"}, tests: []string{"internal/openapitest", "test/binary"},
			reason: "it is for programs of others, who get the standard library with it and nothing of the server",
		},
		rule{
			who: []string{"test/fault/clocked"}, ours: []string{"internal/app", "internal/app/cli"},
			reason: "it is main with a clock that tests turn, which must not be in the binary",
		},
		rule{
			who: []string{"test/**"}, ours: []string{"test/**", "internal/auth/*", "internal/testdb"}, libs: []string{"*"}, tests: []string{"internal/testdb/spannertest", "internal/openapitest"},
			reason: "it tests the binary as its users meet it; knowing the inside would hide what they see",
		},
	)
}

// groundRules let each package of the ground floor import what stands before it.
func groundRules() (all []rule) {
	before := slices.Clone(leaves)
	for _, g := range ground {
		all = append(all, rule{
			who: []string{g.name}, ours: slices.Clone(before), libs: g.libs, tests: []string{"internal/testdb/**", "internal/web/webtest"},
			reason: "the ground floor carries every service, so it knows none, and its order keeps it free of cycles",
		})
		before = append(before, g.name)
	}
	return all
}

func (r service) rules() []rule {
	root := "internal/" + r.name
	own := []string{root}
	leaves := slices.Concat(leaves, r.below)
	// Tests of a service run against its real backends.
	tests := []string{root + "/**", "internal/db/*", "internal/auth/*", "internal/web/**", "internal/obs", "internal/testdb/**", "internal/openapitest"}
	all := []rule{
		{
			who: own, ours: append(slices.Clip(leaves), "internal/conf", "internal/conf/settings", "internal/fair"), libs: r.libs, tests: append(slices.Clip(tests), leaves...), notStd: []string{"net/http"},
			reason: "the root holds the service's rules, to be read and tested without a server, a driver or another service",
		},
		{
			who: []string{root + "/httpapi"}, ours: slices.Concat(own, leaves, []string{"internal/fair", "internal/web", "internal/web/rate", "internal/auth/*", "internal/obs"}),
			libs: r.wire, tests: tests,
			reason: "httpapi speaks the protocol and leaves what is kept to the Store that it is given",
		},
		{
			who: []string{root + "/storetest"}, ours: slices.Concat(own, leaves, []string{"internal/testdb", "internal/suite"}), libs: []string{"pgregory.net/rapid"},
			reason: "the suite is the contract: what only one backend has is not in it",
		},
	}
	for _, name := range r.backends {
		engine := engines[name]
		all = append(all, rule{
			who: []string{root + "/" + name}, ours: slices.Concat(own, leaves, engine.ours, []string{"internal/db/migrate"}),
			libs: engine.libs, notStd: []string{"net/http"}, tests: []string{root + "/storetest", "internal/testdb/**"},
			reason: "a backend keeps what its own service says, in one engine; configuration and wiring are app's",
		})
	}
	if r.wiring != "" {
		all = append(all, rule{
			who: []string{"internal/app/" + r.wiring}, ours: slices.Concat(leaves, groundFloor(), []string{"internal/app/service"}, r.folders()),
			libs:   []string{"github.com/spf13/cobra", "github.com/prometheus/client_golang"},
			tests:  []string{"internal/**"},
			reason: "it makes one service a value; what it needs of another comes through a port (internal/app/links.go)",
		})
	}
	for _, h := range r.helpers {
		all = append(all, rule{
			who: []string{root + "/" + h.name}, ours: slices.Concat(own, leaves, h.ours), libs: h.libs, tests: tests,
			reason: "a helper wraps one thing for its service, and nothing else may come to lean on it",
		})
	}
	return all
}

// groundFloor are the packages of the ground floor.
func groundFloor() (folders []string) {
	for _, g := range ground {
		if path.Base(g.name) != "storetest" {
			folders = append(folders, g.name)
		}
	}
	return folders
}

// wirings are the folders that make each service one that the server composes.
func wirings() (folders []string) {
	for _, s := range services {
		folders = append(folders, "internal/app/"+s.wiring)
	}
	return folders
}

// serviceRoots are the roots of the services.
func serviceRoots() (folders []string) {
	for _, s := range services {
		folders = append(folders, "internal/"+s.name)
	}
	return folders
}

// folders are the packages of a service that serve.
func (r service) folders() []string {
	root := "internal/" + r.name
	folders := []string{root, root + "/httpapi"}
	for _, name := range r.backends {
		folders = append(folders, root+"/"+name)
	}
	for _, h := range r.helpers {
		folders = append(folders, root+"/"+h.name)
	}
	return folders
}
