package conf

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// environment turns os.Environ's form into a map. The last of equal names wins,
// as it does for os.Getenv's callers in most shells.
func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}

// Variables of the command line.
const (
	configVariable = prefix + "CONFIG"
	dataVariable   = prefix + "DATA"
)

// Kubernetes sets variables in the pods of a namespace for each service. For one
// named "holdfast" or "holdfast-…" they begin with our prefix: serviceLink matches
// HOLDFAST_SERVICE_HOST, HOLDFAST_ADMIN_PORT_8001_TCP_ADDR and the like, and
// serviceLinkPort HOLDFAST_PORT, whose value is an address. A person who sets that
// writes a number.
var (
	serviceLink     = regexp.MustCompile(`^HOLDFAST_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	serviceLinkPort = regexp.MustCompile(`^HOLDFAST_([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://`)
)

// isServiceLink reports whether Kubernetes has set a variable. The operator did not,
// so it is no mistake.
func isServiceLink(name, value string) bool {
	return !strings.Contains(name, "__") && (serviceLink.MatchString(name) || serviceLinkPort.MatchString(name+"="+value))
}

// readEnvironment reads the HOLDFAST_ variables into the tree.
func (l *loader) readEnvironment(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		rest, ours := strings.CutPrefix(name, prefix)
		switch {
		case !ours, name == configVariable, name == dataVariable, isServiceLink(name, env[name]):
			continue
		}
		at, parts := place{name: name}, strings.Split(rest, "__")
		if l.reserved(strings.ToLower(parts[0]), at) {
			continue
		}
		path, n := l.envPath(nil, parts)
		switch {
		case n == nil:
			l.problem(at, "", "unknown variable", l.nearestVariable(name, parts))
		case !n.isLeaf():
			l.problem(at, "", "names a section, not a setting", "add the name of a setting: "+name+"__…")
		default:
			value, ok := n.fromText(env[name])
			l.set(at, path, n, value, ok)
		}
	}
}

// envPath returns the path below the section at start that the parts of a
// variable's name mean; the node is nil when there is none. For a named section it
// prefers a name that the tree has ("newtab-images" for NEWTAB_IMAGES) to the part
// in lower case.
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

func (l *loader) nearestVariable(name string, parts []string) string {
	candidates := []string{configVariable, dataVariable}
	for _, p := range l.schema.paths(nil, parts) {
		candidates = append(candidates, envName(p))
	}
	return cmp.Or(didYouMean(name, candidates, dottedVariable), "unset it; holdfast config reference lists the variables")
}

// dottedVariable returns a variable's name in the form of a path.
func dottedVariable(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, prefix), aliasPrefix)
	return strings.ReplaceAll(name, "__", ".")
}
