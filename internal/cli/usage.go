package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/durations"
)

// usage replaces cobra's template, because with text/template the linker cannot remove unused methods: 10 MB.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() && cmd.Use != cmd.Name()+" COMMAND" {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		for _, group := range cmd.Groups() {
			listCommands(&b, group.Title, cmd, group.ID)
		}
		if len(cmd.Groups()) == 0 {
			listCommands(&b, "Commands:", cmd, "")
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsages(), " \n"))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nGlobal flags:\n%s\n", strings.TrimRight(cmd.InheritedFlags().FlagUsages(), " \n"))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nRun '%s COMMAND --help' for help on a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// listCommands writes the available commands in a group, aligned.
func listCommands(b *strings.Builder, title string, cmd *cobra.Command, group string) {
	fmt.Fprintf(b, "\n%s\n", title)
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.GroupID == group {
			fmt.Fprintf(b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
}

// printVersion adds --version to a command. Cobra's own flag would print a template.
func printVersion(cmd *cobra.Command, version string) {
	show := cmd.Flags().BoolP("version", "v", false, "print the version")
	other := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *show {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		}
		return other(cmd, args)
	}
}

// completeCommands applies completeGroup to a command and all its subcommands.
func completeCommands(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeCommands(sub)
	}
	completeGroup(cmd)
}

// durationFlag is the value of a flag that takes a duration. Unlike pflag's, it has days and weeks.
type durationFlag time.Duration

func (d *durationFlag) Set(text string) error {
	parsed, err := durations.Parse(text)
	*d = durationFlag(parsed)
	return err
}

func (d *durationFlag) String() string { return durations.Format(time.Duration(*d)) }

// Type is the name of the type for function expected.
func (*durationFlag) Type() string { return "duration" }

// completeGroup makes a command with only subcommands print its help, and reject unknown subcommands.
func completeGroup(cmd *cobra.Command) {
	if cmd.Runnable() || !cmd.HasAvailableSubCommands() {
		return
	}
	cmd.Use = cmd.Name() + " COMMAND"
	cmd.DisableFlagsInUseLine = true
	cmd.Args = service.Args()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// help replaces Cobra's help command, which prints the root help for an unknown command.
func (c *command) help() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  holdfast help tokenserver accounts list",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			of, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range of.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return service.UnknownCommand(of, rest[0])
			}
			return of.Help()
		},
	}
}

// flagError turns pflag's errors into messages that name flags as they are typed and give the expected value.
func flagError(cmd *cobra.Command, err error) error {
	// If the command is unknown, its flags are, too.
	if typed := cmd.Flags().Args(); len(typed) > 0 && strings.HasSuffix(cmd.Use, " COMMAND") {
		return service.UnknownCommand(cmd, typed[0])
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(cmd, unknown)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return service.Usagef("--%s: value required: expected %s", missing.GetFlag().Name, expected(missing.GetFlag()))
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := expected(invalid.GetFlag())
		if errors.Is(err, strconv.ErrRange) {
			want += " in range"
		}
		return service.Usagef("--%s: invalid value %q: expected %s", invalid.GetFlag().Name, invalid.GetValue(), want)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return service.Usagef("invalid flag %q", invalid.GetSpecifiedFlag())
	}
	return &service.UsageError{Message: err.Error()}
}

// unknownFlag suggests a flag with a similar name, or a subcommand that has the flag.
func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	names := []string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		typed, _, _ := strings.Cut(short, "=")
		if near := conf.Nearest(typed, names); near != "" { // typed with a single dash
			return service.Usagef("unknown flag -%s; did you mean --%s?", typed, near)
		}
		return service.Usagef("unknown flag -%c", []rune(unknown.GetSpecifiedName())[0])
	}
	name := unknown.GetSpecifiedName()
	if near := conf.Nearest(name, names); near != "" {
		return service.Usagef("unknown flag --%s; did you mean --%s?", name, near)
	}
	if other := service.FirstCommand(cmd, func(c *cobra.Command) bool { return c.Flags().Lookup(name) != nil }); other != "" {
		return service.Usagef("unknown flag --%s; did you mean %s --%s?", name, other, name)
	}
	return service.Usagef("unknown flag --%s", name)
}

// expected describes a flag's value: by its type, or by the name in its help.
func expected(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	case "duration":
		return durations.Expected
	}
	if name, _ := pflag.UnquoteUsage(f); name != "" && name != "string" {
		return name
	}
	return "text"
}

// Cobra's annotations for MarkFlagsMutuallyExclusive, MarkFlagsRequiredTogether and MarkFlagsOneRequired.
const (
	exclusiveFlags = "cobra_annotation_mutually_exclusive"
	togetherFlags  = "cobra_annotation_required_if_others_set"
	oneOfFlags     = "cobra_annotation_one_required"
)

// checkFlags replaces Cobra's errors, which do not name flags as typed.
func checkFlags(cmd *cobra.Command) error {
	var missing []string
	groups := map[string][][]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(f.Annotations[cobra.BashCompOneRequiredFlag], "true") && !f.Changed {
			missing = append(missing, f.Name)
		}
		for kind, members := range f.Annotations {
			for _, names := range members {
				groups[kind] = append(groups[kind], strings.Fields(names))
			}
		}
	})
	if len(missing) > 0 {
		return service.Usagef("%s required", are(flagNames(missing, "and"), len(missing)))
	}
	for _, group := range groups[exclusiveFlags] {
		if given, _ := divide(cmd, group); len(given) > 1 {
			return service.Usagef("%s cannot be used together", flagNames(given, "and"))
		}
	}
	for _, group := range groups[oneOfFlags] {
		if given, _ := divide(cmd, group); len(given) == 0 {
			return service.Usagef("%s is required", flagNames(group, "or"))
		}
	}
	for _, group := range groups[togetherFlags] {
		if given, missing := divide(cmd, group); len(given) > 0 && len(missing) > 0 {
			return service.Usagef("%s %s", flagNames(given, "and"), needs(flagNames(missing, "and"), len(given)))
		}
	}
	return nil
}

// divide separates flags that were typed from others.
func divide(cmd *cobra.Command, names []string) (given, missing []string) {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			given = append(given, name)
		} else {
			missing = append(missing, name)
		}
	}
	return given, missing
}

// flagNames joins flags as typed, e.g. "--a, --b and --c".
func flagNames(names []string, conjunction string) string {
	typed := make([]string, len(names))
	for i, name := range names {
		typed[i] = "--" + name
	}
	last := len(typed) - 1
	if last == 0 {
		return typed[0]
	}
	return fmt.Sprintf("%s %s %s", strings.Join(typed[:last], ", "), conjunction, typed[last])
}

// are agrees in number with its subject: it counts n flags.
func are(subject string, n int) string {
	if n == 1 {
		return subject + " is"
	}
	return subject + " are"
}

// needs agrees in number with its subject, which counts n flags.
func needs(object string, n int) string {
	if n == 1 {
		return "requires " + object
	}
	return "require " + object
}
