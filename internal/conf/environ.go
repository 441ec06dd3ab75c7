package conf

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// environment returns variables by name. It keeps the last value of a repeated name, as most shells do.
func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}

const (
	configVariable = prefix + "CONFIG"
	dataVariable   = prefix + "DATA"
)

// Kubernetes sets variables for each service in a pod's namespace. A service named "holdfast" or "holdfast-…" uses
// our prefix. serviceLink matches e.g. HOLDFAST_SERVICE_HOST and HOLDFAST_ADMIN_PORT_8001_TCP_ADDR. serviceLinkPort
// matches HOLDFAST_PORT if its value is an address, which Kubernetes sets; an operator sets a number.
var (
	serviceLink     = regexp.MustCompile(`^HOLDFAST_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	serviceLinkPort = regexp.MustCompile(`^HOLDFAST_([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://`)
)

// isServiceLink reports whether Kubernetes set the variable.
func isServiceLink(name, value string) bool {
	return !strings.Contains(name, "__") && (serviceLink.MatchString(name) || serviceLinkPort.MatchString(name+"="+value))
}

// readEnvironment reads the HOLDFAST_ variables in alphabetical order.
func (l *loader) readEnvironment(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		rest, ours := strings.CutPrefix(name, prefix)
		switch {
		case !ours, name == configVariable, name == dataVariable, isServiceLink(name, env[name]):
			continue
		}
		at, parts := origin{name: name}, strings.Split(rest, "__")
		path, n := l.envPath(nil, parts)
		switch {
		case n == nil:
			l.problem(at, "", "unknown variable", l.nearestVariable(name, parts))
		case !n.isLeaf():
			l.problem(at, "", "names a section, not a setting", "add a setting name: "+name+"__…")
		default:
			value, ok := n.fromText(env[name])
			at.text = env[name]
			l.set(at, path, n, value, ok)
		}
	}
}

// envPath returns a nil node if the variable is unknown. For named sections it prefers an existing name
// ("newtab-images" for NEWTAB_IMAGES) to the lower-case part.
func (l *loader) envPath(start, parts []string) ([]string, *node) {
	path, n := slices.Clone(start), l.schema.find(start)
	for _, part := range parts {
		key := strings.ToLower(part)
		if n.kind == named {
			key = knownName(l.schema.at(l.root, path), part)
		}
		path = append(path, key)
		if n = n.child(key); n == nil {
			return nil, nil
		}
	}
	return path, n
}

// knownName returns the existing named section that the part of a variable names, or the part in lower case.
func knownName(m reflect.Value, part string) string {
	var names []string
	for _, key := range m.MapKeys() {
		if envPart(key.String()) == envPart(part) {
			names = append(names, key.String())
		}
	}
	if len(names) == 0 {
		return strings.ToLower(part)
	}
	return slices.Min(names)
}

// nearestVariable returns advice for an unknown variable.
func (l *loader) nearestVariable(name string, parts []string) string {
	candidates := []string{configVariable, dataVariable}
	for _, p := range l.schema.paths(nil, parts) {
		candidates = append(candidates, envName(p))
	}
	return cmp.Or(didYouMean(name, candidates, dottedVariable), "unset it; holdfast config reference lists the variables")
}

// dottedVariable returns a variable's name as a path, for comparisons.
func dottedVariable(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, prefix), aliasPrefix)
	return strings.ReplaceAll(name, "__", ".")
}
