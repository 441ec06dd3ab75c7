package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	ss "holdfast/internal/syncstorage"
)

// resource is what a path under /1.5/{uid} addresses.
type resource uint8

const (
	nothing resource = iota
	user             // the root and /storage: everything of the user
	infoCollections
	infoCounts
	infoUsage
	infoQuota
	infoConfiguration
	collection
	bso
)

// route is a parsed path.
type route struct {
	resource   resource
	uid        int64
	collection string
	id         string
}

// prefixes under which storage is served: that of the API, and that of the old
// all-in-one server, whose users need not change a setting.
var prefixes = []string{"/1.5/", "/storage/1.5/"}

// Owns reports whether a raw path belongs to this room.
func Owns(path string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
}

// parseRoute reads a raw path, as it stood in the request line: ids may hold
// any printable character, an escaped slash and ".." too, so nothing may have
// cleaned or decoded the path before.
func parseRoute(path string) (rt route) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(path, p); ok {
			return parseResource(strings.Split(rest, "/"))
		}
	}
	return rt
}

func parseResource(segments []string) (rt route) {
	for i, s := range segments {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return rt
		}
		segments[i] = plain
	}
	uid, err := strconv.ParseInt(segments[0], 10, 64)
	if err != nil || uid < 0 || len(segments[0]) > 10 || segments[0][0] == '+' {
		return rt
	}
	rt.uid = uid
	rest := segments[1:]
	switch {
	case len(rest) == 0, len(rest) == 1 && rest[0] == "storage":
		rt.resource = user
	case len(rest) == 2 && rest[0] == "info":
		rt.resource = infos[rest[1]]
	case rest[0] != "storage" || !ss.ValidCollection(rest[1]):
	case len(rest) == 2:
		rt.resource, rt.collection = collection, rest[1]
	case len(rest) == 3 && ss.ValidID(rest[2]):
		rt.resource, rt.collection, rt.id = bso, rest[1], rest[2]
	}
	return rt
}

var infos = map[string]resource{
	"collections":       infoCollections,
	"collection_counts": infoCounts,
	"collection_usage":  infoUsage,
	"quota":             infoQuota,
	"configuration":     infoConfiguration,
}

// methods a resource has, as Allow lists them.
func (r resource) methods() []string {
	switch r {
	case user:
		return []string{http.MethodDelete}
	case collection:
		return []string{http.MethodDelete, http.MethodGet, http.MethodPost}
	case bso:
		return []string{http.MethodDelete, http.MethodGet, http.MethodPut}
	}
	return []string{http.MethodGet}
}

// Label names the route of a raw path for metrics and logs, without anything
// that a user chose.
func Label(path string) string {
	if !Owns(path) {
		return "other"
	}
	return labels[parseRoute(path).resource]
}

var labels = map[resource]string{
	nothing: "unknown", user: "storage", infoCollections: "info/collections", infoCounts: "info/collection_counts",
	infoUsage: "info/collection_usage", infoQuota: "info/quota", infoConfiguration: "info/configuration",
	collection: "collection", bso: "bso",
}
