package obs

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdfast/internal/errcode"
)

// Metrics are the server's metrics. Labels have small fixed sets of values, without users, paths or IDs. Prometheus
// reserves the names job and instance.
type Metrics struct {
	Registry *prometheus.Registry // for metrics that other packages register

	requests    *prometheus.HistogramVec
	statements  *prometheus.HistogramVec
	ran         atomic.Int64 // statements since the start
	onStatement atomic.Pointer[func(service, statement string)]
	swept       *prometheus.CounterVec
	sweeps      *prometheus.CounterVec
	sweptAt     *prometheus.GaugeVec
	sweepEvery  *prometheus.GaugeVec
	groups      *prometheus.HistogramVec
	groupWaits  *prometheus.HistogramVec
	commits     *prometheus.HistogramVec
	outboxes    outboxes
	traffic     traffic
}

// These are histogram buckets in seconds: for requests, for statements, and for waits within the process.
var requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}

var statementBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5, 30}

var engineBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5}

// NewMetrics returns metrics with their own registry.
func NewMetrics(version, commit string) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_http_request_duration_seconds", Help: "Duration of HTTP requests.", Buckets: requestBuckets,
		}, []string{"service", "route", "method", "status"}),
		statements: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_db_statement_duration_seconds", Help: "Duration of database statements and transactions, including the wait for a connection.", Buckets: statementBuckets,
		}, []string{"service", "engine", "statement", "outcome"}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_sweep_rows_total", Help: "Rows removed by sweeps.",
		}, []string{"sweep"}),
		sweeps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_sweep_rounds_total", Help: "Sweep rounds.",
		}, []string{"sweep", "outcome"}),
		sweptAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_sweep_last_success_timestamp_seconds", Help: "Unix time of a sweep's last successful round, in this or another process, or of the server start.",
		}, []string{"sweep"}),
		sweepEvery: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_sweep_interval_seconds", Help: "Interval between the rounds of a sweep.",
		}, []string{"sweep"}),
		groups: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_db_group_writes", Help: "Writes per commit.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
		}, []string{"service"}),
		groupWaits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_db_group_wait_seconds", Help: "Time that the first write of a group waited for its turn.", Buckets: engineBuckets,
		}, []string{"service"}),
		commits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_db_commit_duration_seconds", Help: "Duration of commits.", Buckets: engineBuckets,
		}, []string{"service"}),
	}
	m.outboxes.register(m.Registry)
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdfast_build_info", Help: "Always 1. The labels describe the build.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit},
	})
	build.Set(1)
	m.Registry.MustRegister(m.requests, m.statements, m.swept, m.sweeps, m.sweptAt, m.sweepEvery, m.groups, m.groupWaits, m.commits, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request observes a client's request. It is a web.Options.Observe.
func (m *Metrics) Request(service, route, method string, status int, d time.Duration) {
	m.OperatorRequest(service, route, method, status, d)
	m.traffic.add(status, d)
}

// OperatorRequest observes an operator's request, which does not count as Traffic.
func (m *Metrics) OperatorRequest(service, route, method string, status int, d time.Duration) {
	m.requests.WithLabelValues(service, route, method, strconv.Itoa(status)).Observe(d.Seconds())
}

// Statements returns how many statements all databases ran since the start.
func (m *Metrics) Statements() int64 { return m.ran.Load() }

// OnStatement lets fn see each statement. For tests.
func (m *Metrics) OnStatement(fn func(service, statement string)) { m.onStatement.Store(&fn) }

// Database returns a function that observes a service's statements, for an engine's Options.Observe.
func (m *Metrics) Database(service, engine string) func(statement string, d time.Duration, err error) {
	mine := m.statements.MustCurryWith(prometheus.Labels{"service": service, "engine": engine})
	return func(statement string, d time.Duration, err error) {
		m.ran.Add(1)
		if fn := m.onStatement.Load(); fn != nil {
			(*fn)(service, statement)
		}
		mine.WithLabelValues(statement, outcome(err)).Observe(d.Seconds())
	}
}

// Groups observes a service's SQLite commits: the number of writes, the wait of the first write, and the commit's
// duration (0 if nothing was committed).
func (m *Metrics) Groups(service string) func(steps int, wait, commit time.Duration) {
	groups, waits, commits := m.groups.WithLabelValues(service), m.groupWaits.WithLabelValues(service), m.commits.WithLabelValues(service)
	return func(steps int, wait, commit time.Duration) {
		groups.Observe(float64(steps))
		waits.Observe(wait.Seconds())
		if commit > 0 {
			commits.Observe(commit.Seconds())
		}
	}
}

// WillSweep announces a job, so that its metrics exist before the first round.
func (m *Metrics) WillSweep(job string, every time.Duration, now time.Time) {
	m.sweepEvery.WithLabelValues(job).Set(every.Seconds())
	m.sweptAt.WithLabelValues(job).Set(seconds(now))
}

// Sweep observes a round; see sweep.Options.Observe.
func (m *Metrics) Sweep(job string, rows int, err error, now time.Time) {
	m.swept.WithLabelValues(job).Add(float64(rows))
	m.sweeps.WithLabelValues(job, outcome(err)).Inc()
	if err == nil {
		m.sweptAt.WithLabelValues(job).Set(seconds(now))
	}
}

// SweepElsewhere observes another process's round.
func (m *Metrics) SweepElsewhere(job string, now time.Time) {
	m.sweptAt.WithLabelValues(job).Set(seconds(now))
}

// seconds returns a time as Prometheus stores it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Counter registers a service's counter. Create its series at 0: Prometheus misses the increase in a series that
// begins at 1.
func (m *Metrics) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.Registry.MustRegister(c)
	if len(labels) == 0 {
		c.WithLabelValues()
	}
	return c
}

// Histogram's buckets are in seconds, from memory access to a long wait.
func (m *Metrics) Histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: requestBuckets}, labels)
	m.Registry.MustRegister(h)
	if len(labels) == 0 {
		h.WithLabelValues()
	}
	return h
}

// Gauge registers a value that read returns when metrics are collected. read must be fast and safe for concurrent
// use.
func (m *Metrics) Gauge(name, help string, read Reading, labels ...string) {
	m.Registry.MustRegister(&asked{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, read})
}

// Total is like Gauge, for values that only grow.
func (m *Metrics) Total(name, help string, read Reading, labels ...string) {
	m.Registry.MustRegister(&asked{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, read})
}

// Reading calls its argument for each series, with the value and the labels.
type Reading func(Set)

// Set adds a series; labels are in the order of the names at registration.
type Set = func(value float64, labels ...string)

// asked is a collector that asks a Reading.
type asked struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read Reading
}

func (a *asked) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

func (a *asked) Collect(ch chan<- prometheus.Metric) {
	a.read(func(value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(a.desc, a.kind, value, labels...)
	})
}

// Handler serves the metrics in Prometheus's format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{Registry: m.Registry})
}

// outcome is the label for an error: "ok" or its errcode.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return errcode.Of(err).String()
}
