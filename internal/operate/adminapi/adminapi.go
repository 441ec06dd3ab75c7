// Package adminapi serves operations on the admin listener:
//
//	GET  /SERVICE/NOUN               a list
//	GET  /SERVICE/NOUN/SUBJECT       the read "show"
//	POST /SERVICE/NOUN               the change "add"
//	POST /SERVICE/NOUN/VERB          another change
//	POST /SERVICE/NOUN/SUBJECT/VERB  a row change
//
// A background job is answered with 202 and a Location, GET /SERVICE/runs/RUN, which shows its progress. Other inputs
// are JSON members in a change's body, and query parameters elsewhere.
package adminapi

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/operate"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

// API serves operations. The caller checked the admin token, and Owns says that the path
// belongs to the API.
type API struct {
	paths  []string // the nouns' paths, e.g. "/guest/keys"
	routes []route
}

// Route is a method and a path with upper-case placeholders, e.g. POST /guest/keys/KEY/retire.
type Route struct{ Method, Path string }

// route is an operation with the path that it is served at.
type route struct {
	Route
	parts []string // Path, split at slashes
	first int      // the first subject's index in parts
	runs  string   // path before a run's ID
	*operate.Operation
}

// New returns the API of a service. service is the first part in all paths; "" is the server itself, whose paths
// begin with the noun.
func New(service string, all []operate.Operation) *API {
	a, prefix := &API{}, ""
	if service != "" {
		prefix = "/" + service
	}
	for i := range all {
		o := &all[i]
		path := prefix + "/" + o.Noun()
		r := route{Route{http.MethodGet, path}, nil, len(strings.Split(path, "/")), prefix + "/runs/", o}
		if !slices.Contains(a.paths, r.Path) {
			a.paths = append(a.paths, r.Path)
		}
		if o.Kind.Changes() {
			r.Method = http.MethodPost
		}
		for _, s := range o.Subjects() {
			r.Path += "/" + strings.ToUpper(s.Name)
		}
		if !slices.Contains([]string{"list", "show", "add"}, o.Verb()) {
			r.Path += "/" + o.Verb()
		}
		r.parts = strings.Split(r.Path, "/")
		a.routes = append(a.routes, r)
	}
	return a
}

// Routes returns a route for each operation, in the order given to New.
func (a *API) Routes() (all []Route) {
	for _, r := range a.routes {
		all = append(all, r.Route)
	}
	return all
}

// Labelled returns the labels with their methods, for web.Service.Routes. A label has the methods of all routes that match
// it, because a path's label does not depend on the method.
func (a *API) Labelled() (all []web.Route) {
	for _, label := range a.routes {
		for _, r := range a.find(label.Path) {
			if route := (web.Route{Label: a.Label(label.Path), Method: r.Method}); !slices.Contains(all, route) {
				all = append(all, route)
			}
		}
	}
	return all
}

// Status returns the status of a success: 202 for a background job, 201 for a change named add or create, and else
// 200.
func Status(o *operate.Operation) int {
	if o.Background {
		return http.StatusAccepted
	}
	if o.Kind == operate.Change && (o.Verb() == "add" || o.Verb() == "create") {
		return http.StatusCreated
	}
	return http.StatusOK
}

// HasBody reports whether inputs other than subjects are a JSON object.
func HasBody(o *operate.Operation) bool { return o.Kind.Changes() && o.Kind != operate.Upload }

// Paths returns a path for each noun. The admin listener registers them.
func (a *API) Paths() []string { return a.paths }

