package obs

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdfast/internal/fault"
)

// Metrics is what the server counts of itself. Labels are of small fixed sets;
// no user, path or id is among them.
type Metrics struct {
	Registry *prometheus.Registry

	requests   *prometheus.HistogramVec
	statements *prometheus.HistogramVec
	swept      *prometheus.CounterVec
	sweeps     *prometheus.CounterVec
}

// requestBuckets reach from an answer out of memory to a large download.
var requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}

// statementBuckets reach from a point read to a statement that waits for a lock.
var statementBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5, 30}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics(version, commit string) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_http_request_duration_seconds", Help: "Time to answer a request.", Buckets: requestBuckets,
		}, []string{"room", "route", "method", "status"}),
		statements: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_db_statement_duration_seconds", Help: "Time of a database step, waiting for its turn included.", Buckets: statementBuckets,
		}, []string{"room", "engine", "statement", "outcome"}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_sweep_rows_total", Help: "Rows that a sweep removed.",
		}, []string{"job"}),
		sweeps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_sweep_rounds_total", Help: "Rounds of a sweep.",
		}, []string{"job", "outcome"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdfast_build_info", Help: "Always 1; which build this is.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit},
	})
	build.Set(1)
	m.Registry.MustRegister(m.requests, m.statements, m.swept, m.sweeps, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request observes an answered request.
func (m *Metrics) Request(room, route, method string, status int, d time.Duration) {
	m.requests.WithLabelValues(room, route, method, strconv.Itoa(status)).Observe(d.Seconds())
}

// Database returns an observer of the steps of a room on an engine; their names
// are those that the backend gives its statements.
func (m *Metrics) Database(room, engine string) func(statement string, d time.Duration, err error) {
	mine := m.statements.MustCurryWith(prometheus.Labels{"room": room, "engine": engine})
	return func(statement string, d time.Duration, err error) {
		mine.WithLabelValues(statement, outcome(err)).Observe(d.Seconds())
	}
}

// Sweep observes a round of a sweep.
func (m *Metrics) Sweep(job string, rows int, err error) {
	m.swept.WithLabelValues(job).Add(float64(rows))
	m.sweeps.WithLabelValues(job, outcome(err)).Inc()
}

// Counter registers a counter of a room, with or without labels.
func (m *Metrics) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.Registry.MustRegister(c)
	return c
}

// Gauge registers a gauge that is asked for its value.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{Registry: m.Registry})
}

// outcome is a label for an error: "ok" or its fault code.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return fault.CodeOf(err).String()
}
