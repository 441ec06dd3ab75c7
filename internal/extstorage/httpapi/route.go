package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// resource is a kind of path.
type resource uint8

const (
	nothing resource = iota
	document
	namespaces
	records
	record
	increment
	schemas
	schema
	schemaCheck
	batch
	changes
	usage
	export
	imports
)

type action struct {
	serve      func(*exchange) error
	cost       cost
	params     []string
	media      string
	conditions web.Conditions
	limit      int64
	stream     bool // reads the body itself or takes long
	times      int  // multiple of the request timeout; 0 means 1
}

const (
	spelling = 4

	smallBody  = 16 << 10
	recordBody = spelling*(ext.MaxValueBytes+ext.MaxMetadataBytes) + smallBody
	patchBody  = spelling * ext.MaxValueBytes
	itemsBody  = spelling*ext.MaxItemsBytes + ext.MaxItems*smallBody
	schemaBody = spelling*ext.MaxSchemaBytes + smallBody
)

var (
	readConditions   = web.Conditions{Applied: []string{"If-Match", "If-None-Match", "If-Revision-Match"}}
	recordConditions = web.Conditions{Applied: []string{"If-Match", "If-None-Match"}, Instead: "use If-Match, If-None-Match or ifRevision"}
	itemConditions   = web.Conditions{Instead: "use ifMatch or ifRevision in the items"}
	importConditions = web.Conditions{Instead: "an import takes no preconditions"}
	schemaConditions = web.Conditions{Instead: "writes of schemas take no preconditions"}
)

// Conditions declares the condition headers of clients' requests.
func Conditions(r *http.Request, at web.Address) web.Conditions {
	if act := actions[parseRoute(at.Path).resource][r.Method]; act != nil {
		return act.conditions
	}
	return web.Conditions{}
}

var actions = [...]map[string]*action{
	nothing: {},
	document: {
		http.MethodGet:  {serve: (*exchange).document},
		http.MethodHead: {serve: (*exchange).document},
	},
	namespaces: {http.MethodGet: {serve: (*exchange).namespaces, cost: read}},
	records: {
		http.MethodGet:  {serve: (*exchange).getList, cost: read, params: listingNames},
		http.MethodPost: {serve: (*exchange).postBulk, cost: write, media: typeJSON, conditions: itemConditions, limit: itemsBody},
	},
	record: {
		http.MethodGet:    {serve: (*exchange).get, cost: read, conditions: readConditions},
		http.MethodHead:   {serve: (*exchange).get, cost: read, conditions: readConditions},
		http.MethodPut:    {serve: (*exchange).putRecord, cost: write, media: typeJSON, conditions: recordConditions, limit: recordBody},
		http.MethodDelete: {serve: (*exchange).deleteRecord, cost: write, conditions: recordConditions, params: []string{"ifRevision"}},
		http.MethodPatch:  {serve: (*exchange).patchRecord, cost: write, conditions: recordConditions, params: []string{"ifRevision"}, media: typeMergePatch, limit: patchBody},
	},
	increment: {http.MethodPost: {serve: (*exchange).postIncrement, cost: write, media: typeJSON, conditions: recordConditions, limit: smallBody}},
	schemas: {
		http.MethodGet:  {serve: (*exchange).getSchemas, cost: read, params: schemasNames},
		http.MethodPost: {serve: (*exchange).postSchema, cost: write, media: typeJSON, conditions: schemaConditions, limit: schemaBody},
	},
	schema: {
		http.MethodGet:   {serve: (*exchange).getSchema, cost: read},
		http.MethodPatch: {serve: (*exchange).setSchema, cost: write, media: typeJSON, conditions: schemaConditions, limit: smallBody},
	},
	schemaCheck: {http.MethodPost: {serve: (*exchange).checkSchema, cost: read, media: typeJSON, conditions: schemaConditions, limit: schemaBody, times: 2}},
	batch:       {http.MethodPost: {serve: (*exchange).postBatch, cost: write, media: typeJSON, conditions: itemConditions, limit: itemsBody}},
	changes:     {http.MethodGet: {serve: (*exchange).getChanges, cost: read, params: changesNames, stream: true}},
	usage:       {http.MethodGet: {serve: (*exchange).usage, cost: read}},
	export:      {http.MethodGet: {serve: (*exchange).export, cost: read, params: []string{"cursor"}, stream: true}},
	imports:     {http.MethodPost: {serve: (*exchange).imports, cost: free, media: typeLines, conditions: importConditions, stream: true}},
}

// action returns the handler for path and method.
func (x *exchange) action() (*action, error) {
	methods := actions[x.route.resource]
	if len(methods) == 0 {
		return nil, errRoute
	}
	act, ok := methods[x.in.Method]
	if !ok {
		return nil, methodNotAllowed(x.out, slices.Collect(maps.Keys(methods))...)
	}
	return act, nil
}

type route struct {
	resource     resource
	install      string
	namespace    ext.Namespace
	key          ext.Key
	version      string
	hasNamespace bool
	hasKey       bool
}

// Owns reports whether a raw path on the main listener is for this service.
func Owns(path string) bool { return strings.HasPrefix(path, "/ext/") }

// parseRoute parses the raw path: a key may be "..", so the path must not be cleaned or decoded first.
func parseRoute(path string) (rt route) {
	s, err := web.Segments(path)
	switch {
	case err != nil, s[0] != "ext":
	case len(s) == 2 && s[1] == "openapi.json":
		rt.resource = document
	case len(s) >= 5 && s[1] == "v1" && s[2] == "installs":
		rt = inInstall(s[4:])
		rt.install = s[3]
	}
	return rt
}

// inInstall parses the path's segments after the install's ID.
func inInstall(s []string) (rt route) {
	if len(s) == 1 {
		rt.resource = map[string]resource{
			"namespaces": namespaces, "batch": batch, "changes": changes, "usage": usage, "export": export, "import": imports,
		}[s[0]]
		return rt
	}
	if s[0] != "namespaces" || len(s) < 3 {
		return rt
	}
	rt.namespace, rt.hasNamespace = ext.Namespace(s[1]), true
	switch what, rest := s[2], s[3:]; {
	case what == "records" && len(rest) == 0:
		rt.resource = records
	case what == "records" && len(rest) == 1:
		rt.resource = record
	case what == "records" && len(rest) == 2 && rest[1] == "increment":
		rt.resource = increment
	case what == "schemas" && len(rest) == 0:
		rt.resource = schemas
	case what == "schemas" && len(rest) == 1 && rest[0] == "check":
		rt.resource = schemaCheck
	case what == "schemas" && len(rest) == 1:
		rt.resource, rt.version = schema, rest[0]
	}
	if rt.resource == record || rt.resource == increment {
		rt.key, rt.hasKey = ext.Key(s[3]), true
	}
	return rt
}

// Routes returns all paths with their methods.
func Routes() []web.Route { return web.RoutesOf(resource.String, actions[:]) }

// Label returns the route for metrics and logs, without client-chosen parts.
func Label(path string) string {
	if !Owns(path) {
		return "other"
	}
	return parseRoute(path).resource.String()
}

// String names a resource in metrics and logs.
func (r resource) String() string {
	return [...]string{
		nothing: "unknown", document: "openapi", namespaces: "namespaces", records: "records", record: "record",
		increment: "increment", schemas: "schemas", schema: "schema", schemaCheck: "schemas/check", batch: "batch",
		changes: "changes", usage: "usage", export: "export", imports: "import",
	}[r]
}
