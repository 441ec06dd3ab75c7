// Package cli makes the commands of operations.
package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Commands returns a command with the name of a service, which has those of its operations. The operations of the server itself have the
// name "".
func Commands(name string, all []operate.Operation, sh *service.Shell) *cobra.Command {
	root := &cobra.Command{Use: name}
	nouns, verbs := map[string]*cobra.Command{}, map[string]*command{}
	for i := range all {
		o := &all[i]
		if o.ServerOnly {
			continue
		}
		noun := nouns[o.Noun()]
		if noun == nil {
			noun = &cobra.Command{Use: o.Noun(), Short: o.Group, Long: o.Long}
			nouns[o.Noun()] = noun
			root.AddCommand(noun)
		}
		c := newCommand(sh, o, &cobra.Command{Use: o.Verb(), Short: o.Doc})
		for line := range strings.Lines(o.Example) {
			c.cmd.Example += "  " + strings.Join(slices.DeleteFunc([]string{"holdfast", name, o.Noun(), o.Verb(), line}, func(word string) bool { return word == "" }), " ")
		}
		verbs[o.Path] = c
		noun.AddCommand(c.cmd)
	}
	for i := range all {
		o := &all[i]
		for _, former := range o.Former {
			addFormer(former, o, nouns[o.Noun()], verbs, sh)
		}
	}
	return root
}

// addFormer adds a former spelling of an operation.
func addFormer(former string, o *operate.Operation, noun *cobra.Command, verbs map[string]*command, sh *service.Shell) {
	if strings.HasPrefix(former, whole) {
		return // see Rename
	}
	first, flag, _ := strings.Cut(former, " ")
	flag = strings.TrimPrefix(flag, "--")
	switch {
	case first == o.Noun():
		newCommand(sh, o, noun).hide(flag == "json")
	case o.Kind == operate.List || flag == "":
		noun.Aliases = append(noun.Aliases, first)
	default:
		verbs[o.Noun()+"/"+first].addFormer(flag, o)
	}
}

// command is the command of an operation.
type command struct {
	*operate.Operation
	sh  *service.Shell
	cmd *cobra.Command

	asJSON, all, yes bool
	limit            int
	output           string                        // of a download: the file; "": standard output
	former           map[string]*operate.Operation // by a flag that selects it
}

// newCommand makes a command run an operation.
func newCommand(sh *service.Shell, o *operate.Operation, cmd *cobra.Command) *command {
	c := &command{Operation: o, sh: sh, cmd: cmd, former: map[string]*operate.Operation{}}
	if o.More != "" {
		cmd.Long = o.Doc + ".\n" + o.More
	}
	c.addFlags()
	if cmd.Name() == o.Verb() {
		cmd.Use = strings.Join(append([]string{cmd.Use}, append(c.required(o), c.arguments(o)...)...), " ")
		if in := optional(o); in != nil {
			cmd.Use += " [" + in.Argument + "]"
		}
		if o.Kind == operate.Upload {
			cmd.Use += map[bool]string{false: " FILE", true: " [FILE]"}[o.MayBeStdin]
		}
	}
	cmd.Args = c.check
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.refuseEmpty(); err != nil {
			return err
		}
		if err := c.chosen().Check(c.values(args)); err != nil { // this needs no database
			return c.typed(c.chosen(), err)
		}
		return sh.Run(c.run)(cmd, args)
	}
	return c
}

// optional returns the input that is an optional argument of the command, or nil.
func optional(o *operate.Operation) *operate.Input {
	i := slices.IndexFunc(o.Inputs, func(in operate.Input) bool { return in.Argument != "" })
	if i < 0 {
		return nil
	}
	return &o.Inputs[i]
}

// check refuses unexpected arguments and missing flags. Flags may select another operation.
func (c *command) check(cmd *cobra.Command, args []string) error {
	o := c.chosen()
	names := c.arguments(o)
	if o.Kind == operate.Upload && (!o.MayBeStdin || len(args) > len(names)) {
		names = append(names, "FILE")
	}
	if optional(o) != nil && len(args) > len(names) {
		args = slices.Delete(slices.Clone(args), len(names), len(names)+1)
	}
	if len(args) > len(names) {
		return service.Args(names...)(cmd, args)
	}
	var missing []string
	for _, s := range o.Subjects() {
		if s.IsFlag && !cmd.Flags().Changed(s.Name) {
			missing = append(missing, "--"+s.Name)
		}
	}
	switch len(missing) {
	case 0:
		return service.Args(names...)(cmd, args)
	case 1:
		return service.Usagef("%s is required", missing[0])
	}
	last := len(missing) - 1
	return service.Usagef("%s and %s are required", strings.Join(missing[:last], ", "), missing[last])
}

