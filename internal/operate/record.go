package operate

import (
	"context"
	"maps"
	"slices"
)

// Record describes a change, or a sent file with secrets.
type Record struct {
	*Operation
	Inputs []Logged // the values that may be logged, see Operation.Logged
	Err    error    // why the change failed, or nil
}

// Logged is an input, or a subject in the result, with its value as text.
type Logged struct{ Name, Value string }

// Recorder writes the change log. It is called after each change, even if it failed, when a background job
// starts, and after sending a file with secrets. Its context is not canceled when the request ends. It may be called
// concurrently, and the answer waits for it.
type Recorder func(context.Context, Record)

// Recorded returns copies of the operations with a recorder. The server calls it for all services; a command's
// operations need none.
func Recorded(all []Operation, to Recorder) []Operation {
	all = slices.Clone(all)
	for i := range all {
		all[i].recorder = to
	}
	return all
}

// Explained returns copies of the operations whose errors pass through explain, which may add what the server knows
// about the cause. It is called for errors only, with the operation's context, which may have ended.
func Explained(all []Operation, explain func(context.Context, error) error) []Operation {
	all = slices.Clone(all)
	for i := range all {
		all[i].explain = explain
	}
	return all
}

// IsRecorded reports whether running the operation leaves an entry in the change log.
func (o *Operation) IsRecorded() bool { return o.Kind.Changes() || o.Kind == Download && o.Secret }

// Logged returns the names of the recorded values. It includes dry-run only if set.
func (o *Operation) Logged() (names []string) {
	for _, in := range o.Inputs {
		if !in.Local && !in.Secret && (in.Subject || !in.Private && in.Name != DryRun || o.Background) {
			names = append(names, in.Name)
		}
	}
	for _, name := range o.Names {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// record calls the recorder, if any. Subjects in the result win over inputs, because an operation that creates a
// thing may choose its name. r is nil if there is no result.
func (o *Operation) record(ctx context.Context, values map[string]string, r *Result, err error) {
	if o.recorder == nil || !o.IsRecorded() {
		return
	}
	values, names := maps.Clone(values), o.Logged()
	if r != nil && len(r.Rows) > 0 {
		if values == nil {
			values = map[string]string{}
		}
		maps.Copy(values, r.Rows[0].Subjects)
	}
	if values[DryRun] == "true" && o.Input(DryRun) != nil && !slices.Contains(names, DryRun) {
		names = append(names, DryRun)
	}
	done := Record{Operation: o, Err: err}
	for _, name := range names {
		if in := o.Input(name); in != nil && !in.Subject && values[name] == "" {
			continue
		}
		done.Inputs = append(done.Inputs, Logged{name, values[name]})
	}
	o.recorder(context.WithoutCancel(ctx), done)
}
