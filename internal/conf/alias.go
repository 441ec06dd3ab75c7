package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// aliasPrefix starts variables for Mozilla's server. Unknown variables only cause a warning, because other programs
// use the prefix, too.
const aliasPrefix = "SYNC_"

// Alias is a supported variable for Mozilla's server.
type Alias struct {
	// Env is a variable name, or a prefix and "*". The part matching "*", split at double underscores, completes Path.
	// Full names take precedence.
	Env string
	// Path is the setting (e.g. "server.listen") or, if Env contains "*", the section ("syncstorage.limits.*"). ""
	// ignores the variable.
	Path string
	Note string // shown to an operator who sets the variable
	// Transform, if set, converts the variable's value. current is the setting's text so far ("" for other types):
	// host and port variables each change part of an address. The operator sees the error, so it must not contain a
	// secret.
	Transform func(current, value string) (string, error)
}

// path returns the path of the setting or section.
func (a Alias) path() []string {
	return strings.Split(strings.TrimSuffix(a.Path, ".*"), ".")
}

// begins returns the name before "*", and whether there is one.
func (a Alias) begins() (string, bool) { return strings.CutSuffix(a.Env, "*") }

// readAliases reads full names first, in alias order, because a transform may build on another.
func (l *loader) readAliases(env map[string]string) {
	names := slices.Sorted(maps.Keys(env))
	taken := map[string]bool{}
	for _, a := range l.Aliases {
		l.checkAlias(a)
		if _, set := env[a.Env]; set {
			taken[a.Env] = true
			l.alias(a, a.Env, nil, env)
		}
	}
	for _, a := range l.Aliases {
		begins, wild := a.begins()
		for _, name := range names {
			rest, matches := strings.CutPrefix(name, begins)
			if wild && matches && !taken[name] {
				taken[name] = l.alias(a, name, strings.Split(rest, "__"), env)
			}
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, aliasPrefix) && !taken[name] {
			l.warn(origin{name: name}, "unknown variable, ignored", didYouMean(name, l.aliasNames(), dottedVariable))
		}
	}
}

// checkAlias panics if the setting does not exist. The bug would otherwise only show when somebody sets the variable.
func (l *loader) checkAlias(a Alias) {
	if a.Path == "" {
		return
	}
	n := l.schema.find(a.path())
	if _, wild := a.begins(); n == nil || wild == n.isLeaf() {
		panic(fmt.Sprintf("conf: alias %s has no setting", a.Env))
	}
}

// alias reads a variable into the alias's setting; rest is the part that "*" matched. It returns false if no such
// setting exists.
func (l *loader) alias(a Alias, name string, rest []string, env map[string]string) bool {
	at := origin{name: name}
	if a.Path == "" {
		l.note(at, strings.TrimSuffix("ignored: "+a.Note, ": "))
		return true
	}
	path, n := l.envPath(a.path(), rest)
	if n == nil || !n.isLeaf() {
		return false
	}
	if winner, overridden := overriding(path, n, env); overridden {
		l.note(at, "ignored: "+winner+" is set")
		return true
	}
	value := env[name]
	if a.Transform != nil {
		current := ""
		if n.kind == text {
			current = l.schema.at(l.root, path).String()
		}
		var err error
		if value, err = a.Transform(current, value); err != nil {
			l.problem(at, "", err.Error(), "correct it, or set "+envName(path)+" instead")
			return true
		}
	}
	v, ok := n.fromAlias(value)
	at.text = value
	l.set(at, path, n, v, ok)
	return true
}

// overriding returns the HOLDFAST_ variable that overrides an alias for this setting, if it is set.
func overriding(path []string, n *node, env map[string]string) (string, bool) {
	name := envName(path)
	if n.kind == secretFile {
		name = strings.TrimSuffix(name, "_FILE")
	}
	if _, set := env[name]; set {
		return name, true
	}
	if n.secret || n.kind == secretFile {
		name += "_FILE"
		_, set := env[name]
		return name, set
	}
	return "", false
}

// aliasNames returns all names that aliases know, for suggestions.
func (l *loader) aliasNames() []string {
	var all []string
	for _, a := range l.Aliases {
		begins, wild := a.begins()
		if !wild {
			all = append(all, a.Env)
			continue
		}
		if a.Path == "" {
			continue
		}
		for _, p := range l.schema.find(a.path()).paths(nil, nil) {
			all = append(all, begins+strings.TrimPrefix(envName(p), prefix))
		}
	}
	return all
}
