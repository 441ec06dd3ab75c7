package conf

import (
	"reflect"
	"strings"
)

// Change is a setting that differs between two configurations.
type Change struct {
	Path    string
	Reloads bool // whether a reload applies it; otherwise it needs a restart
}

// Changes compares configurations with the same sections.
func Changes(before, after any) (all []Change) {
	was := values(before)
	schema, root := schemaOf(after)
	schema.eachSetting(root, nil, func(n *node, v reflect.Value, path []string) {
		name := strings.Join(path, ".")
		if old, had := was[name]; !had || !isEqual(old, v) {
			all = append(all, Change{name, n.reloads})
		}
		delete(was, name)
	})
	schema, root = schemaOf(before)
	schema.eachSetting(root, nil, func(n *node, _ reflect.Value, path []string) {
		if name := strings.Join(path, "."); was[name].IsValid() {
			all = append(all, Change{name, n.reloads})
		}
	})
	return all
}

// values returns all settings by path.
func values(of any) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	schema, root := schemaOf(of)
	schema.eachSetting(root, nil, func(_ *node, v reflect.Value, path []string) { all[strings.Join(path, ".")] = v })
	return all
}

// Plain returns all settings as texts by path, also secrets, to compare two configurations. Do not print it.
func Plain(dst any) map[string]string {
	all := map[string]string{}
	schema, root := schemaOf(dst)
	schema.eachSetting(root, nil, func(n *node, v reflect.Value, path []string) {
		public := *n
		public.secret = false
		all[strings.Join(path, ".")] = public.literal(v)
	})
	return all
}

// isEqual treats empty and nil lists as equal.
func isEqual(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len()+b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// Keep copies the settings that need a restart from running to next. Both have the same sections.
func Keep(next, running any) {
	schema, to := schemaOf(next)
	same, from := schemaOf(running)
	schema.keep(to, same, from)
}

// keep copies settings that need a restart; same is the schema of from.
func (n *node) keep(to reflect.Value, same *node, from reflect.Value) {
	for i, c := range n.children {
		switch {
		case c.kind == secretFile || c.reloads:
		case c.kind == section:
			c.keep(c.in(to), same.children[i], same.children[i].in(from))
		default:
			c.in(to).Set(same.children[i].in(from))
		}
	}
}

// Reloadable returns the settings that a running server can change.
func Reloadable(dst any) (paths []string) {
	schema, root := schemaOf(dst)
	schema.eachSetting(root, nil, func(n *node, _ reflect.Value, path []string) {
		if n.reloads {
			paths = append(paths, strings.Join(path, "."))
		}
	})
	return paths
}
