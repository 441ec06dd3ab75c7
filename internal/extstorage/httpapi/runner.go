package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

type Runner struct {
	Service *ext.Service
	Tokens  *bearer.Keyring
	Clock   clock.Clock
	Rates   *Rates
	Timeout time.Duration
}

const runnerBase = "/internal/ext-storage/"

var errRunnerRoute = &refusal{http.StatusNotFound, codeNotFound, "", "no such path: expected " + runnerBase + "install/INSTALL", errcode.NotFound}

// OwnsRunner is like Owns, but for the internal listener.
func OwnsRunner(path string) bool { return strings.HasPrefix(path, runnerBase) }

// LabelRunner is like Label, but for the internal listener.
func LabelRunner(path string) string {
	if _, ok := runnerInstall(path); ok {
		return "runner"
	}
	return "unknown"
}

// RunnerRoutes is like Routes, but for the internal listener.
func RunnerRoutes() []web.Route { return []web.Route{{Label: "runner", Method: http.MethodPost}} }

// runnerInstall returns the install's ID in an internal path.
func runnerInstall(path string) (string, bool) {
	s, err := web.Segments(path)
	if err != nil || len(s) != 4 || s[0] != "internal" || s[1] != "ext-storage" || s[2] != "install" {
		return "", false
	}
	return s[3], true
}

// operation is a kind of request in an envelope.
type operation struct {
	names      []string
	noKey      bool // takes no key, and at most a namespace
	noSpace    bool
	cost       cost
	conditions web.Conditions
	stream     bool
	schema     bool
	serve      func(*exchange, *fields) error
}

var operations = map[string]operation{
	"put":       {names: putNames, cost: write, conditions: recordConditions, serve: (*exchange).put},
	"get":       {cost: read, conditions: readConditions, serve: func(x *exchange, _ *fields) error { return x.get() }},
	"list":      {names: listingNames, noKey: true, cost: read, serve: func(x *exchange, f *fields) error { return x.list(f) }},
	"delete":    {names: []string{"ifRevision"}, cost: write, conditions: recordConditions, serve: func(x *exchange, f *fields) error { return x.delete(f) }},
	"bulkPut":   {names: []string{"items"}, noKey: true, cost: write, conditions: itemConditions, serve: (*exchange).bulk},
	"patch":     {names: []string{"patch", "ifRevision"}, cost: write, conditions: recordConditions, serve: (*exchange).patchOf},
	"increment": {names: incrementNames, cost: write, conditions: recordConditions, serve: (*exchange).increment},
	"batch":     {names: []string{"ops"}, noKey: true, noSpace: true, cost: write, conditions: itemConditions, serve: (*exchange).batch},
	"changes":   {names: changesNames, noKey: true, noSpace: true, cost: read, stream: true, serve: func(x *exchange, f *fields) error { return x.changes(f) }},
	"usage":     {noKey: true, noSpace: true, cost: read, serve: func(x *exchange, _ *fields) error { return x.usage() }},

	"schemas":        {names: schemasNames, noKey: true, cost: read, serve: func(x *exchange, f *fields) error { return x.listSchemas(f) }},
	"registerSchema": {names: []string{"schema"}, noKey: true, cost: write, conditions: schemaConditions, schema: true, serve: (*exchange).registerSchema},
	"setSchema":      {names: []string{"version", "status"}, noKey: true, cost: write, conditions: schemaConditions, schema: true, serve: (*exchange).setSchemaOf},
}

var errSchemas = &refusal{http.StatusForbidden, codeDenied, "", "the token does not allow writing schemas: it needs the claim schemas, set by ext service-tokens create --schemas", errcode.Denied}

var anyOperation = func() []string {
	names := []string{"operation", "namespace", "key"}
	for _, op := range operations {
		names = append(names, op.names...)
	}
	return names
}()

// patchOf answers a patch in an envelope.
func (x *exchange) patchOf(f *fields) error {
	patch := f.value("patch", x.service.Limits().Value)
	if patch == "" && f.err == nil {
		f.lack("patch", "a JSON merge patch")
	}
	return x.patch(f, patch, "/patch")
}

