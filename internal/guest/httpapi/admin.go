package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/inbox"
	"holdfast/internal/outbox"
	"holdfast/internal/web"
)

// Admin serves events, retention jobs and erasure on the admin listener, which has already
// checked the admin token.
type Admin struct {
	Service   *guest.Service
	Retention *guest.Retention
}

// adminPaths are the beginnings of the paths of Admin.
var adminPaths = []string{"/guest/outbox", "/guest/dead-letters", "/guest/quarantine", "/guest/refusals", "/guest/jobs", "/guest/sessions"}

// AdminPaths are the templates of the paths of Admin.
var AdminPaths = []string{
	"/guest/outbox", "/guest/dead-letters", "/guest/dead-letters/retry", "/guest/dead-letters/EVENT", "/guest/dead-letters/EVENT/retry",
	"/guest/quarantine", "/guest/refusals", "/guest/jobs", "/guest/jobs/JOB/run", "/guest/sessions/SESSION",
}

// OwnsAdmin reports whether a raw path on the admin listener belongs to Admin.
func OwnsAdmin(path string) bool { return LabelAdmin(path) != "" }

// LabelAdmin is Label for the admin listener.
func LabelAdmin(path string) string {
	for _, p := range adminPaths {
		if path == p || strings.HasPrefix(path, p+"/") {
			return p
		}
	}
	return ""
}

// EventView is an event of the outbox as operators see it.
type EventView struct {
	ID       string     `json:"id"`
	Type     string     `json:"type"`
	Key      string     `json:"key"`
	Subject  string     `json:"subject"`
	Class    string     `json:"retentionClass"`
	At       time.Time  `json:"at"`
	Payload  any        `json:"payload"`
	Attempts int        `json:"attempts"`
	Error    string     `json:"error,omitempty"`
	Next     *time.Time `json:"nextAttempt,omitempty"`
	SetAside *time.Time `json:"setAside,omitempty"`
}

func viewEvent(e *outbox.Event, attempts int, reason string) EventView {
	return EventView{ID: e.Name, Type: e.Topic, Key: e.Owner, Subject: e.Key, Class: e.Class, At: e.At, Payload: e.Payload, Attempts: attempts, Error: reason}
}

// ViewWaiting returns the view of an event that waits.
func ViewWaiting(e *outbox.WaitingEvent) EventView {
	v := viewEvent(&e.Event, e.Attempts, e.Reason)
	v.Next = timeOrNil(e.Next)
	return v
}

// ViewDead returns the view of an event that was set aside.
func ViewDead(e *outbox.DeadEvent) EventView {
	v := viewEvent(&e.Event, e.Attempts, e.Reason)
	v.SetAside = timeOrNil(e.DiedAt)
	return v
}

// QuarantineView is a received event in quarantine.
type QuarantineView struct {
	Source   string    `json:"source"`
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	At       time.Time `json:"at"`
	Received time.Time `json:"received"`
	Reason   string    `json:"reason"`
	Body     string    `json:"body"`
}

// ViewQuarantine returns the view of an event in quarantine.
func ViewQuarantine(q *inbox.Quarantine) QuarantineView {
	return QuarantineView{q.Source, q.ID, q.Type, q.Time, q.Received, q.Reason, string(q.Body)}
}

// RefusalView counts the attempts to consume a handoff that were refused for one reason.
type RefusalView struct {
	HandoffID guest.ID  `json:"handoffId"`
	Reason    string    `json:"reason"`
	Attempts  int64     `json:"attempts"`
	First     time.Time `json:"firstAt"`
	Last      time.Time `json:"lastAt"`
}

// ViewRefusal returns the view of a refusal.
func ViewRefusal(r guest.Refusal) RefusalView {
	return RefusalView{r.Handoff, r.Reason, r.Attempts, r.First, r.Last}
}

// JobView is a retention job: the rows that it would delete now, or has deleted.
type JobView struct {
	Job     guest.Job  `json:"job"`
	Before  *time.Time `json:"before,omitempty"`
	Old     *int       `json:"old,omitempty"` // guest.MaxCount: or more
	Deleted *int       `json:"deleted,omitempty"`
}

// ViewOld returns the view of a job that was not run.
func ViewOld(o guest.Old) JobView { return JobView{Job: o.Job, Before: &o.Before, Old: &o.Rows} }

// Serve is the web.Handler of the admin listener.
func (h *Admin) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	w.Header().Set("Cache-Control", "private, no-store")
	methods := h.operations(at.Path)
	if methods == nil {
		return errPath
	}
	run := methods[r.Method]
	if run == nil {
		allowed := make([]string, 0, len(methods))
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if methods[m] != nil {
				allowed = append(allowed, m)
			}
		}
		return web.RefuseMethod(w, allowed...)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return errAdminQuery
	}
	body, err := run(r.Context(), query)
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, body)
}

type operation func(ctx context.Context, query url.Values) (any, error)

