package app

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/sweep"
	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
)

// tell hands a value to Prometheus, with those of the metric's labels.
type tell = func(value float64, labels ...string)

// observe registers what is looked at when Prometheus asks. It is called when
// the rooms are open. docs/monitoring.md tells what each metric is for.
func (a *App) observe() {
	m := a.metrics
	m.Gauge("holdfast_clock_seconds", "The server's clock, in Unix time.", func(tell tell) {
		tell(float64(a.now().UnixMilli()) / 1000)
	})
	m.Gauge("holdfast_ready", "1 when a room can serve, 0 otherwise.", a.readReadiness, "room")
	m.Gauge("holdfast_db_connections", "Connections to a room's database, by what they do.", a.eachDatabase(func(d *database, tell tell) {
		active, idle, _ := d.connections()
		tell(float64(active), d.room, "active")
		tell(float64(idle), d.room, "idle")
	}), "room", "state")
	m.Gauge("holdfast_db_connections_max", "Most connections to a room's database that may be active at once.", a.eachDatabase(func(d *database, tell tell) {
		_, _, most := d.connections()
		tell(float64(most), d.room)
	}), "room")
	m.Total("holdfast_db_connection_waits_total", "Steps that waited for a connection.", a.eachDatabase(func(d *database, tell tell) {
		n, _ := d.waits()
		tell(float64(n), d.room)
	}), "room")
	m.Total("holdfast_db_connection_wait_seconds_total", "Time that steps waited for a connection.", a.eachDatabase(func(d *database, tell tell) {
		_, total := d.waits()
		tell(total.Seconds(), d.room)
	}), "room")
	a.observeFiles()
	a.observeRefusals()
}

// observeFiles registers what only embedded databases have.
func (a *App) observeFiles() {
	m := a.metrics
	m.Gauge("holdfast_db_queue_steps", "Writes that wait for their turn.", a.eachFile(func(d *database, tell tell) {
		tell(float64(d.queued()), d.room)
	}), "room")
	m.Gauge("holdfast_db_file_bytes", "Size of a room's file and of its write-ahead log.", a.eachFile(func(d *database, tell tell) {
		for name, path := range map[string]string{"data": d.file, "wal": d.file + "-wal"} {
			if info, err := os.Stat(path); err == nil {
				tell(float64(info.Size()), d.room, name)
			}
		}
	}), "room", "file")
	m.Gauge("holdfast_disk_free_bytes", "What is left on the disk of a room's file.", a.eachFile(func(d *database, tell tell) {
		if free, _, err := diskSpace(filepath.Dir(d.file)); err == nil {
			tell(free, d.room)
		}
	}), "room")
	m.Gauge("holdfast_disk_size_bytes", "Size of the disk of a room's file.", a.eachFile(func(d *database, tell tell) {
		if _, size, err := diskSpace(filepath.Dir(d.file)); err == nil {
			tell(size, d.room)
		}
	}), "room")
}

// eachDatabase reads a metric of every database.
func (a *App) eachDatabase(read func(*database, tell)) func(tell) {
	return func(tell tell) {
		for _, d := range a.databases {
			read(d, tell)
		}
	}
}

// eachFile reads a metric of every embedded database.
func (a *App) eachFile(read func(*database, tell)) func(tell) {
	return a.eachDatabase(func(d *database, tell tell) {
		if d.file != "" {
			read(d, tell)
		}
	})
}

func (a *App) readReadiness(tell tell) {
	unready := a.unready(context.Background())
	for _, c := range a.checks {
		if unready[c.room] == nil {
			tell(1, c.room)
		} else {
			tell(0, c.room)
		}
	}
}

// observeGate registers what is under way at the main listener.
func (a *App) observeGate(g *web.Gate) {
	m := a.metrics
	m.Gauge("holdfast_load", "Share of server.max_requests that is in use; over 1 requests wait.", func(tell tell) { tell(g.Load()) })
	m.Gauge("holdfast_http_requests", "Requests under way, by whether they are worked on or wait for that.", func(tell tell) {
		c := g.Crowd()
		tell(float64(c.Inside), "active")
		tell(float64(c.Waiting), "waiting")
	}, "state")
	m.Gauge("holdfast_http_requests_max", "Most requests that are worked on at once.", func(tell tell) { tell(float64(g.Crowd().Places)) })
	m.Total("holdfast_http_requests_shed_total", "Requests that were turned away because too much was under way.", func(tell tell) { tell(float64(g.Crowd().Shed)) })
}

// observeCertificate registers when the server's own certificate runs out.
func (a *App) observeCertificate(until time.Time) {
	a.metrics.Gauge("holdfast_tls_certificate_expiry_timestamp_seconds", "When the certificate of the main listener runs out.",
		func(tell tell) { tell(float64(until.Unix())) })
}

// sweep runs the jobs until ctx ends.
func (a *App) sweep(ctx context.Context) {
	for _, j := range a.jobs {
		if j.Every > 0 {
			a.metrics.WillSweep(j.Name, j.Every, a.now())
		}
	}
	sweep.Run(ctx, a.jobs, sweep.Options{Clock: a.now, Log: a.log, Observe: func(job string, rows int, err error) {
		a.metrics.Sweep(job, rows, err, a.now())
	}})
}

// refusals name why a client is not let in, or not served, where the status
// alone does not tell what an operator would do about it.
var refusals = []struct {
	room   string
	err    error
	reason string
}{
	{syncRoom, hawk.ErrMAC, "hawk-mac"},
	{syncRoom, hawk.ErrSkew, "hawk-clock"},
	{syncRoom, hawk.ErrPayload, "hawk-payload"},
	{syncRoom, hawk.ErrMalformed, "hawk-malformed"},
	{syncRoom, tokenlib.ErrExpired, "token-expired"},
	{syncRoom, tokenlib.ErrSignature, "token-signature"},
	{syncRoom, tokenlib.ErrMalformed, "token-malformed"},
	{extRoom, bearer.ErrExpired, "bearer-expired"},
	{extRoom, bearer.ErrSignature, "bearer-signature"},
	{extRoom, bearer.ErrMalformed, "bearer-malformed"},
	{extRoom, bearer.ErrNotYet, "bearer-clock"},
	{extRoom, bearer.ErrForeign, "bearer-foreign"},
	{extRoom, ext.ErrRevoked, "install-revoked"},
	{tokenRoom, tokenserver.ErrAccountsAway, "accounts-server-away"},
	{tokenRoom, tokenserver.ErrNoNode, "no-node"},
}

// refusal is the reason of an error, "" when it is none of these.
func refusal(room string, err error) string {
	if r, ok := errors.AsType[*tokenserver.Refusal](err); ok { // first: what is below it is only its cause
		return r.Reason.String()
	}
	for _, r := range refusals {
		if r.room == room && errors.Is(err, r.err) {
			return r.reason
		}
	}
	return ""
}

// observeRefusals makes the counter of requests that are not let in.
func (a *App) observeRefusals() {
	a.refused = a.metrics.Counter("holdfast_refusals_total", "Requests that were not let in, by what was wrong.", "room", "reason")
	for _, r := range refusals {
		a.refused.WithLabelValues(r.room, r.reason)
	}
	for r := tokenserver.BadCredentials; r <= tokenserver.NotAdmitted; r++ {
		a.refused.WithLabelValues(tokenRoom, r.String())
	}
}

// countRefusals is the error writer of a room that also counts.
func (a *App) countRefusals(room string, write web.ErrorWriter) web.ErrorWriter {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		if reason := refusal(room, err); reason != "" {
			a.refused.WithLabelValues(room, reason).Inc()
		}
		write(w, r, err)
	}
}
