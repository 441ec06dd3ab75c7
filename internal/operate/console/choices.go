package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Choose returns service.Console.Choose: the things that the rows of a service's lists name, and before them what own returns, which may
// be nil.
func Choose(own func(ctx context.Context, kind, prefix string, at url.Values) ([]service.Option, error), all []operate.Operation) func(ctx context.Context, kind, prefix string, at url.Values) ([]service.Option, error) {
	return func(ctx context.Context, kind, prefix string, at url.Values) ([]service.Option, error) {
		if own != nil {
			if found, err := own(ctx, kind, prefix, at); found != nil || err != nil {
				return found, err
			}
		}
		list := listOf(kind, all)
		if list == nil {
			return nil, nil
		}
		values := map[string]string{"limit": strconv.Itoa(service.MaxChoices + 1), "prefix": prefix}
		for _, name := range rowNames(list) {
			if values[name] = at.Get(name); name != kind && values[name] == "" {
				return nil, nil // such as a bucket, as long as the account is not known
			}
		}
		delete(values, kind)
		if prefix != "" && list.Input("prefix") == nil {
			return nil, nil
		}
		found, err := list.Run(ctx, values, nil)
		if err != nil {
			return nil, err
		}
		options := []service.Option{}
		for i := range found.Rows {
			if len(options) > service.MaxChoices {
				break
			}
			row := &found.Rows[i]
			options = append(options, service.NamedOption(row.Subjects[kind], row.Called))
		}
		return options, nil
	}
}

// listOf returns the list whose rows name things of a kind, and the fewest others; nil: there is no such list.
func listOf(kind string, all []operate.Operation) (found *operate.Operation) {
	for i := range all {
		o := &all[i]
		if o.Kind == operate.List && slices.Contains(o.Names, kind) && (found == nil || len(rowNames(o)) < len(rowNames(found))) {
			found = o
		}
	}
	return found
}

// name says what a field names, if the rows of a list have such names. What a change makes has a new name.
func name(f *service.Field, o *operate.Operation, in *operate.Input, all []operate.Operation) {
	kind := cmp.Or(in.Names, in.Name)
	if in.Names == "" && (in.IsWords() || in.IsBool() || in.Secret || in.Enum != nil || listOf(kind, all) == nil) {
		return
	}
	list := first(operate.List, o.Noun(), all)
	if o.NewRow && in.Subject && (list == nil || !slices.ContainsFunc(list.Subjects(), func(s operate.Input) bool { return s.Name == in.Name })) {
		if in.Name == o.Subject().Name {
			return
		}
		f.Typed = true // where the new thing is may be new, too
	}
	if kind != "-" {
		f.Kind, f.Also = kind, in.Also
	}
}
