package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/web"
)

// resource is a kind of path.
type resource uint8

const (
	nothing      resource = iota
	signIn                // /1.0/{application}/{version}
	events                // /1.0/webhooks/fxa/events
	clientConfig          // /.well-known/fxa-client-configuration
)

type route struct {
	resource             resource
	application, version string
}

// prefixes are the API's prefix and the old all-in-one server's prefix, so its users need not change a setting.
var prefixes = []string{"/1.0/", "/token/1.0/"}

// clientConfigPath is the only path outside of the prefixes. Clients append it to the URL of an accounts server.
const clientConfigPath = "/.well-known/fxa-client-configuration"

// Owns reports whether a raw path belongs to this service.
func Owns(path string) bool {
	return path == clientConfigPath || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
}

// parseRoute returns the zero route for unknown paths.
func parseRoute(path string) route {
	if path == clientConfigPath {
		return route{resource: clientConfig}
	}
	for _, p := range prefixes {
		rest, ok := strings.CutPrefix(path, p)
		if !ok {
			continue
		}
		// The address in about:config may end with a slash.
		segments, err := web.Segments("/" + strings.TrimSuffix(rest, "/"))
		switch {
		case err != nil:
		case slices.Equal(segments, []string{"webhooks", "fxa", "events"}):
			return route{resource: events}
		case len(segments) == 2 && segments[0] != "" && segments[1] != "":
			return route{signIn, segments[0], segments[1]}
		}
	}
	return route{}
}

// method returns the only method that the resource has.
func (r resource) method() string {
	if r == events {
		return http.MethodPost
	}
	return http.MethodGet
}

// Routes lists all routes, for tests and the API description.
func Routes() (all []web.Route) {
	for _, r := range []resource{signIn, events, clientConfig} {
		all = append(all, web.Route{Label: labels[r], Method: r.method()})
	}
	return all
}

// Label returns the route for metrics and logs, from a fixed set.
func Label(path string) string {
	return labels[parseRoute(path).resource]
}

var labels = [...]string{nothing: "unknown", signIn: "sign_in", events: "account_events", clientConfig: "client_configuration"}
