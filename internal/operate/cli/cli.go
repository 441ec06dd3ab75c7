// Package cli makes operations' commands.
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

// Commands returns a service's command, with a command for each noun below it and a command for each operation below
// the noun. name is the service's name as the user types it, and "" for the server's own operations, whose nouns the
// caller moves to the root command. sh prints, asks, and runs the command with its database open: all its fields are
// required except Load and Clock.
//
// Arguments and values are checked before sh.Open is called. The command returns a *service.UsageError for them, a
// *service.ExitError with status 1 for a result that is Partial, and otherwise the errors of the operation and of
// sh.Open. It prints no error itself; the caller sets SilenceErrors and SilenceUsage on the root command.
func Commands(name string, all []operate.Operation, sh *service.Shell) *cobra.Command {
	root := &cobra.Command{Use: name}
	nouns := map[string]*cobra.Command{}
	first := map[string]*operate.Operation{}
	for i := range all {
		o := &all[i]
		if first[o.Noun()] == nil {
			first[o.Noun()] = o
		}
		if o.ServerOnly {
			continue
		}
		noun := nouns[o.Noun()]
		if noun == nil {
			noun = &cobra.Command{Use: o.Noun(), Short: first[o.Noun()].Group, Long: first[o.Noun()].Long}
			nouns[o.Noun()] = noun
			root.AddCommand(noun)
		}
		noun.AddCommand(spelled(sh, o, o.Verb(), name, o.Noun(), o.Verb()))
		if o.Short != "" {
			root.AddCommand(spelled(sh, o, o.Short, name, o.Short))
		}
	}
	return root
}

// spelled returns an operation's command with these words after holdfast.
func spelled(sh *service.Shell, o *operate.Operation, use string, words ...string) *cobra.Command {
	cmd := newCommand(sh, o, &cobra.Command{Use: use, Short: o.Doc}).cmd
	if o.Alias != "" {
		cmd.Aliases = []string{o.Alias}
	}
	for line := range strings.Lines(o.Example) {
		all := slices.Concat([]string{"holdfast"}, words, []string{strings.TrimRight(line, "\n")})
		cmd.Example += "  " + strings.Join(slices.DeleteFunc(all, func(word string) bool { return word == "" }), " ") + "\n"
	}
	cmd.Example = strings.TrimRight(cmd.Example, "\n")
	return cmd
}

// command is an operation's command while it runs.
type command struct {
	*operate.Operation
	sh  *service.Shell
	cmd *cobra.Command

	asJSON bool   // --json
	all    bool   // --all: every row of a paged list
	yes    bool   // --yes: do not ask
	limit  int    // --limit, in rows; 0: all
	output string // --output, the download's file; "": standard output
}

// newCommand completes cmd, with its verb and short help. Arguments and values are checked before sh.Run
// opens a database, so that a typing error is reported at once.
func newCommand(sh *service.Shell, o *operate.Operation, cmd *cobra.Command) *command {
	c := &command{Operation: o, sh: sh, cmd: cmd}
	if o.More != "" {
		cmd.Long = o.Doc + ".\n" + o.More
	}
	c.addFlags()
	cmd.Use = strings.Join(slices.Concat([]string{cmd.Use}, c.required(), c.arguments()), " ")
	if in := c.optional(); in != nil {
		cmd.Use += " [" + in.Argument + "]"
	}
	if o.Kind == operate.Upload {
		cmd.Use += map[bool]string{false: " FILE", true: " [FILE]"}[o.MayBeStdin]
	}
	cmd.Args = c.check
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.refuseEmpty(); err != nil {
			return err
		}
		if err := o.Check(c.values(args)); err != nil {
			return c.typed(err)
		}
		return sh.Run(c.run)(cmd, args)
	}
	return c
}

// optional returns the input with the tag arg, which is an optional last argument, or nil.
func (c *command) optional() *operate.Input {
	i := slices.IndexFunc(c.Inputs, func(in operate.Input) bool { return in.Argument != "" })
	if i < 0 {
		return nil
	}
	return &c.Inputs[i]
}