// Serve implements web.Handler.
func (h *Runner) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	w.Header().Set("Cache-Control", private)
	install, ok := runnerInstall(at.Path)
	if !ok {
		return errRunnerRoute
	}
	if r.Method != http.MethodPost {
		return methodNotAllowed(w, http.MethodPost)
	}
	x := &exchange{in: r, out: w, path: at.Path, service: h.Service, rates: h.Rates, timeout: h.Timeout}
	x.ask.Slot = x
	if err := x.authenticateService(h.Tokens, h.Clock()); err != nil {
		return err
	}
	id, err := ext.ParseInstallID(install)
	if err != nil {
		return errInstall
	}
	x.ask.Grant.Owner.Install = id
	return x.envelope()
}

// authenticateService accepts a service token in X-Runner-Auth or Authorization.
func (x *exchange) authenticateService(tokens *bearer.Keyring, now time.Time) error {
	var c bearer.Claims
	var err error
	if values := x.in.Header.Values("X-Runner-Auth"); len(values) == 1 {
		if c, err = tokens.Verify(values[0], now); err != nil {
			err = unauthenticated(err)
		}
	} else {
		c, err = claims(x.in, tokens, now)
	}
	if err != nil {
		return err
	}
	tenant, service, err := ParseServiceClaims(c.Raw)
	if err != nil {
		return unauthenticated(err)
	}
	x.schemas = mayWriteSchemas(c.Raw)
	web.Identify(x.in, client(tenant))
	x.ask.Grant = ext.Grant{
		Owner: ext.Owner{Tenant: tenant}, Every: ext.Read | ext.Modify,
		Token: ext.Token{ID: c.ID, Service: true, Issued: issued(&c), Ends: c.Ends},
	}
	x.ask.Caller = ext.Caller{Kind: "runner", ID: service}
	if id := x.in.Header.Get("X-Invocation-Id"); id != "" {
		if len(id) > maxInvocation || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			return invalid("/x-invocation-id", "must be 1 to 128 printable ASCII characters without spaces")
		}
		x.ask.Caller.ID = id
	}
	return nil
}

const maxInvocation = 128

// envelope serves a request. It reads the body before charging the rate, because the operation determines the cost.
func (x *exchange) envelope() error {
	if err := x.hasMedia(typeJSON); err != nil {
		return err
	}
	if x.in.URL.RawQuery != "" {
		if _, err := parseQuery(x.in.URL.RawQuery, nil); err != nil {
			return err
		}
	}
	var err error
	if x.body, err = x.readBody(itemsBody); err != nil {
		return err
	}
	f := parseFields(x.body, anyOperation...)
	word := f.text("operation")
	op, ok := operations[word]
	switch words := "put, get, list, delete, bulkPut, patch, increment, batch, changes, usage, schemas, registerSchema or setSchema"; {
	case !f.has("operation"):
		f.lack("operation", words)
	case !ok:
		f.fail("operation", "must be "+words)
	}
	if ok {
		x.in.Pattern = word
	}
	if f.err != nil {
		op.cost = write // unreadable envelopes cost a write
	}
	if err := x.rates.take(x.out, x.ask.Grant.Owner, op.cost); err != nil {
		return err
	}
	if op.schema && !x.schemas {
		return errSchemas
	}
	if x.readPlace(f, &op); f.err != nil {
		return f.err
	}
	if err := op.conditions.Check(x.in.Header); err != nil {
		return err
	}
	if op.stream {
		return op.serve(x, f)
	}
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	return x.within(x.timeout, func() error { return op.serve(x, f) })
}

// readPlace reads namespace and key, as far as the operation takes them.
func (x *exchange) readPlace(f *fields, op *operation) {
	names := slices.Concat([]string{"operation"}, op.names)
	rt := &x.route
	if !op.noSpace {
		f.need("namespace")
		names = append(names, "namespace")
		rt.namespace, rt.hasNamespace = ext.Namespace(f.text("namespace")), true
	}
	if !op.noKey {
		f.need("key")
		names = append(names, "key")
		rt.key, rt.hasKey = ext.Key(f.text("key")), true
	}
	f.only(names)
	if err := x.parsePath(); err != nil {
		f.note(err)
	}
}
