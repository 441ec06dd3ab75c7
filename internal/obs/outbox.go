package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// outboxes are the metrics of all relays.
type outboxes struct {
	events, failures      *prometheus.CounterVec
	delay                 *prometheus.HistogramVec
	dead, backlog, oldest *prometheus.GaugeVec
}

func (o *outboxes) register(r *prometheus.Registry) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"service"})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"service"})
	}
	o.events = counter("holdfast_outbox_events_total", "Events published.")
	o.failures = counter("holdfast_outbox_failures_total", "Failed attempts to publish events.")
	o.delay = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_outbox_delay_seconds", Help: "Age of the oldest event in each published batch.", Buckets: requestBuckets,
	}, []string{"service"})
	o.dead = gauge("holdfast_outbox_dead_events", "Events set aside because the sink rejects them.")
	o.backlog = gauge("holdfast_outbox_waiting_events", "Events that are not published yet, at most a million.")
	o.oldest = gauge("holdfast_outbox_oldest_event_seconds", "Age of the oldest event that is not published yet.")
	r.MustRegister(o.events, o.failures, o.delay, o.dead, o.backlog, o.oldest)
}

// Outbox observes a service's relay; see outbox.Options.
type Outbox struct {
	all     *outboxes
	service string
}

// Outbox returns the observer for a service's relay, whose series begin at 0.
func (m *Metrics) Outbox(service string) *Outbox {
	m.outboxes.events.WithLabelValues(service)
	m.outboxes.failures.WithLabelValues(service)
	m.outboxes.dead.WithLabelValues(service)
	return &Outbox{&m.outboxes, service}
}

// Pass observes a published batch and the age of its oldest event, or a failure.
func (o *Outbox) Pass(published int, late time.Duration, err error) {
	if err != nil {
		o.all.failures.WithLabelValues(o.service).Inc()
		return
	}
	o.all.events.WithLabelValues(o.service).Add(float64(published))
	o.all.delay.WithLabelValues(o.service).Observe(late.Seconds())
}

// Dead observes the number of dead letters.
func (o *Outbox) Dead(n int) { o.all.dead.WithLabelValues(o.service).Set(float64(n)) }

// Backlog observes the number of unpublished events, and how old the oldest is.
func (o *Outbox) Backlog(n int, age time.Duration) {
	o.all.backlog.WithLabelValues(o.service).Set(float64(n))
	o.all.oldest.WithLabelValues(o.service).Set(max(age, 0).Seconds())
}
