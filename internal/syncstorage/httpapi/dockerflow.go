package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// Dockerflow serves what monitors and load balancers ask at the root of a sync
// server, and what a person sees who opens it in a browser. It is there
// whichever rooms are on, and answers other paths with 404.
type Dockerflow struct {
	Version Version
	Log     *slog.Logger

	// Address says where a request arrived, as for Handler.
	Address func(*http.Request) (web.Address, error)

	// Ping reaches the databases of the rooms that are on; nil when none is.
	Ping func(context.Context) error

	// Quota is that of the storage room; nil when it is off.
	Quota *ss.Quota

	// Pool is the state of the connections to the storage room's database; nil
	// when it is off or its engine has no pool that can run out.
	Pool func() Pool

	// DocumentsLink is where a browser is sent.
	DocumentsLink string
}

// Version says which build this is, as /__version__ answers it.
type Version struct {
	Source  string `json:"source"` // URL of the repository
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Build   string `json:"build"` // URL of the job that built it
}

// Pool is the state of a pool of connections.
type Pool struct {
	Active, Idle, Max int
}

// pingTimeout is when a database that does not answer counts as away: monitors
// do not wait much longer themselves.
const pingTimeout = 5 * time.Second

// Serve is a web.Handler; its web.ErrorWriter is WriteError.
func (d *Dockerflow) Serve(w http.ResponseWriter, r *http.Request) error {
	at, err := d.Address(r)
	if err != nil {
		return err
	}
	act := d.action(at.Path)
	if act == nil {
		return errRoute
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return errMethod
	}
	return act(w, r)
}

func (d *Dockerflow) action(path string) web.Handler {
	switch path {
	case "/":
		return d.documents
	case "/__heartbeat__":
		return d.heartbeat
	case "/__lbheartbeat__":
		return d.lbHeartbeat
	case "/__version__":
		return d.version
	case "/__error__":
		return failOnPurpose
	}
	return nil
}

// heartbeat says whether the server can do its work.
func (d *Dockerflow) heartbeat(w http.ResponseWriter, r *http.Request) error {
	type quota struct {
		Enabled bool  `json:"enabled"`
		Size    int64 `json:"size"` // bytes
	}
	health := struct {
		Version  string `json:"version"`
		Quota    *quota `json:"quota,omitempty"`
		Database string `json:"database,omitempty"`
		Status   string `json:"status"`
	}{Version: d.Version.Version, Status: "Ok"}
	status := http.StatusOK
	if d.Quota != nil {
		health.Quota = &quota{d.Quota.Limit > 0, d.Quota.Limit}
	}
	if d.Ping != nil {
		health.Database = "Ok"
		ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
		defer cancel()
		if err := d.Ping(ctx); err != nil {
			d.Log.WarnContext(ctx, "the heartbeat found a database away", "error", err)
			health.Database, health.Status = "Err", "Err"
			status = http.StatusServiceUnavailable
		}
	}
	return sendValue(w, status, health)
}

// lbHeartbeat says whether the server can take another request: with all
// connections to its database in use it would only wait.
func (d *Dockerflow) lbHeartbeat(w http.ResponseWriter, _ *http.Request) error {
	if d.Pool == nil {
		return sendValue(w, http.StatusOK, struct{}{})
	}
	p, status := d.Pool(), http.StatusOK
	if p.Idle == 0 && p.Active >= p.Max {
		status = http.StatusInternalServerError
	}
	return sendValue(w, status, struct {
		Active int `json:"active_connections"`
		Idle   int `json:"idle_connections"`
	}{p.Active, p.Idle})
}

func (d *Dockerflow) version(w http.ResponseWriter, _ *http.Request) error {
	return sendValue(w, http.StatusOK, d.Version)
}

// failOnPurpose lets an operator see that failures reach the log and the metrics.
func failOnPurpose(http.ResponseWriter, *http.Request) error {
	return fault.New(fault.Internal, "a failure that somebody asked for")
}

func (d *Dockerflow) documents(w http.ResponseWriter, _ *http.Request) error {
	if d.DocumentsLink == "" {
		return errRoute
	}
	w.Header().Set("Location", d.DocumentsLink)
	w.WriteHeader(http.StatusFound)
	return nil
}

func sendValue(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	sendJSON(w, status, body)
	return nil
}
