package archtest

import "slices"

// room is one room of the house.
type room struct {
	name     string
	backends []string
	helpers  []helper
	libs     []string // of its root
	wire     []string // libraries that its httpapi encodes and decodes with
}

// helper is a folder of a room that holds or wraps one thing and that the root
// sees at most as an interface.
type helper struct {
	name string
	ours []string // what it wraps of the ground floor
	libs []string // or of others
}

var rooms = []room{
	{
		name: "syncstorage", backends: []string{"sqlite", "postgres", "spanner"},
		helpers: []helper{{name: "budget"}},
		wire:    []string{"github.com/go-faster/jx"},
	},
	{
		name: "tokenserver", backends: []string{"sqlite", "postgres"},
		helpers: []helper{
			{name: "fxa", libs: []string{"github.com/go-jose/go-jose/v4", "golang.org/x/sync/singleflight"}},
			{name: "nodeclient", ours: []string{"internal/auth/hawk"}},
		},
	},
	{
		name: "extstorage", backends: []string{"sqlite", "postgres"},
		helpers: []helper{{
			name: "jsonschema",
			libs: []string{"github.com/santhosh-tekuri/jsonschema/v6", "github.com/hashicorp/golang-lru/v2", "golang.org/x/sync/singleflight"},
		}},
		libs: []string{"github.com/hashicorp/golang-lru/v2"},
	},
}

// engines are what a backend of a name is made of.
var engines = map[string]helper{
	"sqlite":   {ours: []string{"internal/db/sqlitedb", "internal/outbox", "internal/outbox/sqlite"}, libs: []string{"zombiezen.com/go/sqlite"}},
	"postgres": {ours: []string{"internal/db/pgdb", "internal/outbox", "internal/outbox/postgres"}, libs: []string{"github.com/jackc/pgx/v5"}},
	"spanner":  {ours: []string{"internal/db/spannerdb", "internal/syncstorage/budget"}, libs: []string{"cloud.google.com/go/spanner"}},
}

// leaves may be imported by everybody.
var leaves = []string{"internal/fault", "internal/ident", "internal/clock"}

// ground is the ground floor in its order, with the libraries that each package
// is there to wrap.
var ground = []helper{
	{name: "internal/conf", libs: []string{"github.com/pelletier/go-toml/v2"}},
	{name: "internal/obs", libs: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel"}},
	{name: "internal/sweep"},
	{name: "internal/db/migrate"},
	{name: "internal/db/sqlitedb", libs: []string{"zombiezen.com/go/sqlite"}},
	{name: "internal/db/pgdb", libs: []string{"github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2"}},
	{name: "internal/db/spannerdb", libs: []string{"cloud.google.com/go/spanner", "google.golang.org/api", "google.golang.org/grpc"}},
	{name: "internal/outbox"},
	{name: "internal/outbox/storetest"},
	{name: "internal/outbox/sqlite", libs: []string{"zombiezen.com/go/sqlite"}},
	{name: "internal/outbox/postgres", libs: []string{"golang.org/x/sync/errgroup"}},
	{name: "internal/auth/hawk"},
	{name: "internal/auth/tokenlib", libs: []string{"github.com/hashicorp/golang-lru/v2"}},
	{name: "internal/auth/bearer", libs: []string{"github.com/golang-jwt/jwt/v5", "github.com/hashicorp/golang-lru/v2"}},
	{name: "internal/web"},
	{name: "internal/web/rate", libs: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/time/rate"}},
}

// rules of the whole house.
func rules() []rule {
	all := []rule{{
		who: leaves, notStd: []string{"net/http"},
		reason: "everybody imports the leaves, so they import nobody",
	}}
	all = append(all, groundRules()...)
	for _, r := range rooms {
		all = append(all, r.rules()...)
	}
	return append(all,
		rule{
			who: []string{"internal/app", "internal/app/cli"}, ours: slices.Concat(leaves, []string{
				"internal/app", "internal/conf", "internal/obs", "internal/sweep", "internal/web", "internal/web/rate", "internal/auth/*", "internal/db/*",
				"internal/outbox", "internal/outbox/sqlite", "internal/outbox/postgres",
			}, roomFolders()),
			libs: []string{"*"}, tests: []string{"internal/**", "test/**"},
			reason: "app wires what serves; what only tests use would end up in the binary",
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
			who: []string{"internal/testdb/opened"}, ours: []string{"internal/db/migrate", "internal/db/pgdb", "internal/db/sqlitedb", "internal/testdb"},
			libs:   []string{"zombiezen.com/go/sqlite"},
			reason: "it opens any room's databases, so it knows none of the rooms",
		},
		rule{
			who: []string{"internal/web/webtest"}, ours: []string{"internal/web"},
			reason: "it serves any room, so it knows none",
		},
		rule{
			who: []string{"internal/openapitest"}, libs: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
			reason: "it holds any room's answers against its description, so it knows neither",
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
			who: []string{g.name}, ours: slices.Clone(before), libs: g.libs, tests: []string{"internal/testdb/**"},
			reason: "the ground floor carries every room, so it knows none, and its order keeps it free of cycles",
		})
		before = append(before, g.name)
	}
	return all
}

func (r room) rules() []rule {
	root := "internal/" + r.name
	own := []string{root}
	// Tests of a room run against its real backends.
	tests := []string{root + "/**", "internal/db/*", "internal/auth/*", "internal/web/**", "internal/obs", "internal/testdb/**", "internal/openapitest"}
	all := []rule{
		{
			who: own, ours: leaves, libs: r.libs, tests: append(slices.Clip(tests), leaves...), notStd: []string{"net/http"},
			reason: "the root holds the room's rules, to be read and tested without a server, a driver or another room",
		},
		{
			who: []string{root + "/httpapi"}, ours: slices.Concat(own, leaves, []string{"internal/web", "internal/web/rate", "internal/auth/*", "internal/obs"}),
			libs: r.wire, tests: tests,
			reason: "httpapi speaks the protocol and leaves what is kept to the Store that it is given",
		},
		{
			who: []string{root + "/storetest"}, ours: slices.Concat(own, leaves, []string{"internal/testdb"}), libs: []string{"pgregory.net/rapid"},
			reason: "the suite is the contract: what only one backend has is not in it",
		},
	}
	for _, name := range r.backends {
		engine := engines[name]
		all = append(all, rule{
			who: []string{root + "/" + name}, ours: slices.Concat(own, leaves, engine.ours, []string{"internal/db/migrate"}),
			libs: engine.libs, notStd: []string{"net/http"}, tests: []string{root + "/storetest", "internal/testdb/**"},
			reason: "a backend keeps what its own room says, in one engine; configuration and wiring are app's",
		})
	}
	for _, h := range r.helpers {
		all = append(all, rule{
			who: []string{root + "/" + h.name}, ours: slices.Concat(own, leaves, h.ours), libs: h.libs, tests: tests,
			reason: "a helper wraps one thing for its room, and nothing else may come to lean on it",
		})
	}
	return all
}

// roomFolders are the packages of the rooms that serve.
func roomFolders() (folders []string) {
	for _, r := range rooms {
		root := "internal/" + r.name
		folders = append(folders, root, root+"/httpapi")
		for _, name := range r.backends {
			folders = append(folders, root+"/"+name)
		}
		for _, h := range r.helpers {
			folders = append(folders, root+"/"+h.name)
		}
	}
	return folders
}
