package service

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Shell is the command line as seen by service commands.
type Shell struct {
	Stdin  io.Reader // interactive if CanAsk
	Stdout io.Writer
	Stderr io.Writer

	// Load loads the configuration without opening services.
	Load func() error
	// Open loads the configuration and calls fn while all services are open.
	Open func(ctx context.Context, fn func(context.Context) error) error
}

// Run returns a cobra.Command.RunE that calls fn while all services are open.
func (s *Shell) Run(fn func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return s.Open(cmd.Context(), func(ctx context.Context) error { return fn(ctx, args) })
	}
}

// PrintJSON prints a value as JSON, indented for people.
func (s *Shell) PrintJSON(v any) error { return s.encode(v, "  ") }

// PrintLine prints a value as a JSON line.
func (s *Shell) PrintLine(v any) error { return s.encode(v, "") }

// Count formats a number with a noun: "1 record", "2 records".
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// FirstNames returns the first ten names and the number of others.
func FirstNames(names []string) string {
	const most = 10
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ShellQuoted quotes a text for a POSIX shell.
func ShellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// ParseTime parses a flag's time in RFC 3339. The error is a *UsageError.
func ParseTime(flag, value string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, Usagef("%s: invalid value %q: expected a time, e.g. 2026-11-21T15:04:05Z", flag, value)
	}
	return t, nil
}

// ExitError exits with a status, without a message.
type ExitError struct{ Status int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// FormatMoment formats a backup's or restore point's time.
func FormatMoment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// FormatMillis formats Unix milliseconds; 0 is "-".
func FormatMillis(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}
