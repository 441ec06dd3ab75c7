// Package dockerflow serves the main listener's root: a status page, and Mozilla's Dockerflow paths, which monitoring
// and load balancers for sync servers request.
package dockerflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

// Handler serves the root for any set of services, and 404 for other paths.
type Handler struct {
	Version Version // answered at /__version__

	Ping func(context.Context) error // checks the database; nil: not reported

	Quota func() Quota // of sync storage; nil: not reported

	Pool func() Pool // database connections; nil: /__lbheartbeat__ always succeeds

	Root web.Handler // serves /
}

// Quota is the user quota in /__heartbeat__.
type Quota struct {
	Enabled bool  `json:"enabled"` // users have a quota
	Size    int64 `json:"size"`    // bytes
	User    int64 `json:"user_size,omitempty"`
}

// Version is the answer that Dockerflow requires for /__version__.
type Version struct {
	Source  string `json:"source"`  // URL of the source code
	Version string `json:"version"` // of the release
	Commit  string `json:"commit"`  // Git hash
	Build   string `json:"build"`   // URL or name of the build
}

// Pool is how a database's connections are used now. Max is the limit.
type Pool struct {
	Active, Idle, Max int
}

// pingTimeout is short because monitoring does not wait much longer.
const pingTimeout = 5 * time.Second

// Serve is a web.Handler.
func (d *Handler) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	if at.Err != nil {
		return at.Err
	}
	act := d.action(at.Path)
	if act == nil {
		return errRoute
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return errMethod
	}
	return act(w, r, at)
}

// action returns a path's handler, or nil.
func (d *Handler) action(path string) web.Handler {
	switch path {
	case "/":
		return d.Root
	case "/__heartbeat__":
		return d.heartbeat
	case "/__lbheartbeat__":
		return d.lbHeartbeat
	case "/__version__":
		return d.version
	}
	return nil
}

// heartbeat reports whether the database answers, with 200 or 503.
func (d *Handler) heartbeat(w http.ResponseWriter, r *http.Request, _ web.Address) error {
	health := struct {
		Version  string `json:"version"`
		Quota    *Quota `json:"quota,omitempty"`
		Database string `json:"database,omitempty"`
		Status   string `json:"status"`
	}{Version: d.Version.Version, Status: "Ok"}
	if d.Quota != nil {
		quota := d.Quota()
		health.Quota = &quota
	}
	status := http.StatusOK
	if d.Ping != nil {
		health.Database = "Ok"
		ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
		defer cancel()
		if err := d.Ping(ctx); err != nil {
			health.Database, health.Status = "Err", "Err"
			status = http.StatusServiceUnavailable
		}
	}
	return sendValue(w, status, health)
}

// lbHeartbeat fails while all database connections are in use, because the server cannot process a request then.
func (d *Handler) lbHeartbeat(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
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

func (d *Handler) version(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
	return sendValue(w, http.StatusOK, d.Version)
}

// sendValue sends a value as JSON.
func sendValue(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	web.SendJSONLine(w, status, body)
	return nil
}

var (
	errRoute  = errcode.New(errcode.NotFound, "no such path")
	errMethod = errcode.New(errcode.Invalid, "method not allowed")
)

// Label returns a path's route for logs and metrics.
func Label(path string) string {
	switch path {
	case "/", "/__heartbeat__", "/__lbheartbeat__", "/__version__":
		return path
	}
	return "other"
}

// Routes lists the paths with their methods.
func Routes() (all []web.Route) {
	for _, path := range []string{"/", "/__heartbeat__", "/__lbheartbeat__", "/__version__"} {
		all = append(all, web.Route{Label: path, Method: http.MethodGet}, web.Route{Label: path, Method: http.MethodHead})
	}
	return all
}

// WriteError writes an error as the sync protocol does: as an integer.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	const codeMethod = 1
	status, code := http.StatusInternalServerError, 0
	switch {
	case errors.Is(err, errMethod):
		status, code = http.StatusMethodNotAllowed, codeMethod
	case errcode.Is(err, errcode.NotFound):
		status = http.StatusNotFound
	case errcode.Is(err, errcode.Invalid):
		status = http.StatusBadRequest
	case errcode.Is(err, errcode.Unavailable):
		status = http.StatusServiceUnavailable
		if w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", "10")
		}
	}
	web.SendJSON(w, status, strconv.AppendInt(nil, int64(code), 10))
}