// refuseEmpty refuses a flag with an empty text, which may be a variable without a value: a list must not show all tenants
// instead of a single tenant. Without a cursor a list begins at its first row.
func (c *command) refuseEmpty() error {
	for _, in := range c.chosen().Inputs {
		if in.Name == "after" {
			continue
		}
		if f := c.cmd.Flags().Lookup(in.Name); f != nil && f.Changed && in.Kind == reflect.String && f.Value.String() == "" {
			return service.Usagef("--%s: must not be empty", in.Name)
		}
	}
	return nil
}

// required returns the flags of an operation that are required, as its help shows them.
func (c *command) required(o *operate.Operation) (all []string) {
	for _, s := range o.Subjects() {
		if s.IsFlag {
			all = append(all, "--"+s.Name+" "+cmp.Or(s.Value, strings.ToUpper(s.Name)))
		}
	}
	return all
}

func (c *command) addFlags() {
	flags := c.cmd.Flags()
	for _, in := range c.Inputs {
		doc := in.Doc
		if in.Value != "" { // as cobra marks it
			doc = strings.Replace(doc, in.Value, "`"+in.Value+"`", 1)
		}
		switch {
		case in.Subject && !in.IsFlag, in.Name == "after" && !c.Resumes, in.Argument != "":
		case in.Subject:
			flags.String(in.Name, "", doc)
			_ = c.cmd.MarkFlagRequired(in.Name)
		case in.Name == "limit":
			of := "print at most so many " + c.RowsMember()
			if c.Limit == 0 {
				of += " (default: all)"
			}
			flags.IntVar(&c.limit, "limit", c.Limit, of)
		case in.IsWords():
			flags.StringArray(in.Name, nil, doc)
		case in.IsBool():
			flags.Bool(in.Name, in.Default == "true", doc)
		case in.IsNumber():
			flags.Int64(in.Name, int64(in.Number()), doc)
		default:
			flags.String(in.Name, in.Default, doc)
		}
	}
	if c.IsPaged() && c.Limit > 0 {
		flags.BoolVar(&c.all, "all", false, "print all "+c.RowsMember())
		c.cmd.MarkFlagsMutuallyExclusive("all", "limit")
	}
	if c.Danger || c.NeedsYes {
		flags.BoolVar(&c.yes, "yes", false, "do not ask")
	}
	if c.Kind == operate.Download {
		flags.StringVarP(&c.output, "output", "o", "", "write to `FILE` (default: standard output)")
	} else {
		flags.BoolVar(&c.asJSON, "json", false, c.jsonDoc())
	}
}

func (c *command) jsonDoc() string {
	switch {
	case c.Found != nil:
		return "print a line of JSON for each finding, and one for the result"
	case c.Kind != operate.List:
		return "print the result as JSON"
	}
	return "print one line of JSON for each " + append([]string{"row"}, c.Names...)[len(c.Names)]
}

// hide hides the flags of a former spelling, which may print JSON always.
func (c *command) hide(isJSON bool) {
	c.asJSON = isJSON
	c.cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	c.cmd.DisableFlagsInUseLine = true
	c.cmd.Use = c.cmd.Name() + " COMMAND"
}

// addFormer adds a flag that was a former spelling: --VERB of another operation, or the subject.
func (c *command) addFormer(flag string, o *operate.Operation) {
	flags := c.cmd.Flags()
	if s := o.Input(flag); s == nil || !s.Subject {
		flags.Bool(flag, false, o.Doc)
	} else {
		flags.String(flag, "", s.Doc)
	}
	flags.Lookup(flag).Hidden = true
	for _, s := range c.Subjects() { // check requires the subjects of the selected operation
		if f := flags.Lookup(s.Name); f != nil {
			delete(f.Annotations, cobra.BashCompOneRequiredFlag)
		}
	}
	for other := range c.former {
		c.cmd.MarkFlagsMutuallyExclusive(flag, other)
	}
	c.former[flag] = o
}