// operations returns the operations of a path by method, or nil.
func (h *Admin) operations(path string) map[string]operation {
	box := h.Service.Store.Outbox()
	dead := func(event string, do func(context.Context, outbox.Kept, string) (int, error)) operation {
		return func(ctx context.Context, _ url.Values) (any, error) {
			n, err := do(ctx, box, event)
			return map[string]int{"events": n}, err
		}
	}
	switch path {
	case "/guest/outbox":
		return map[string]operation{http.MethodGet: h.listWaiting}
	case "/guest/dead-letters":
		return map[string]operation{http.MethodGet: h.listDead, http.MethodDelete: dead("", guest.DropDead)}
	case "/guest/dead-letters/retry":
		return map[string]operation{http.MethodPost: dead("", guest.RetryDead)}
	case "/guest/quarantine":
		return map[string]operation{http.MethodGet: h.listQuarantine}
	case "/guest/refusals":
		return map[string]operation{http.MethodGet: h.listRefusals}
	case "/guest/jobs":
		return map[string]operation{http.MethodGet: h.listJobs}
	}
	parts := strings.Split(path, "/")[1:] // guest, what, ID and maybe an operation
	if len(parts) < 3 || len(parts) > 4 || parts[2] == "" {
		return nil
	}
	id, last := parts[2], strings.Join(parts[3:], "/")
	switch parts[1] + " " + last {
	case "dead-letters ":
		return map[string]operation{http.MethodDelete: dead(id, guest.DropDead)}
	case "dead-letters retry":
		return map[string]operation{http.MethodPost: dead(id, guest.RetryDead)}
	case "jobs run":
		return map[string]operation{http.MethodPost: func(ctx context.Context, query url.Values) (any, error) { return h.runJob(ctx, id, query) }}
	case "sessions ":
		return map[string]operation{http.MethodDelete: func(ctx context.Context, _ url.Values) (any, error) { return h.Service.Erase(ctx, id) }}
	}
	return nil
}

var errAdminQuery = web.Refuse(http.StatusBadRequest, "invalid", "query: expected limit (1 to 1000), after (next of the page before) or dryRun (true or false)")

// adminPage reads limit and after.
func adminPage(query url.Values) (limit int, after int64, err error) {
	limit = 100
	if query.Has("limit") {
		if limit, err = strconv.Atoi(query.Get("limit")); err != nil || limit < 1 || limit > 1000 {
			return 0, 0, errAdminQuery
		}
	}
	if query.Has("after") {
		if after, err = strconv.ParseInt(query.Get("after"), 10, 64); err != nil || after < 0 {
			return 0, 0, errAdminQuery
		}
	}
	return limit, after, nil
}

// eventPage is a page of events. Next is the value of after for the next page, or nil on the last.
type eventPage struct {
	Backlog *backlog    `json:"backlog,omitempty"`
	Events  []EventView `json:"events"`
	Next    *int64      `json:"next"`
}

type backlog struct {
	Events int        `json:"events"` // outbox.MaxBacklog: or more
	Oldest *time.Time `json:"oldest,omitempty"`
}

// pageOf returns a page of events that were read with a limit. position is where the next page begins.
func pageOf[T any](all []T, limit int, view func(*T) EventView, position func(*T) int64) eventPage {
	page := eventPage{Events: []EventView{}}
	for i := range all {
		page.Events = append(page.Events, view(&all[i]))
	}
	if len(all) == limit {
		next := position(&all[limit-1])
		page.Next = &next
	}
	return page
}

func (h *Admin) listWaiting(ctx context.Context, query url.Values) (any, error) {
	limit, after, err := adminPage(query)
	if err != nil {
		return nil, err
	}
	box := h.Service.Store.Outbox()
	n, oldest, err := box.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	all, err := box.ListWaiting(ctx, after, limit)
	page := pageOf(all, limit, ViewWaiting, func(e *outbox.WaitingEvent) int64 { return e.Position })
	page.Backlog = &backlog{n, timeOrNil(oldest)}
	return page, err
}

func (h *Admin) listDead(ctx context.Context, query url.Values) (any, error) {
	limit, after, err := adminPage(query)
	if err != nil {
		return nil, err
	}
	all, err := h.Service.Store.Outbox().ListDead(ctx, outbox.ID{Seq: after}, limit)
	return pageOf(all, limit, ViewDead, func(d *outbox.DeadEvent) int64 { return d.Seq }), err
}

func (h *Admin) listQuarantine(ctx context.Context, query url.Values) (any, error) {
	limit, _, err := adminPage(query)
	if err != nil {
		return nil, err
	}
	all, err := h.Service.Store.Quarantined(ctx, limit)
	views := []QuarantineView{}
	for i := range all {
		views = append(views, ViewQuarantine(&all[i]))
	}
	return map[string]any{"events": views}, err
}

// listRefusals lists the attempts to consume handoffs that were refused. Those that this process
// has counted in the last second are written before.
func (h *Admin) listRefusals(ctx context.Context, query url.Values) (any, error) {
	limit, _, err := adminPage(query)
	if err != nil {
		return nil, err
	}
	if err := h.Service.FlushRefusals(ctx); err != nil {
		return nil, err
	}
	all, err := h.Service.Store.Refusals(ctx, limit)
	views := []RefusalView{}
	for _, r := range all {
		views = append(views, ViewRefusal(r))
	}
	return map[string]any{"refusals": views}, err
}

func (h *Admin) listJobs(ctx context.Context, _ url.Values) (any, error) {
	views := []JobView{}
	for _, job := range guest.Jobs {
		o, err := h.Retention.Count(ctx, job)
		if err != nil {
			return nil, err
		}
		views = append(views, ViewOld(o))
	}
	return map[string]any{"jobs": views}, nil
}

func (h *Admin) runJob(ctx context.Context, name string, query url.Values) (any, error) {
	job, err := guest.ParseJob(name)
	if err != nil {
		return nil, err
	}
	switch dry := strings.Join(query["dryRun"], ","); {
	case dry == "true":
		o, err := h.Retention.Count(ctx, job)
		return ViewOld(o), err
	case dry == "false", !query.Has("dryRun"):
		n, err := h.Retention.Run(ctx, job)
		return JobView{Job: job, Deleted: &n}, err
	}
	return nil, errAdminQuery
}

func sendJSON(w http.ResponseWriter, status int, body any) error {
	a, err := jsonAnswer(status, body)
	if err == nil {
		send(w, a)
	}
	return err
}
