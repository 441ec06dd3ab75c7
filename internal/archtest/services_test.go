package archtest

import (
	"path"
	"slices"
	"strings"
)

type service struct {
	name     string
	wiring   string
	backends []string
	parts    []string // folders with business rules, like the root; each may import the earlier folders
	helpers  []helper
	libs     []string
	below    []string
	wire     []string
	apis     []string // protocol folders; nil for httpapi
	answers  []string // folders shared by the protocols
}

// helper is a folder that wraps something for a service. The service's root does not import it.
type helper struct {
	name string
	ours []string
	libs []string

	notStd []string // standard library packages that a shared package may not import
}

var services = []service{
	{
		name: "syncstorage", wiring: "sync", backends: []string{"sqlite", "postgres", "spanner"},
		helpers: []helper{{name: "budget"}},
		wire:    []string{"github.com/go-faster/jx"},
	},
	{
		name: "tokenserver", wiring: "tokenserver", backends: []string{"sqlite", "postgres"},
		helpers: []helper{
			{name: "fxa", libs: []string{"github.com/go-jose/go-jose/v4", "golang.org/x/sync/singleflight"}},
			{name: "nodeclient", ours: []string{"internal/auth/hawk"}},
		},
	},
	{
		name: "extstorage", wiring: "ext", backends: []string{"sqlite", "postgres"},
		parts: []string{"inspection", "backend"},
		helpers: []helper{{
			name: "schemas",
		}},
		libs:  []string{"github.com/hashicorp/golang-lru/v2"},
		below: []string{"internal/canonjson", "internal/jsonschema", "internal/outbox"},
	},
	{
		name: "buckets", wiring: "buckets", backends: []string{"sqlite", "postgres"}, apis: []string{"s3api", "httpapi"}, answers: []string{"download", "policy"},
		parts: []string{"lifecycle"},
		libs:  []string{"github.com/hashicorp/golang-lru/v2"},
		below: []string{"internal/canonjson", "internal/secretbox"},
		helpers: []helper{
			{name: "blobs", libs: []string{"github.com/hashicorp/golang-lru/v2"}},
			{name: "blobs/filedriver", ours: []string{"internal/buckets/blobs"}, libs: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/sys/unix"}},
			{name: "blobs/clouddriver", ours: []string{"internal/buckets/blobs", "internal/cloudbucket", "internal/cloudbucket/scheme"}, libs: []string{"gocloud.dev", "cloud.google.com/go/storage", "github.com/aws/aws-sdk-go-v2"}},
			{name: "maintenance", ours: []string{"internal/buckets/blobs", "internal/buckets/blobs/filedriver"}},
			{name: "backend", ours: []string{"internal/buckets/maintenance", "internal/outbox"}},
			{name: "imports", ours: []string{"internal/buckets/policy"}, libs: []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"}},
			{name: "blobs/drivertest", ours: []string{"internal/buckets/blobs"}, libs: []string{"pgregory.net/rapid"}},
		},
	},
	{
		name: "guest", wiring: "guest", backends: []string{"sqlite", "postgres"},
		parts: []string{"tenants", "catalogue", "telemetry", "bots", "handoffs", "retention", "eventschema", "backend"},
		libs:  []string{"github.com/oklog/ulid/v2", "golang.org/x/sync/singleflight"},
		below: []string{"internal/canonjson", "internal/inbox", "internal/jsonschema", "internal/outbox", "internal/secretbox", "client/handoff"},
		helpers: []helper{
			{name: "memory"},
			{name: "catalogue/builtin"},
			{name: "catalogue/upstream"},
			{name: "eventschema/eventschematest", ours: []string{"internal/guest/eventschema"}},
			{name: "hotstatetest", ours: []string{"internal/suite"}, libs: []string{"pgregory.net/rapid"}},
			{name: "redis", ours: []string{"internal/db/redisdb"}, libs: []string{"github.com/redis/rueidis"}},
		},
	},
}

// engines lists the packages that a backend may use, by backend name.
var engines = map[string]helper{
	"sqlite":   {ours: []string{"internal/db/sqlitedb", "internal/outbox", "internal/outbox/sqlite", "internal/inbox", "internal/inbox/sqlite"}, libs: []string{"zombiezen.com/go/sqlite"}},
	"postgres": {ours: []string{"internal/db/pgdb", "internal/outbox", "internal/outbox/postgres", "internal/inbox", "internal/inbox/postgres"}, libs: []string{"github.com/jackc/pgx/v5"}},
	"spanner":  {ours: []string{"internal/db/spannerdb", "internal/syncstorage/budget"}, libs: []string{"cloud.google.com/go/spanner"}},
}

// leaves lists the packages that all packages may import.
var leaves = []string{"internal/errcode", "internal/ident", "internal/clock", "internal/optional", "internal/checksum", "internal/durable", "internal/fserror", "internal/work", "internal/durations"}

// shared lists the shared packages with their libraries. Each may import the earlier packages.
var shared = []helper{
	{name: "internal/canonjson"},
	{name: "internal/secretbox"},
	{name: "internal/conf", libs: []string{"github.com/pelletier/go-toml/v2"}},
	{name: "internal/conf/settings"},
	{name: "internal/obs", libs: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel/propagation", "go.opentelemetry.io/otel/trace"}},
	{name: "internal/obs/tracing", libs: []string{"go.opentelemetry.io/otel"}},
	{name: "internal/sweep"},
	{name: "internal/db/migrate"},
	{name: "internal/db/secrethash", libs: []string{"golang.org/x/crypto/argon2"}},
	{name: "internal/db/rows"},
	{name: "internal/db/sqlitedb", libs: []string{"golang.org/x/sys/unix", "golang.org/x/sys/windows", "modernc.org/libc", "modernc.org/sqlite/lib", "unsafe", "zombiezen.com/go/sqlite"}},
	{name: "internal/db/pgdb", libs: []string{"github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2"}},
	{name: "internal/db/spannerdb", libs: []string{"cloud.google.com/go/spanner", "google.golang.org/api", "google.golang.org/genproto", "google.golang.org/grpc"}},
	{name: "internal/db/redisdb", libs: []string{"github.com/redis/rueidis"}},
	{name: "internal/db/sourcedb", libs: []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"}},
	{name: "internal/outbox"},
	{name: "internal/db/engine"},
	{name: "internal/suite", ours: []string{"internal/testdb"}, libs: []string{"pgregory.net/rapid"}},
	{name: "internal/outbox/storetest"},
	{name: "internal/outbox/sqlite", libs: []string{"zombiezen.com/go/sqlite"}},
	{name: "internal/outbox/postgres", libs: []string{"golang.org/x/sync/errgroup", "github.com/jackc/pgx/v5/pgtype"}},
	{name: "internal/inbox"},
	{name: "internal/inbox/sqlite", libs: []string{"zombiezen.com/go/sqlite"}},
	{name: "internal/inbox/postgres"},
	{name: "internal/broker"},
	{name: "internal/broker/storetest"},
	{name: "internal/broker/memory"},
	{name: "internal/broker/sinks"},
	{name: "internal/broker/pubsub", libs: []string{"cloud.google.com/go/pubsub/v2", "google.golang.org/api", "google.golang.org/grpc", "google.golang.org/protobuf"}},
	{name: "internal/broker/nats", libs: []string{"github.com/nats-io/nats.go"}},
	{name: "internal/replica", libs: []string{"filippo.io/age", "github.com/klauspost/compress/zstd", "github.com/oklog/ulid/v2", "github.com/superfly/ltx"}, notStd: []string{"net/http"}},
	{name: "internal/cloudbucket/scheme"},
	{name: "internal/replica/location", libs: []string{"filippo.io/age"}, notStd: []string{"net/http"}},
	{name: "internal/cloudbucket", libs: []string{"gocloud.dev"}},
	{name: "internal/replica/cloudtarget", libs: []string{"gocloud.dev"}, notStd: []string{"net/http"}},
	{name: "internal/auth/hawk"},
	{name: "internal/auth/tokenlib", libs: []string{"github.com/hashicorp/golang-lru/v2"}},
	{name: "internal/auth/bearer", libs: []string{"github.com/go-jose/go-jose/v4", "github.com/hashicorp/golang-lru/v2"}},
	{name: "internal/auth/sigv4"},
	{name: "internal/fairshare", libs: []string{"github.com/hashicorp/golang-lru/v2"}},
	{name: "internal/jsonschema", libs: []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
	{name: "internal/operate", notStd: []string{"net/http"}},
	{name: "internal/web", libs: []string{"golang.org/x/sys/unix", "golang.org/x/net/http2", "golang.org/x/net/http2/hpack"}},
	{name: "internal/web/dockerflow"},
	{name: "internal/web/problem"},
	{name: "internal/web/rate", libs: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/time/rate"}},
	{name: "internal/operate/adminapi"},
	{name: "internal/operate/openapi"},
}

// beside lists the server packages outside app that know no service. Each may import the earlier packages.
var beside = []helper{
	{name: "internal/guides", ours: []string{"docs"}, libs: []string{"github.com/yuin/goldmark"}},
	{name: "internal/readonly"},
	{name: "internal/copying", libs: []string{"golang.org/x/sync/errgroup", "golang.org/x/sync/semaphore"}},
	{name: "internal/importing"},
	{name: "internal/listen"},
	{name: "internal/systemd", libs: []string{"github.com/coreos/go-systemd/v22"}},
	{name: "internal/secrets", libs: []string{"github.com/pelletier/go-toml/v2", "golang.org/x/sync/errgroup"}},
	{name: "internal/backup"},
	{name: "internal/replication"},
	{name: "internal/restore", libs: []string{"filippo.io/age"}},
	{name: "internal/certificates", libs: []string{"github.com/caddyserver/certmagic", "github.com/mholt/acmez/v3", "go.uber.org/zap"}},
	{name: "internal/check"},
	{name: "internal/alerts"},
	{name: "internal/changes"},
	{name: "internal/app/overview"},
}

func besideRules() (all []rule) {
	before := slices.Concat(leaves, sharedPackages(), []string{"internal/app/service"})
	for _, b := range beside {
		all = append(all, rule{
			who: []string{b.name}, ours: slices.Concat(before, b.ours), libs: b.libs, tests: []string{"internal/**"},
			reason: "app composes it into the server, so it depends on neither app nor a service; the order prevents cycles",
		})
		before = append(before, b.name)
	}
	return all
}

func besidePackages() (folders []string) {
	for _, b := range beside {
		folders = append(folders, b.name)
	}
	return folders
}

func rules() []rule {
	all := []rule{
		{
			who: []string{"internal/checksum"}, libs: []string{"github.com/minio/crc64nvme"}, notStd: []string{"net/http"},
			reason: "it is a leaf, and wraps the only library for its algorithms",
		},
		{
			who: leaves, notStd: []string{"net/http"},
			reason: "all packages import the leaves, so these import none",
		},
	}
	all = slices.Concat(all, aside(), sharedRules(), besideRules())
	for _, r := range services {
		all = append(all, r.rules()...)
	}
	return append(all,
		rule{
			who: []string{"internal/app"}, ours: slices.Concat(leaves, sharedPackages(), besidePackages(), []string{"internal/app/service", "internal/app/console", "internal/operate/console"}, wirings(), serviceRoots(), []string{"internal/engines"}),
			libs: []string{"*"}, tests: []string{"internal/**", "test/**"},
			reason: "app composes the server; packages for tests would become part of the binary",
		},
		rule{
			who: []string{"internal/cli"}, ours: slices.Concat(leaves, besidePackages(), []string{"internal/app", "internal/app/service", "internal/conf", "internal/engines", "internal/operate/cli", "internal/replica/location"}),
			libs:   []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
			tests:  []string{"internal/testdb"},
			reason: "cli contains the server's commands; each service adds its own",
		},
		rule{
			who: []string{"internal/app/service"}, ours: slices.Concat(leaves, sharedPackages()),
			libs:   []string{"github.com/spf13/cobra"},
			reason: "it is the interface of every service, so it depends on no service",
		},
		rule{
			who: []string{"internal/operate/cli", "internal/operate/console"}, ours: slices.Concat(leaves, []string{"internal/operate", "internal/app/service"}),
			libs: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}, notStd: []string{"net/http"},
			reason: "they show the operations of every service, so they depend on no service",
		},
		rule{
			who: []string{"internal/app/console"}, ours: slices.Concat(leaves, sharedPackages(), []string{"internal/app/service"}),
			libs:   []string{"github.com/boombuler/barcode"},
			reason: "it renders the console, and each service contributes its pages, so it depends on no service",
		},
		rule{
			who: []string{"internal/app/service/servicetest"}, ours: slices.Concat(leaves, sharedPackages(), []string{"internal/app/service", "internal/openapitest", "internal/web/webtest"}),
			reason: "it opens any service for its tests, so it depends on no service",
		},
		rule{
			who: []string{"internal/engines"}, ours: slices.Concat([]string{"internal/errcode", "internal/db/engine", "internal/broker/sinks", "internal/buckets/blobs", "internal/replica/location"}, serviceRoots(), []string{"internal/*/backend"}),
			reason: "it has only types: a package that knows engines links a driver only if it names its folder",
		},
		rule{
			who: []string{"internal/engines/postgres", "internal/engines/spanner"}, ours: slices.Concat([]string{"internal/engines", "internal/db/*"}, serviceRoots(), []string{"internal/*/backend", "internal/*/postgres", "internal/*/spanner"}),
			tests:  []string{"internal/**"},
			reason: "each folder names one engine, and the services' backends on it",
		},
		rule{
			who:    []string{"internal/engines/pubsub", "internal/engines/nats", "internal/engines/cloud", "internal/engines/otlp"},
			ours:   []string{"internal/engines", "internal/broker/*", "internal/buckets/blobs", "internal/buckets/blobs/clouddriver", "internal/replica/*", "internal/obs/tracing"},
			reason: "each folder names one external system",
		},
		rule{
			who: []string{"internal/engines/all"}, ours: []string{"internal/engines", "internal/engines/*"}, tests: []string{"internal/**"},
			reason: "it only lists the engines",
		},
		rule{
			who: []string{"cmd/holdfast"}, ours: []string{"internal/app", "internal/cli", "internal/engines/all"}, libs: []string{"golang.org/x/crypto/x509roots/fallback"},
			reason: "main only calls cli, because code in main cannot be tested",
		},
	)
}

// aside returns the rules for packages outside the server.
func aside() []rule { //nolint:funlen // a table
	return []rule{
		{
			who: []string{"docs"}, notStd: []string{"net/http"},
			reason: "it only embeds the guides",
		},
		{
			who: []string{"internal/testdb", "internal/testdb/cmd/testservers"}, ours: []string{"internal/errcode", "internal/ident", "internal/testdb"},
			libs:   []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"},
			reason: "testdb starts servers for the tests of all packages, and importing one of these would be a cycle",
		},
		{
			who: []string{"internal/testdb/spannertest"}, ours: []string{"internal/ident", "internal/testdb"},
			libs:   []string{"cloud.google.com/go/spanner/admin", "google.golang.org/grpc"},
			reason: "it is separate from testdb, so that the tests of other engines are not compiled with gRPC",
		},
		{
			who: []string{"internal/testdb/opened"}, ours: []string{"internal/db/migrate", "internal/db/pgdb", "internal/db/sqlitedb", "internal/errcode", "internal/testdb"},
			libs:   []string{"zombiezen.com/go/sqlite"},
			reason: "it opens any service's databases, so it depends on no service",
		},
		{
			who: []string{"internal/web/webtest"}, ours: []string{"internal/web"},
			reason: "it serves any service, so it depends on no service",
		},
		{
			who: []string{"internal/testdb/acmetest"}, libs: []string{"github.com/letsencrypt/pebble/v2", "github.com/miekg/dns", "log"},
			reason: "it is a certificate authority for tests, so it depends on no server",
		},
		{
			who: []string{"internal/openapitest"}, libs: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
			reason: "it checks responses of any service against its OpenAPI file, so it depends on no service",
		},
		{
			who:    []string{"internal/archtest"},
			reason: "it reads source files, so that it works even if they do not compile",
		},
		{
			who: []string{"bench"}, ours: []string{"internal/auth/**", "internal/db/*", "internal/syncstorage/*", "internal/extstorage/**", "internal/buckets/*", "internal/checksum", "internal/durable", "internal/testdb", "internal/workload/**"}, libs: []string{"*"}, tests: []string{"test/binary"},
			reason: "it measures the binary from outside; it imports packages only to measure the engines without the server",
		},
		{
			who:    []string{"internal/workload"},
			reason: "it is shared by the workloads of all services, so it depends on no service",
		},
		{
			who: []string{"internal/workload/*"}, ours: []string{"internal/workload", "internal/auth/**", "client/ext"},
			reason: "a workload knows only what clients know; if it shared code with the server, a mistake in both would not show",
		},
		{
			who: []string{"packaging/release"}, libs: []string{"github.com/goreleaser/nfpm/v2", "github.com/goreleaser/nfpm/v2/*", "github.com/CycloneDX/cyclonedx-go"},
			reason: "it is a separate module, so that its libraries are not dependencies of the server",
		},
		{
			who: []string{"packaging/vuln"}, libs: []string{"golang.org/x/vuln/scan"},
			reason: "it is a separate module, so that its library is not a dependency of the server",
		},
		{
			who: []string{"client/**"}, ours: []string{"client/internal/**"}, libs: []string{"pgregory.net/rapid"}, tests: []string{"internal/openapitest", "test/binary"},
			reason: "other programs import it, and must not depend on packages of the server",
		},
		{
			who: []string{"test/fault/clocked"}, ours: []string{"internal/app", "internal/cli", "internal/engines/all"},
			reason: "it is main with a clock that tests control, which must not be in the binary",
		},
		{
			who: []string{"test/e2e/testpages"}, ours: []string{"internal/app/console", "internal/app/service", "internal/web", "internal/clock", "internal/errcode"},
			reason: "it serves the console with test pages, which must not be in the binary",
		},
		{
			who: []string{"test/fault/harness"}, ours: []string{"internal/testdb", "internal/testdb/spannertest", "internal/workload/**", "test/binary"}, libs: []string{"*"},
			reason: "it runs the workload of any service, so it imports none of their folders",
		},
		{
			who: []string{"test/describe"}, ours: []string{"internal/app", "internal/app/overview", "internal/app/service", "internal/operate/openapi"},
			reason: "it writes the operations of all services into their API descriptions, which are part of the binary",
		},
		{
			who: []string{"test/**"}, ours: []string{"test/**", "internal/auth/**", "internal/testdb", "internal/workload/**", "client/ext"}, libs: []string{"*"}, tests: []string{"internal/testdb/spannertest", "internal/openapitest", "internal/durable", "internal/testdb/acmetest"},
			reason: "it tests the binary from outside, as its users run it",
		},
	}
}

func sharedRules() (all []rule) {
	before := slices.Clone(leaves)
	for _, g := range shared {
		all = append(all, rule{
			who: []string{g.name}, ours: append(slices.Clone(before), g.ours...), libs: g.libs, notStd: g.notStd, tests: []string{"internal/testdb/**", "internal/web/webtest", "internal/workload/desync", "internal/auth/sigv4/sigv4test"},
			reason: "shared packages depend on no service, and their order prevents cycles",
		})
		before = append(before, g.name)
	}
	return append(all, rule{
		who:    []string{"internal/auth/sigv4/sigv4test"},
		reason: "it signs what sigv4 verifies; with shared code, a mistake in both would not show",
	})
}

func (r service) rules() []rule {
	root := "internal/" + r.name
	own := r.roots()
	leaves := slices.Concat(leaves, r.below)
	// Service tests use real backends.
	tests := []string{root + "/**", "internal/db/*", "internal/auth/**", "internal/web/**", "internal/obs", "internal/suite", "internal/testdb/**", "internal/openapitest"}
	var all []rule
	for i, folder := range own {
		all = append(all, rule{
			who: []string{folder}, ours: slices.Concat(leaves, own[:i], []string{"internal/conf", "internal/conf/settings", "internal/fairshare"}), libs: r.libs, tests: append(slices.Clip(tests), leaves...), notStd: []string{"net/http"},
			reason: "the root and the parts contain the service's rules, which are tested without a server, a driver or another service; the order prevents cycles",
		})
	}
	all = append(all,
		rule{
			who: []string{root + "/storetest"}, ours: slices.Concat(own, leaves, []string{"internal/testdb", "internal/suite"}), libs: []string{"pgregory.net/rapid"},
			reason: "the suite is the contract of all backends, so it depends on no backend",
		},
	)
	var answers []string
	for _, name := range r.answers {
		answers = append(answers, root+"/"+name)
		all = append(all, rule{
			who: []string{root + "/" + name}, ours: slices.Concat(own, leaves, []string{"internal/web"}), tests: tests,
			reason: "it contains the responses that several protocols of a service share",
		})
	}
	for _, name := range r.protocols() {
		all = append(all, rule{
			who: []string{root + "/" + name}, ours: slices.Concat(own, answers, leaves, []string{"internal/fairshare", "internal/web", "internal/web/problem", "internal/web/rate", "internal/auth/*", "internal/obs"}),
			libs: r.wire, tests: tests,
			reason: "it implements a protocol and leaves storage to the Store",
		})
	}
	for _, name := range r.backends {
		engine := engines[name]
		all = append(all, rule{
			who: []string{root + "/" + name}, ours: slices.Concat(own, leaves, engine.ours, []string{"internal/db/migrate"}),
			libs: engine.libs, notStd: []string{"net/http"}, tests: []string{root + "/storetest", "internal/suite", "internal/testdb/**"},
			reason: "a backend stores the data of its service in one engine; configuration and wiring belong to app",
		})
	}
	if r.wiring != "" {
		all = append(all, rule{
			who: []string{"internal/app/" + r.wiring}, ours: slices.Concat(leaves, sharedPackages(), []string{"internal/app/service"}, r.wiredFolders()),
			libs:   []string{"github.com/spf13/cobra", "github.com/prometheus/client_golang"},
			tests:  []string{"internal/**"},
			reason: "it wires one service; it uses another service only through an interface (internal/app/links.go)",
		})
	}
	for _, h := range r.helpers {
		all = append(all, rule{
			who: []string{root + "/" + h.name}, ours: slices.Concat(own, leaves, h.ours), libs: h.libs, tests: tests,
			reason: "a helper wraps one thing for its service, and nothing else may depend on it",
		})
	}
	return all
}

func sharedPackages() (folders []string) {
	for _, g := range shared {
		if path.Base(g.name) != "storetest" {
			folders = append(folders, g.name)
		}
	}
	return folders
}

func wirings() (folders []string) {
	for _, s := range services {
		folders = append(folders, "internal/app/"+s.wiring)
	}
	return folders
}

func serviceRoots() (folders []string) {
	for _, s := range services {
		folders = append(folders, "internal/"+s.name)
	}
	return folders
}

func (r service) roots() []string {
	folders := []string{"internal/" + r.name}
	for _, name := range r.parts {
		folders = append(folders, "internal/"+r.name+"/"+name)
	}
	return folders
}

func (r service) protocols() []string {
	if r.apis == nil {
		return []string{"httpapi"}
	}
	return r.apis
}

// wiredFolders returns the folders that internal/app may link: all but the backends on database servers and in clouds,
// which internal/engines hands over.
func (r service) wiredFolders() []string {
	return slices.DeleteFunc(r.folders(), func(folder string) bool {
		name, ok := strings.CutPrefix(folder, "internal/"+r.name+"/")
		return ok && (name == "blobs/clouddriver" || name != "sqlite" && slices.Contains(r.backends, name))
	})
}

func (r service) folders() []string {
	root := "internal/" + r.name
	folders := r.roots()
	for _, name := range r.protocols() {
		folders = append(folders, root+"/"+name)
	}
	for _, name := range r.backends {
		folders = append(folders, root+"/"+name)
	}
	for _, name := range r.answers {
		folders = append(folders, root+"/"+name)
	}
	for _, h := range r.helpers {
		folders = append(folders, root+"/"+h.name)
	}
	return folders
}
