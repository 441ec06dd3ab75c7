package service

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// UsageError is a command that cannot be run as it was typed. The program prints
// it with the name of the command's help and exits with status 2.
type UsageError struct {
	Message string
	Command *cobra.Command // whose help to read; nil: the command's own
}

func (e *UsageError) Error() string { return e.Message }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// Args makes a command take one argument for each name, such as ACCOUNT, and no
// more.
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

// UnknownCommand returns the error for a command that is not one of parent's.
func UnknownCommand(parent *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q", name)
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	commands := []string{text + "\nCommands:"}
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() {
			commands = append(commands, cmd.Name())
		}
	}
	return &UsageError{Message: strings.Join(commands, " "), Command: parent}
}
