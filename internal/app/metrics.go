package app

import (
	"context"
	"math"
	"os"

	"holdfast/internal/backup"
	"holdfast/internal/certificates"
	"holdfast/internal/db/engine"
	"holdfast/internal/obs"
	"holdfast/internal/sweep"
	"holdfast/internal/web"
)

// observe registers the server's metrics. The values are read when Prometheus asks.
func (a *App) observe() {
	m := a.metrics
	m.Gauge("holdfast_clock_seconds", "Unix time of the server's clock.", func(set obs.Set) {
		set(float64(a.now().UnixMilli()) / 1000)
	})
	m.Gauge("holdfast_ready", "1 if the service is ready, else 0.", a.readReadiness, "service")
	m.Gauge("holdfast_db_connections", "Database connections, by state.", a.eachDatabase(func(d *engine.Database, set obs.Set) {
		active, idle, _ := d.Connections()
		set(float64(active), d.Service, "active")
		set(float64(idle), d.Service, "idle")
	}), "service", "state")
	m.Gauge("holdfast_db_connections_max", "Maximum number of active database connections.", a.eachDatabase(func(d *engine.Database, set obs.Set) {
		_, _, maximum := d.Connections()
		set(float64(maximum), d.Service)
	}), "service")
	m.Total("holdfast_db_connection_waits_total", "Statements that waited for a database connection.", a.eachDatabase(func(d *engine.Database, set obs.Set) {
		n, _ := d.Waits()
		set(float64(n), d.Service)
	}), "service")
	m.Total("holdfast_db_connection_wait_seconds_total", "Time that statements waited for a database connection.", a.eachDatabase(func(d *engine.Database, set obs.Set) {
		_, total := d.Waits()
		set(total.Seconds(), d.Service)
	}), "service")
	m.Gauge("holdfast_db_requests_waiting", "Requests that are waiting for their turn at the database.", func(set obs.Set) {
		for _, s := range a.opened {
			if s.turns != nil {
				set(float64(s.turns.Stats().Waiting), s.Name)
			}
		}
	}, "service")
	m.Gauge("holdfast_backup_age_seconds", "Age of the latest backup, in a folder or at a URL.", func(set obs.Set) {
		if b, err := backup.Read(a.data); err == nil && b != nil {
			set(max(0, a.now().Sub(b.At)).Seconds())
		}
	})
	m.Gauge("holdfast_backup_database_age_seconds", "Age of the newest backup that contains the SQLite database; +Inf: no backup does.", a.readDatabaseAges, "service")
	m.Gauge("holdfast_backup_verified_age_seconds", "Age of the newest backup at backup.url that was restored to verify it, without damage.", func(set obs.Set) {
		if at := backup.NewestVerified(a.data, a.backups.Settings().URL); !at.IsZero() {
			set(max(0, a.now().Sub(at)).Seconds())
		}
	})
	a.observeFiles()
	a.observeGate(a.gate)
	a.observeMemory(a.memory)
	a.refused = m.Counter("holdfast_refusals_total", "Rejected credentials and sign-ins, by reason.", "service", "reason")
}

// readDatabaseAges sets nothing before the first backup, or if a release that recorded no contents made the latest.
func (a *App) readDatabaseAges(set obs.Set) {
	if last, err := backup.Read(a.data); err != nil || last == nil || last.Has == nil {
		return
	}
	all, err := a.backupServer().Databases()
	if err != nil {
		return // holdfast check reports it
	}
	for i := range all {
		switch d := &all[i]; {
		case d.Where == "" || d.IsElsewhere: // the server has no such file
		case d.Newest.IsZero():
			set(math.Inf(1), d.Name)
		default:
			set(max(0, a.now().Sub(d.Newest)).Seconds(), d.Name)
		}
	}
}

// observeFiles registers the metrics about SQLite files.
func (a *App) observeFiles() {
	m := a.metrics
	m.Gauge("holdfast_db_queued_writes", "Writes that are waiting for the writer.", a.eachFile(func(d *engine.Database, set obs.Set) {
		set(float64(d.Queued()), d.Service)
	}), "service")
	m.Gauge("holdfast_db_file_bytes", "Size of the database file and its write-ahead log.", a.eachFile(func(d *engine.Database, set obs.Set) {
		for name, path := range map[string]string{"data": d.Target.Path, "wal": d.Target.Path + "-wal"} {
			if info, err := os.Stat(path); err == nil {
				set(float64(info.Size()), d.Service, name)
			}
		}
	}), "service", "file")
	m.Gauge("holdfast_disk_free_bytes", "Free space on the database file's disk.", a.eachFile(func(d *engine.Database, set obs.Set) {
		if free, _, err := d.Disk(); err == nil {
			set(free, d.Service)
		}
	}), "service")
	m.Gauge("holdfast_disk_size_bytes", "Size of the database file's disk.", a.eachFile(func(d *engine.Database, set obs.Set) {
		if _, size, err := d.Disk(); err == nil {
			set(size, d.Service)
		}
	}), "service")
}

// eachDatabase returns a reader that calls read for each database that is open at the time.
func (a *App) eachDatabase(read func(*engine.Database, obs.Set)) func(obs.Set) {
	return func(set obs.Set) {
		for _, d := range a.databases() {
			read(d, set)
		}
	}
}