// chosen returns the operation that the flags select.
func (c *command) chosen() *operate.Operation {
	for flag, o := range c.former {
		if c.cmd.Flags().Changed(flag) {
			return o
		}
	}
	return c.Operation
}

// arguments returns the arguments of an operation. Flags may have subjects.
func (c *command) arguments(o *operate.Operation) (all []string) {
	for _, s := range c.typedSubjects(o) {
		all = append(all, strings.ToUpper(s.Name))
	}
	return all
}

// typedSubjects returns the subjects that are arguments.
func (c *command) typedSubjects(o *operate.Operation) (all []operate.Input) {
	for _, s := range o.Subjects() {
		if !s.IsFlag && !(c.former[s.Name] == o && c.cmd.Flags().Changed(s.Name)) {
			all = append(all, s)
		}
	}
	return all
}

// text returns the value of a flag as an input takes it.
func text(v pflag.Value) string {
	if words, ok := v.(pflag.SliceValue); ok {
		return strings.Join(words.GetSlice(), " ")
	}
	return v.String()
}

// values returns the typed values by input. Without a limit a list has its own default.
func (c *command) values(args []string) map[string]string {
	o := c.chosen()
	values := map[string]string{}
	for _, in := range o.Inputs {
		f := c.cmd.Flags().Lookup(in.Name)
		if f == nil || !f.Changed && !(in.Name == "limit" && c.Limit > 0) {
			continue
		}
		values[in.Name] = text(f.Value)
	}
	typed := c.typedSubjects(o)
	for i, s := range typed {
		values[s.Name] = args[i]
	}
	if in := optional(o); in != nil && len(args) > len(typed) {
		values[in.Name] = args[len(typed)]
	}
	return values
}

func (c *command) run(ctx context.Context, args []string) error {
	o, values := c.chosen(), c.values(args)
	switch o.Kind {
	case operate.List:
		return c.list(ctx, values)
	case operate.Download:
		return c.download(ctx, o, values)
	}
	if err := c.confirm(ctx, o, values); err != nil {
		return err
	}
	r, err := c.runWatched(ctx, o, values, args)
	if r != nil {
		if err = errors.Join(c.show(o, r), err, c.more(r)); err == nil && r.IsPartial() {
			err = &service.ExitError{Status: 1}
		}
	}
	return c.typed(o, err)
}

// confirm asks before a change that is dangerous: on a terminal, and otherwise if the change needs it. On a terminal it first
// shows the result of a dry run.
func (c *command) confirm(ctx context.Context, o *operate.Operation, values map[string]string) error {
	if c.yes || values[operate.DryRun] == "true" || !o.NeedsYes && !(o.Danger && c.sh.CanAsk()) {
		return nil
	}
	if o.Input(operate.DryRun) != nil && c.sh.CanAsk() {
		trial := maps.Clone(values)
		trial[operate.DryRun] = "true"
		if r, err := o.Run(ctx, trial, nil); err != nil {
			return c.typed(o, err)
		} else if err := c.show(o, r); err != nil {
			return err
		}
	}
	var named []string
	for _, s := range slices.Backward(o.Subjects()) {
		named = append(named, s.Name+" "+service.Printable(values[s.Name]))
	}
	if !c.sh.Confirm(strings.TrimSpace(o.Ask+" "+o.LabelOf(strings.Join(named, " of "))) + "?") {
		return service.Usagef("nothing was changed; confirm with --yes")
	}
	return nil
}

// typed returns an error that names the input as it is typed.
func (c *command) typed(o *operate.Operation, err error) error {
	wrong, ok := errors.AsType[*operate.InputError](err)
	if !ok {
		return err
	}
	name := "--" + wrong.Input
	if in := optional(o); in != nil && in.Name == wrong.Input || slices.ContainsFunc(c.typedSubjects(o), func(s operate.Input) bool { return s.Name == wrong.Input }) {
		name = strings.ToUpper(wrong.Input)
	}
	return service.Usagef("%s: %s", name, wrong.Reason)
}