// check reports missing and superfluous arguments and missing required flags. It replaces cobra's own message for
// required flags, which spells several flags as a list in brackets.
func (c *command) check(cmd *cobra.Command, args []string) error {
	names := c.arguments()
	if c.Kind == operate.Upload && (!c.MayBeStdin || len(args) > len(names)) {
		names = append(names, "FILE")
	}
	if c.optional() != nil && len(args) > len(names) {
		args = slices.Delete(slices.Clone(args), len(names), len(names)+1)
	}
	if len(args) > len(names) {
		return service.Args(names...)(cmd, args)
	}
	var missing []string
	for _, s := range c.Subjects() {
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

// refuseEmpty rejects empty flags, e.g. from an unset variable: a list must not show all tenants instead of a single
// one.
func (c *command) refuseEmpty() error {
	for _, in := range c.Inputs {
		if in.Name == "after" {
			continue
		}
		if f := c.cmd.Flags().Lookup(in.Name); f != nil && f.Changed && in.Kind == reflect.String && f.Value.String() == "" {
			return service.Usagef("--%s: must not be empty", in.Name)
		}
	}
	return nil
}

// required returns the required flags with their placeholders, for the usage line.
func (c *command) required() (all []string) {
	for _, s := range c.Subjects() {
		if s.IsFlag {
			all = append(all, "--"+s.Name+" "+cmp.Or(s.Value, strings.ToUpper(s.Name)))
		}
	}
	return all
}

// addFlags declares a flag for each input that is not an argument, and the flags that all operations share, such as --json.
func (c *command) addFlags() {
	flags := c.cmd.Flags()
	for _, in := range c.Inputs {
		doc := in.Doc
		if in.Value != "" { // cobra takes the placeholder from back quotes
			doc = strings.Replace(doc, in.Value, "`"+in.Value+"`", 1)
		}
		switch {
		case in.Subject && !in.IsFlag, in.Name == "after" && !c.Resumes, in.Argument != "", in.Remote:
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

// jsonDoc returns the help for --json, which prints rows as lines.
func (c *command) jsonDoc() string {
	switch {
	case c.Found != nil:
		return "print a JSON line for each finding and for the result"
	case c.Kind != operate.List:
		return "print the result as JSON"
	}
	return "print a JSON line for each " + append([]string{"row"}, c.Names...)[len(c.Names)]
}

// arguments returns the required arguments' names, in upper case.
func (c *command) arguments() (all []string) {
	for _, s := range c.typedSubjects() {
		all = append(all, strings.ToUpper(s.Name))
	}
	return all
}

// typedSubjects returns the subjects that are arguments.
func (c *command) typedSubjects() []operate.Input {
	return slices.DeleteFunc(slices.Clone(c.Subjects()), func(s operate.Input) bool { return s.IsFlag })
}

// text returns a flag's value; several words are joined by spaces, as operate parses them.
func text(v pflag.Value) string {
	if words, ok := v.(pflag.SliceValue); ok {
		return strings.Join(words.GetSlice(), " ")
	}
	return v.String()
}

// values returns the input values by name. Flags that were not typed are missing, so that operate applies its
// defaults. check has accepted the number of args.
func (c *command) values(args []string) map[string]string {
	values := map[string]string{}
	for _, in := range c.Inputs {
		f := c.cmd.Flags().Lookup(in.Name)
		if f == nil || !f.Changed && !(in.Name == "limit" && c.Limit > 0) {
			continue
		}
		values[in.Name] = text(f.Value)
	}
	typed := c.typedSubjects()
	for i, s := range typed {
		values[s.Name] = args[i]
	}
	if in := c.optional(); in != nil && len(args) > len(typed) {
		values[in.Name] = args[len(typed)]
	}
	return values
}

// run runs the operation. A partial result prints like any other, and then exits with status 1.
func (c *command) run(ctx context.Context, args []string) error {
	values := c.values(args)
	switch c.Kind {
	case operate.List:
		return c.list(ctx, values)
	case operate.Download:
		return c.download(ctx, values)
	}
	if err := c.confirm(ctx, values); err != nil {
		return err
	}
	r, err := c.runWatched(ctx, values, args)
	if r != nil {
		if err = errors.Join(c.show(r), err, c.more(r)); err == nil && r.IsPartial() {
			err = &service.ExitError{Status: 1}
		}
	}
	return c.typed(err)
}

// confirm asks before a dangerous change, see About.Danger and About.NeedsYes. On a terminal it first shows a dry
// run. It returns an error if the answer is not yes.
func (c *command) confirm(ctx context.Context, values map[string]string) error {
	if c.yes || values[operate.DryRun] == "true" || !c.NeedsYes && !(c.Danger && c.sh.CanAsk()) {
		return nil
	}
	if c.Input(operate.DryRun) != nil && c.sh.CanAsk() {
		trial := maps.Clone(values)
		trial[operate.DryRun] = "true"
		if r, err := c.Run(ctx, trial, nil); err != nil {
			return c.typed(err)
		} else if err := c.show(r); err != nil {
			return err
		}
	}
	var named []string
	for _, s := range slices.Backward(c.Subjects()) {
		named = append(named, s.Name+" "+service.Printable(values[s.Name]))
	}
	if !c.sh.Confirm(strings.TrimSpace(c.Ask+" "+c.LabelOf(strings.Join(named, " of "))) + "?") {
		if c.sh.CanAsk() { // the answer was no
			return service.Usagef("nothing was changed")
		}
		return service.Usagef("nothing was changed; confirm with --yes")
	}
	return nil
}

// typed spells an *InputError's input as the user typed it: a flag or an argument. Other errors pass unchanged.
func (c *command) typed(err error) error {
	invalid, ok := errors.AsType[*operate.InputError](err)
	if !ok {
		return err
	}
	name := "--" + invalid.Input
	if in := c.optional(); in != nil && in.Name == invalid.Input || slices.ContainsFunc(c.typedSubjects(), func(s operate.Input) bool { return s.Name == invalid.Input }) {
		name = strings.ToUpper(invalid.Input)
	}
	return service.Usagef("%s: %s", name, invalid.Reason)
}
