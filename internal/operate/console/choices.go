package console

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Choose returns the function that completes names in form fields. It asks own first (may be nil), and
// otherwise reads the service's list for this kind. It answers nil if nothing lists the kind, or if a
// containing thing is not named yet.
func Choose(own service.Chooser, all []operate.Operation) service.Chooser {
	return func(ctx context.Context, kind, prefix string, at url.Values) (*service.Choices, error) {
		if own != nil {
			if choices, err := own(ctx, kind, prefix, at); choices != nil || err != nil {
				return choices, err
			}
		}
		list := listOf(kind, all)
		if list == nil {
			return nil, nil
		}
		where := names{}
		for _, name := range rowNames(list) {
			if name == kind {
				continue
			}
			if where[name] = at.Get(name); where[name] == "" {
				return nil, nil
			}
		}
		options, err := listed(ctx, list, kind, prefix, where)
		if err != nil {
			return nil, err
		}
		return &service.Choices{All: options, First: where.first(list, kind, all)}, nil
	}
}

// listed returns the rows whose subject or name begins with prefix, at most a little more than service.MaxChoices, so
// that the console notices that there are more. where names the containing things.
func listed(ctx context.Context, list *operate.Operation, kind, prefix string, where names) (all []service.Option, err error) {
	values := map[string]string{"limit": strconv.Itoa(service.MaxChoices + 1), "prefix": prefix}
	maps.Copy(values, where)
	result, err := list.Run(ctx, values, nil)
	if err != nil {
		return nil, err
	}
	for i := range result.Rows {
		row := &result.Rows[i]
		o := service.NamedOption(row.Subjects[kind], row.Called)
		if len(all) <= service.MaxChoices && (begins(o.Value, prefix) || begins(o.Text, prefix)) {
			all = append(all, o)
		}
	}
	return all, nil
}

// begins compares without regard to case.
func begins(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// first returns the link that a form shows if there is nothing to choose: to the form that creates the first thing,
// or else to the list.
func (n names) first(list *operate.Operation, kind string, all []operate.Operation) *service.Link {
	makes := func(isIn bool) *operate.Operation {
		for i := range all {
			if o := &all[i]; o.NewRow && o.Missing() == nil && slices.ContainsFunc(o.Subjects(), func(s operate.Input) bool { return s.Name == kind }) &&
				(isIn == (o.Noun() == list.Noun())) && (isIn || o.Subject().Name != kind) {
				return o
			}
		}
		return nil
	}
	for _, isIn := range []bool{true, false} { // e.g. a tenant is created with its first install
		if o := makes(isIn); o != nil {
			return &service.Link{Text: cmp.Or(o.Title, o.Label()), To: n.linkTo(o.Noun(), slices.Sorted(maps.Keys(n))) + service.FormAnchor("", o.Verb())}
		}
	}
	return &service.Link{Text: list.Title, To: n.link(list)}
}

// listOf returns the list whose rows are named by kind. Of several it takes the list with the fewest names, which is
// the least nested.
func listOf(kind string, all []operate.Operation) (op *operate.Operation) {
	for i := range all {
		o := &all[i]
		if o.Kind == operate.List && slices.Contains(o.Names, kind) && (op == nil || len(rowNames(o)) < len(rowNames(op))) {
			op = o
		}
	}
	return op
}

// Kind returns which kind an input names, e.g. "tenant", or "" if nothing lists it. isTyped reports
// whether names outside the list are allowed, too.
func Kind(o *operate.Operation, in *operate.Input, all []operate.Operation) (kind string, isTyped bool) {
	list := listOf(cmp.Or(in.Names, in.Name), all)
	switch {
	case in.Names == "-", in.Names == "" && (list == nil || in.IsWords() || in.IsBool() || in.Secret || in.Enum != nil):
		return "", false
	case isNew(o, in, all) && in.Name == o.Subject().Name && list.Noun() == o.Noun():
		return "", false
	}
	return cmp.Or(in.Names, in.Name), slices.Contains(in.Also, "*") || isNew(o, in, all)
}

// isNew reports whether in names the created thing or its container, unless the list belongs to the container.
func isNew(o *operate.Operation, in *operate.Input, all []operate.Operation) bool {
	if !o.NewRow || !in.Subject {
		return false
	}
	list := first(operate.List, o.Noun(), all)
	return list == nil || !slices.ContainsFunc(list.Subjects(), func(s operate.Input) bool { return s.Name == in.Name })
}

// offer lets a field choose from the things that its input names.
func offer(f *service.Field, o *operate.Operation, in *operate.Input, all []operate.Operation) {
	kind, isTyped := Kind(o, in, all)
	if kind == "" {
		return
	}
	f.Kind, f.Typed, f.Many = kind, f.Typed || isTyped, in.IsWords()
	for _, value := range in.Also {
		if value != "*" {
			f.Also = append(f.Also, value)
		}
	}
}