// eachFile is eachDatabase for SQLite files.
func (a *App) eachFile(read func(*engine.Database, obs.Set)) func(obs.Set) {
	return a.eachDatabase(func(d *engine.Database, set obs.Set) {
		if d.Embedded() {
			read(d, set)
		}
	})
}

// readReadiness asks all services at each scrape, so that a scrape shows the present state.
func (a *App) readReadiness(set obs.Set) {
	unready := a.unready(context.Background())
	for _, s := range a.opened {
		if unready[s.Name] == nil {
			set(1, s.Name)
		} else {
			set(0, s.Name)
		}
	}
}

// observeGate registers the metrics about slots.
func (a *App) observeGate(g *web.Gate) {
	m := a.metrics
	m.Gauge("holdfast_load", "Active and waiting requests divided by server.max_requests. Above 1, requests wait; at 2, they are rejected.", func(set obs.Set) { set(g.Load()) })
	m.Gauge("holdfast_http_requests", "Requests in progress: active, waiting for a slot, or idle (receiving a body, sending a response, long polling).", func(set obs.Set) {
		c := g.Stats()
		set(float64(c.Active), "active")
		set(float64(c.Waiting), "waiting")
		set(float64(c.Idle), "idle")
	}, "state")
	m.Gauge("holdfast_http_requests_max", "Maximum number of active requests (server.max_requests).", func(set obs.Set) { set(float64(g.Stats().Slots)) })
	m.Total("holdfast_http_requests_shed_total", "Requests rejected with 503 because of overload.", func(set obs.Set) { set(float64(g.Stats().Shed)) })
}

// observeMemory registers the metrics about the budget for request bodies.
func (a *App) observeMemory(b *web.Memory) {
	m := a.metrics
	m.Gauge("holdfast_http_memory_bytes", "Memory charged to requests in progress: bodies, decoded data and responses.", func(set obs.Set) { set(float64(b.Stats().Used)) })
	m.Gauge("holdfast_http_memory_max_bytes", "Maximum memory for requests (server.request_memory).", func(set obs.Set) { set(float64(b.Stats().Capacity)) })
	m.Total("holdfast_http_memory_refused_total", "Requests rejected with 503 because the memory for requests was used up.", func(set obs.Set) { set(float64(b.Stats().Refused)) })
}

// certificateOptions also registers the certificate metrics.
func (a *App) certificateOptions() certificates.Options {
	a.metrics.Gauge("holdfast_tls_certificate_expiry_timestamp_seconds", "Unix time when the main listener's certificate expires.",
		func(set obs.Set) {
			if until := a.certificates.State().Until; until.IsZero() {
				set(0) // no certificate yet
			} else {
				set(float64(until.Unix()))
			}
		})
	renewals := a.metrics.Counter("holdfast_tls_certificate_renewals_total", "New certificates, by outcome: ok, or error for those that could not be obtained or used.", "outcome")
	for _, outcome := range []string{"ok", "error"} {
		renewals.WithLabelValues(outcome)
	}
	return certificates.Options{Clock: a.now, Log: a.log, Observe: func(err error) {
		if err != nil {
			renewals.WithLabelValues("error").Inc()
			return
		}
		renewals.WithLabelValues("ok").Inc()
	}}
}

// observeReplica registers nothing without a replica.
func (a *App) observeReplica() {
	if a.replication == nil {
		return
	}
	m := a.metrics
	m.Gauge("holdfast_replica_lag_seconds", "Longest time acknowledged writes may be missing from the newest restore point in the replica.",
		func(set obs.Set) { set(a.replication.State().Lag.Seconds()) })
	m.Gauge("holdfast_replica_waiting_bytes", "Changes and files that wait to be sent to the replica.",
		func(set obs.Set) { set(float64(a.replication.State().Waiting)) })
	m.Gauge("holdfast_replica_unreadable_files", "Service files that cannot be read and are missing from the replica.",
		func(set obs.Set) { set(float64(a.replication.State().Unreadable)) })
}

// newSweeper returns the sweeper with all jobs; its rounds are shown in metrics and on the page Sweeps.
func (a *App) newSweeper() *sweep.Sweeper {
	return sweep.New(a.jobs(), sweep.Options{Clock: a.now, Log: a.log, Observe: func(job string, rows int, err error) {
		a.metrics.Sweep(job, rows, err, a.now())
		a.overview.Sweeps.Note(job, rows, err, a.now())
	}, ObserveOther: func(job string) {
		a.metrics.SweepElsewhere(job, a.now())
		a.overview.Sweeps.NoteOther(job, a.now())
	}})
}

// sweep runs the jobs until ctx ends. Jobs that the database does itself are left out.
func (a *App) sweep(ctx context.Context) {
	for _, j := range a.jobs() {
		if j.By != "" {
			continue
		}
		a.overview.Sweeps.Expect(j.Name, j.Every, a.now())
		if j.Every > 0 {
			a.metrics.WillSweep(j.Name, j.Every, a.now())
		}
	}
	a.sweeper.Run(ctx)
}

// countRefusals returns the function that names and counts a service's refusals, or nil if it names none.
func (a *App) countRefusals(s *opened) func(error) string {
	if s.Refusals == nil {
		return nil
	}
	return func(err error) string {
		reason := s.Refusals.Reason(err)
		if reason != "" {
			a.refused.WithLabelValues(s.Name, reason).Inc()
		}
		return reason
	}
}
