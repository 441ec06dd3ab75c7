package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// resource is a kind of path.
type resource uint8

const (
	nothing resource = iota
	user             // the root and /storage, i.e. all data of the user
	infoCollections
	infoCounts
	infoUsage
	infoQuota
	infoConfiguration
	collection
	bso
)

type action func(*Handler, *exchange) error

var actions = [...]map[string]action{
	nothing:           {},
	user:              {http.MethodDelete: (*Handler).deleteAll},
	infoCollections:   {http.MethodGet: (*Handler).collections},
	infoCounts:        {http.MethodGet: (*Handler).counts},
	infoUsage:         {http.MethodGet: (*Handler).usage},
	infoQuota:         {http.MethodGet: (*Handler).quota},
	infoConfiguration: {http.MethodGet: (*Handler).configuration},
	collection: {
		http.MethodGet:    (*Handler).list,
		http.MethodPost:   (*Handler).post,
		http.MethodDelete: (*Handler).deleteCollection,
	},
	bso: {
		http.MethodGet:    (*Handler).get,
		http.MethodPut:    (*Handler).put,
		http.MethodDelete: (*Handler).deleteBSO,
	},
}

// action returns the handler for the path and method, or an error that names the allowed methods.
func (x *exchange) action() (action, error) {
	methods := actions[x.route.resource]
	if len(methods) == 0 {
		return nil, errRoute
	}
	act, ok := methods[x.in.Method]
	if !ok {
		allowed := slices.Sorted(maps.Keys(methods))
		x.out.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, errMethod
	}
	return act, nil
}

type route struct {
	resource   resource
	uid        int64
	collection string
	id         string
}

// inside returns the raw path after /1.5, or after /storage/1.5, which the old all-in-one server used.
func inside(path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(strings.TrimPrefix(path, "/storage"), "/1.5")
	return rest, ok && strings.HasPrefix(rest, "/")
}

// Owns reports whether a raw path belongs to this service.
func Owns(path string) bool {
	_, ok := inside(path)
	return ok
}

// parseRoute parses the raw path, not cleaned or decoded: IDs may contain escaped slashes and "..".
func parseRoute(path string) (rt route) {
	rest, ok := inside(path)
	segments, err := web.Segments(rest)
	if !ok || err != nil {
		return rt
	}
	if rt.uid, ok = parseUID(segments[0]); !ok {
		return rt
	}
	switch s := segments[1:]; {
	case len(s) == 0, len(s) == 1 && s[0] == "storage":
		rt.resource = user
	case len(s) == 2 && s[0] == "info":
		rt.resource = info(s[1])
	case s[0] != "storage" || !ss.ValidCollection(s[1]):
	case len(s) == 2:
		rt.resource, rt.collection = collection, s[1]
	case len(s) == 3 && ss.ValidID(s[2]):
		rt.resource, rt.collection, rt.id = bso, s[1], s[2]
	}
	return rt
}

// parseUID accepts up to ten digits.
func parseUID(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil && len(s) <= 10
}

// info returns the resource for a path below info/.
func info(name string) resource {
	switch name {
	case "collections":
		return infoCollections
	case "collection_counts":
		return infoCounts
	case "collection_usage":
		return infoUsage
	case "quota":
		return infoQuota
	case "configuration":
		return infoConfiguration
	}
	return nothing
}

// Routes returns all paths with their methods.
func Routes() []web.Route { return web.RoutesOf(resource.String, actions[:]) }

// Label returns the route for metrics and logs, without client-chosen parts.
func Label(path string) string {
	if !Owns(path) {
		return "other"
	}
	return parseRoute(path).resource.String()
}

// String names a resource in metrics and logs.
func (r resource) String() string {
	return [...]string{
		nothing: "unknown", user: "storage", infoCollections: "info/collections", infoCounts: "info/collection_counts",
		infoUsage: "info/collection_usage", infoQuota: "info/quota", infoConfiguration: "info/configuration",
		collection: "collection", bso: "bso",
	}[r]
}
