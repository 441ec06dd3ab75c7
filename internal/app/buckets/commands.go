package buckets

import (
	"slices"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
)

// commands returns env, and the old `quota` command, which shows the quota or, with flags, sets it.
func (s *Buckets) commands(sh *service.Shell) []*cobra.Command {
	quota := &cobra.Command{Use: "quota", Hidden: true, DisableFlagParsing: true, RunE: func(cmd *cobra.Command, args []string) error {
		typed := []string{Name, "quotas", "show"}
		if slices.ContainsFunc(args, isFlag) {
			typed[2] = "set"
		}
		root := cmd.Root()
		root.SetArgs(append(typed, args...))
		return root.ExecuteContext(cmd.Context())
	}}
	cmd := &cobra.Command{Use: Name, Short: "Manage buckets: accounts, access keys, tokens, quotas and storage nodes"}
	cmd.AddCommand(quota, s.env(sh))
	return []*cobra.Command{cmd}
}

// isFlag reports whether the old command was used to set a quota.
func isFlag(arg string) bool { return len(arg) > 0 && arg[0] == '-' }
