package ext

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/extstorage/httpapi"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/extstorage/schemas"
	"holdfast/internal/jsonschema"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

// metrics are the service's metrics. No label names a tenant or an install.
type metrics struct {
	ops      *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	invalid  *prometheus.CounterVec
	installs *inspection.Service
	now      clock.Clock
	// inflight is the number of requests in progress, and swept the rows that sweeps deleted.
	inflight atomic.Int64
	swept    atomic.Int64

	mu sync.Mutex
	// totals are from the time asked, and valid if known. The same holds for near.
	totals inspection.Totals
	asked  time.Time
	known  bool

	near      inspection.NearQuota
	nearAsked time.Time
	nearKnown bool
}

// observe registers all metrics, with each label value that may occur, so that they show 0 at first. The gauges read
// the database when they are scraped, but not more often than totalsAge and nearAge.
func observe(m *obs.Metrics, installs *inspection.Service, now clock.Clock) *metrics {
	r := &metrics{
		installs: installs, now: now,

		ops:     m.Counter("storage_host_ops_total", "Extension storage operations, by result.", "operation", "result"),
		latency: m.Histogram("storage_host_latency_seconds", "Duration of extension storage operations.", "operation"),
		errors:  m.Counter("storage_host_errors_total", "Extension storage error responses, by code.", "code"),
		invalid: m.Counter("storage_validation_failures_total", "Error responses with VALIDATION_FAILED."),
	}
	for _, operation := range operations {
		r.ops.WithLabelValues(operation, "ok")
		r.latency.WithLabelValues(operation)
	}
	for _, code := range []string{
		"UNAUTHENTICATED", "UNAUTHORIZED", "INSTALL_DELETED", "NAMESPACE_DENIED", "NOT_FOUND", "REVISION_MISMATCH", codeInvalid, "LIMIT_EXCEEDED",
		"QUOTA_EXCEEDED", "RATE_LIMITED", "CHANGES_EXPIRED", "UNAVAILABLE", "INTERNAL_ERROR",
	} {
		r.errors.WithLabelValues(code)
	}
	m.Gauge("storage_host_inflight_requests", "Requests to extension storage in progress.", func(set obs.Set) { set(float64(r.inflight.Load())) })
	m.Total("ttl_cleanup_deletes_total", "Rows removed by the extension storage sweep.", func(set obs.Set) { set(float64(r.swept.Load())) })
	for _, g := range []struct {
		name, help string
		of         func(*inspection.Totals) int64
	}{
		{"storage_quota_usage_bytes", "Bytes stored in all installs, as counted for quotas.", func(t *inspection.Totals) int64 { return t.Bytes }},
		{"storage_namespace_keys", "Keys in all namespaces.", func(t *inspection.Totals) int64 { return t.Keys }},
		{"storage_namespaces", "Namespaces with at least one key.", func(t *inspection.Totals) int64 { return t.Namespaces }},
		{"storage_installs", "Installs that ever stored a record.", func(t *inspection.Totals) int64 { return t.Installs }},
		{"storage_tenants_over_soft_limit", "Tenants whose installs store more than 2 GiB together.", func(t *inspection.Totals) int64 { return t.TenantsOverSoft }},
		{"ttl_expired_rows_pending", "Expired records not removed yet, counted up to 10000.", func(t *inspection.Totals) int64 { return t.ExpiredPending }},
	} {
		m.Gauge(g.name, g.help, func(set obs.Set) {
			if t, known := r.total(); known {
				set(float64(g.of(&t)))
			}
		})
	}
	m.Gauge("storage_installs_near_quota", "Installs that use at least this percentage of a quota.", func(set obs.Set) {
		near, known := r.nearQuota()
		if !known {
			return
		}
		for i, percent := range inspection.NearPercents {
			for _, of := range []struct {
				quota string
				n     int64
			}{{"bytes", near.Bytes[i]}, {"namespaces", near.Namespaces[i]}, {"keys", near.Keys[i]}} {
				set(float64(of.n), of.quota, strconv.FormatInt(percent, 10))
			}
		}
	}, "quota", "percent")
	return r
}

// observeSchemas registers the metrics of the cache with compiled schemas.
func observeSchemas(m *obs.Metrics, v *schemas.Validator) {
	of := func(value func(jsonschema.CacheStats) float64) func(obs.Set) {
		return func(set obs.Set) { set(value(v.Cache())) }
	}
	m.Gauge("storage_schema_cache_bytes", "Memory used by compiled schemas.", of(func(c jsonschema.CacheStats) float64 { return float64(c.Bytes) }))
	m.Gauge("storage_schema_cache_capacity_bytes", "Maximum memory for compiled schemas (extstorage.schema_memory).", of(func(c jsonschema.CacheStats) float64 { return float64(c.Capacity) }))
	m.Gauge("storage_schema_cache_schemas", "Compiled schemas in memory.", of(func(c jsonschema.CacheStats) float64 { return float64(c.Schemas) }))
	m.Total("storage_schema_cache_evictions_total", "Compiled schemas evicted from memory.", of(func(c jsonschema.CacheStats) float64 { return float64(c.Evictions) }))
}