// Owns reports whether the API serves the path, also if it then answers 404.
func (a *API) Owns(path string) bool {
	return slices.ContainsFunc(a.paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

// Label returns a path's route, for metrics and traces: a small fixed set. Unknown paths are
// "unknown".
func (a *API) Label(path string) string {
	if routes := a.find(path); len(routes) > 0 {
		return routes[0].Path
	}
	return "unknown"
}

// find returns the routes that match the path, with any method. The route with the fewest values comes first, so that
// a noun's own verb wins over a subject with the same name.
func (a *API) find(path string) (routes []*route) {
	parts := strings.Split(path, "/")
	values := map[*route]int{}
	for i := range a.routes {
		r := &a.routes[i]
		if n, ok := r.matches(parts); ok {
			values[r] = n
			routes = append(routes, r)
		}
	}
	slices.SortStableFunc(routes, func(x, y *route) int { return values[x] - values[y] })
	return routes
}

// matches reports whether the path's parts fit the route, and how many are values. An empty value does not
// match.
func (o *route) matches(parts []string) (values int, ok bool) {
	if len(parts) != len(o.parts) {
		return 0, false
	}
	end := o.first + len(o.Subjects())
	for i, part := range parts {
		switch isValue := i >= o.first && i < end; {
		case isValue && part != "":
			values++
		case isValue || part != o.parts[i]:
			return 0, false
		}
	}
	return values, true
}

var errPath = web.Refuse(http.StatusNotFound, "not-found", "no such path")

// Serve is the web.Handler of the API. It answers 404 for an unknown path and 405 with Allow for a wrong method.
// WriteError writes its errors.
func (a *API) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	w.Header().Set("Cache-Control", "private, no-store")
	routes := a.find(at.Path)
	if len(routes) == 0 {
		return errPath
	}
	i := slices.IndexFunc(routes, func(candidate *route) bool { return candidate.Method == r.Method })
	if i < 0 {
		var allowed []string
		for _, candidate := range routes {
			allowed = append(allowed, candidate.Method)
		}
		slices.Sort(allowed)
		return web.RefuseMethod(w, slices.Compact(allowed)...)
	}
	return routes[i].serve(w, r, at.Path)
}

// serve runs the operation and sends its result or its file.
func (o *route) serve(w http.ResponseWriter, r *http.Request, path string) error {
	values, err := o.values(w, r, path)
	if err != nil {
		return o.located(err)
	}
	if o.Background {
		return o.start(w, r, values)
	}
	if err := web.ChargeMemory(r, o.Memory); err != nil {
		return err
	}
	result, err := o.run(w, r, values)
	if err != nil {
		return o.located(err)
	}
	if f := result.File; f != nil {
		return web.SendFile(w, r, &web.File{Name: f.Name, Type: o.Media, Size: f.Size, Write: f.Send})
	}
	value, err := o.JSON(r.Context(), result)
	if err != nil {
		return err
	}
	return o.send(w, value)
}

// run runs the operation; an upload reads the request body while it runs.
func (o *route) run(w http.ResponseWriter, r *http.Request, values map[string]string) (*operate.Result, error) {
	if o.Kind != operate.Upload {
		return o.Run(r.Context(), values, nil)
	}
	web.StreamBody(r)
	body := operate.Body{Reader: &upload{http.MaxBytesReader(w, r.Body, o.Largest), problem.BodyErrors(int(o.Largest))}, Size: max(r.ContentLength, 0)}
	return o.Upload(r.Context(), values, body, nil)
}

// upload reads a request body and returns errors that the API can answer, e.g. 413.
type upload struct {
	io.Reader
	errors *web.BodyErrors
}

func (u *upload) Read(p []byte) (int, error) { return u.errors.Read(u.Reader, p) }

// start starts a background job and answers 202 with its location.
func (o *route) start(w http.ResponseWriter, r *http.Request, values map[string]string) error {
	run, err := o.Start(r.Context(), values)
	if err != nil {
		return o.located(err)
	}
	detail, err := run.Detail()
	if err != nil {
		return err
	}
	w.Header().Set("Location", o.runs+run.ID)
	return o.send(w, detail)
}

// send writes a result as JSON.
func (o *route) send(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	web.SendJSONLine(w, Status(o.Operation), body)
	return nil
}
