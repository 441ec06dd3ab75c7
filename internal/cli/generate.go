package cli

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"holdfast/internal/app/service"
)

var shells = []string{"bash", "zsh", "fish", "powershell"} // arguments for holdfast completion

// bashCompletion replaces cobra's script, which needs the package bash-completion.
//
//go:embed completion.bash
var bashCompletion string

// completion prints the script for bash, or cobra's script for another shell.
func (c *command) completion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for bash, zsh, fish or powershell",
		Long: "Print a script that completes holdfast's commands and flags in a shell: bash, zsh, fish or powershell.\n" +
			"Holdfast's packages install the scripts for bash, zsh and fish.",
		Example: "  source <(holdfast completion bash)\n" +
			"  holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
		ValidArgs: shells,
		Args:      service.Args("SHELL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), c.env.Stdout
			switch args[0] {
			case "bash":
				_, err := io.WriteString(out, bashCompletion)
				return err
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return service.Usagef("unknown shell %q: expected %s", args[0], strings.Join(shells, ", "))
		},
	}
}

// unquoteFlags removes the quotes from the placeholders in the flags' texts, e.g. `FILE`. Help needs the quotes, but shells
// show the texts as they are.
func unquoteFlags(cmd *cobra.Command) {
	unquote := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	cmd.PersistentFlags().VisitAll(unquote)
	cmd.Flags().VisitAll(unquote)
	for _, sub := range cmd.Commands() {
		unquoteFlags(sub)
	}
}

// man writes the manual pages for packages.
func (c *command) man() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages to a folder",
		Long: "Write a manual page for each command to a folder: holdfast.1, holdfast-serve.1 and so on. The\n" +
			"folder is created when it does not exist. SOURCE_DATE_EPOCH sets the pages' date.",
		Example: "  holdfast man /usr/local/share/man/man1",
		Args:    service.Args("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := c.manDate()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // all users read manual pages
				return err
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{
				Section: "1", Date: &date, Source: "Holdfast " + c.env.Version.Version, Manual: "Holdfast manual",
			}, args[0])
		},
	}
}

// manDate returns the manual pages' date: SOURCE_DATE_EPOCH for a reproducible build, or today.
func (c *command) manDate() (time.Time, error) {
	epoch := c.getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return time.Now().UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: invalid value %q: expected seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
