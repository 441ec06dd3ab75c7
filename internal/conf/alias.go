package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// aliasPrefix is what the names of the reference server begin with. Unknown ones
// are only warned of: other programs use the prefix too.
const aliasPrefix = "SYNC_"

// Alias is a variable of the reference server that this program understands.
type Alias struct {
	// Env is the variable's name, or its beginning and a "*": then the rest,
	// cut at two underscores, is the rest of Path. A full name goes before.
	Env string
	// Path is the setting, as in "server.listen"; with "*" in Env the section,
	// as in "syncstorage.limits.*". An empty Path accepts the variable without
	// effect.
	Path string
	// Note says why there is no effect, for the report.
	Note string
	// Transform, if set, turns the variable's value into the setting's, given the
	// text that the setting has so far ("" when it is no text): so the variables
	// for host and port can each change their part of one address. Its error is
	// shown to the operator and must not quote a secret.
	Transform func(current, value string) (string, error)
}

func (a Alias) path() []string {
	return strings.Split(strings.TrimSuffix(a.Path, ".*"), ".")
}

// begins is the part of Env before the "*"; ok is false where there is none.
func (a Alias) begins() (string, bool) { return strings.CutSuffix(a.Env, "*") }

// readAliases puts the variables of the reference server into the tree: full
// names first, in the order of the aliases, as transforms may build on another.
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
			l.warn(place{name: name}, "unknown variable, it has no effect", didYouMean(name, l.aliasNames(), dottedVariable))
		}
	}
}

// checkAlias panics when an alias leads nowhere: a bug that would otherwise hide
// until somebody sets the variable.
func (l *loader) checkAlias(a Alias) {
	if a.Path == "" {
		return
	}
	n := l.schema.find(a.path())
	if _, wild := a.begins(); n == nil || wild == n.isLeaf() {
		panic(fmt.Sprintf("conf: the alias %s leads to no setting", a.Env))
	}
}

// alias applies one variable, and reports whether it means anything.
func (l *loader) alias(a Alias, name string, rest []string, env map[string]string) bool {
	at := place{name: name}
	if a.Path == "" {
		l.note(at, strings.TrimSuffix("accepted without effect: "+a.Note, ": "))
		return true
	}
	path, n := l.envPath(a.path(), rest)
	if n == nil || !n.isLeaf() {
		return false
	}
	if winner, overridden := overriding(path, n, env); overridden {
		l.note(at, winner+" is set too and wins")
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
			l.problem(at, err.Error(), "fix it, or set "+envName(path)+" instead")
			return true
		}
	}
	v, ok := n.fromText(value)
	l.set(at, path, n, v, ok)
	return true
}

// overriding finds the HOLDFAST_ variable that sets the same, by value or by file.
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

// aliasNames lists the variables that would have been understood.
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