// codeInvalid is the protocol's error code with a counter of its own.
const codeInvalid = "VALIDATION_FAILED"

// totalsAge limits the age of the totals; reading them scans all usage rows.
const totalsAge = time.Minute

// total reads the totals if they are old. After an error it returns false until they can be read again, and does not
// try more often.
func (m *metrics) total() (inspection.Totals, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A clock that was set back must not keep old totals.
	if now := m.now(); m.asked.IsZero() || now.Sub(m.asked) >= totalsAge || now.Before(m.asked) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		t, err := m.installs.Totals(ctx)
		m.totals, m.asked, m.known = t, now, err == nil
	}
	return m.totals, m.known
}

// nearAge limits the age of the near-quota counts; reading them scans all namespaces.
const nearAge = 5 * time.Minute

// nearQuota is total for the installs near a quota.
func (m *metrics) nearQuota() (inspection.NearQuota, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); m.nearAsked.IsZero() || now.Sub(m.nearAsked) >= nearAge || now.Before(m.nearAsked) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		near, err := m.installs.NearQuota(ctx)
		m.near, m.nearAsked, m.nearKnown = near, now, err == nil
	}
	return m.near, m.nearKnown
}

// countSwept counts the rows that a sweep deletes, also before an error.
func (m *metrics) countSwept(sweep func(context.Context, time.Time, int) (int, error)) func(context.Context, time.Time, int) (int, error) {
	return func(ctx context.Context, now time.Time, limit int) (int, error) {
		n, err := sweep(ctx, now, limit)
		m.swept.Add(int64(n))
		return n, err
	}
}

// count counts requests and their durations by operation. named returns the operation of a request.
func (m *metrics) count(serve web.Handler, named func(*http.Request, web.Address) string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request, at web.Address) error {
		m.inflight.Add(1)
		defer m.inflight.Add(-1)
		start := time.Now()
		err := serve(w, r, at)
		operation := named(r, at)
		m.ops.WithLabelValues(operation, resultOf(r, err)).Inc()
		m.latency.WithLabelValues(operation).Observe(time.Since(start).Seconds())
		return err
	}
}

// resultOf returns the result label. "left" means that the client disconnected, "refused" that the request was the
// client's mistake.
func resultOf(r *http.Request, err error) string {
	switch {
	case err == nil:
		return "ok"
	case r.Context().Err() != nil:
		return "left"
	case errcode.Is(err, errcode.Internal) || errcode.Is(err, errcode.Unavailable):
		return "failed"
	}
	return "refused"
}

// countErrors counts error responses by the protocol's code.
func (m *metrics) countErrors(write web.ErrorWriter) web.ErrorWriter {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		code := httpapi.CodeOf(err)
		m.errors.WithLabelValues(code).Inc()
		if code == codeInvalid {
			m.invalid.WithLabelValues().Inc()
		}
		write(w, r, err)
	}
}

// operations are the values of the label operation.
var operations = []string{
	"put", "get", "list", "delete", "bulkPut", "patch", "increment", "batch", "changes", "usage", "namespaces",
	"schemas", "registerSchema", "setSchema", "checkSchema", "export", "import", "other",
}

// clientOperation names the operation of a client's request.
func clientOperation(r *http.Request, at web.Address) string {
	return operationOf(httpapi.Label(at.Path), r.Method)
}

// operationOf returns a value in operations for the route that httpapi.Label returns.
func operationOf(route, method string) string {
	switch route + " " + method {
	case "record PUT":
		return "put"
	case "record GET", "record HEAD":
		return "get"
	case "record DELETE":
		return "delete"
	case "record PATCH":
		return "patch"
	case "records GET":
		return "list"
	case "records POST":
		return "bulkPut"
	case "schemas GET", "schema GET":
		return "schemas"
	case "schemas POST":
		return "registerSchema"
	case "schema PATCH":
		return "setSchema"
	case "schemas/check POST":
		return "checkSchema"
	}
	if slices.Contains([]string{"increment", "batch", "changes", "usage", "namespaces", "export", "import"}, route) {
		return route
	}
	return "other" // public documents and unknown paths
}

// runnerOperation names the operation of a service's request on the internal listener, by its route.
func runnerOperation(r *http.Request, _ web.Address) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	return "other"
}
