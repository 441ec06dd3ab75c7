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

// serviceLink matches what Kubernetes sets in each pod beside a service of the
// name "holdfast" (HOLDFAST_PORT_8000_TCP_ADDR and so on). Refusing these would
// keep the server from starting there for no fault of its operator.
var serviceLink = regexp.MustCompile(`^HOLDFAST_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// readEnvironment puts the HOLDFAST_ variables into the tree.
func (l *loader) readEnvironment(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		rest, ours := strings.CutPrefix(name, prefix)
		switch {
		case !ours, name == "HOLDFAST_CONFIG", name == "HOLDFAST_DATA", serviceLink.MatchString(name):
			continue
		}
		at, parts := place{name: name}, strings.Split(rest, "__")
		if l.reserved(strings.ToLower(parts[0]), at) {
			continue
		}
		path, n := l.envPath(nil, parts)
		switch {
		case n == nil:
			l.problem(at, "unknown variable", l.nearestVariable(name, parts))
		case !n.isLeaf():
			l.problem(at, strings.Join(path, ".")+" is a section, not a setting", "name a key: "+name+"__…")
		default:
			value, ok := n.fromText(env[name])
			l.set(at, path, n, value, ok)
		}
	}
}

// envPath finds the path, below the section at start, that the parts of a
// variable's name stand for; the node is nil when there is none. The name in a
// named section is one that the tree has already, if it is spelled like it
// ("newtab-images" for NEWTAB_IMAGES), else the part in lower case.
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
	var candidates []string
	for _, p := range l.schema.paths(nil, parts) {
		candidates = append(candidates, envName(p))
	}
	return cmp.Or(didYouMean(name, candidates, dottedVariable), "unset it")
}

// dottedVariable is a variable's name in the form of a path.
func dottedVariable(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, prefix), aliasPrefix)
	return strings.ReplaceAll(name, "__", ".")
}
