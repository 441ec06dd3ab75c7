package service

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// UsageError means wrong command usage: the program refers to the command's help and exits with status 2.
type UsageError struct {
	Message string
	Command *cobra.Command // whose help to read; nil: the failed command
}

func (e *UsageError) Error() string { return e.Message }

// Usagef returns a *UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// Args requires one argument per name, e.g. ACCOUNT.
func Args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usagef("%s is required", names[len(args)])
		case len(args) == len(names):
			return nil
		case len(names) == 0 && cmd.HasAvailableSubCommands():
			return UnknownCommand(cmd, args[0])
		}
		return Usagef("unexpected argument %q", args[len(names)])
	}
}

// FirstCommand returns the path of the first matching available command below a command, or "". It checks direct
// subcommands first.
func FirstCommand(below *cobra.Command, matches func(*cobra.Command) bool) string {
	for _, cmd := range below.Commands() {
		if cmd.IsAvailableCommand() && matches(cmd) {
			return cmd.CommandPath()
		}
	}
	for _, cmd := range below.Commands() {
		if path := FirstCommand(cmd, matches); path != "" {
			return path
		}
	}
	return ""
}

// UnknownCommand returns the error for an unknown command, with a similar one and the existing ones.
func UnknownCommand(parent *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q", name)
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	} else if path := FirstCommand(parent, func(c *cobra.Command) bool { return c.Name() == name }); !parent.HasParent() && path != "" {
		text += fmt.Sprintf("; did you mean %q?", path)
	}
	commands := []string{text + "\nCommands:"}
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() {
			commands = append(commands, cmd.Name())
		}
	}
	return &UsageError{Message: strings.Join(commands, " "), Command: parent}
}
