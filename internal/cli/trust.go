package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
)

// trustFlags say whose signatures prove who wrote a repository.
type trustFlags struct {
	signedBy []string // keys, or files with a key
	unsigned bool     // accept a repository that nobody named a key for
	atLeast  string   // a time or a number; "": any
}

// add adds the flags to a command that reads repositories.
func (f *trustFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.signedBy, "signed-by", nil, "public signing `KEY` (hfsig1…) of the server that wrote it, or a file with it; repeatable")
	cmd.Flags().BoolVar(&f.unsigned, "unsigned", false, "accept data although nothing proves who wrote it")
	cmd.Flags().StringVar(&f.atLeast, "at-least", "", "refuse if the newest backup or restore point is older than this `TIME|NUMBER`, as holdfast backup printed it")
}

// expected parses --at-least.
func (f *trustFlags) expected() (e backup.Expected, err error) {
	if f.atLeast == "" {
		return e, nil
	}
	if e.Number, err = strconv.ParseUint(f.atLeast, 10, 64); err == nil {
		return e, nil
	}
	e.Time, err = service.ParseTime("--at-least", f.atLeast)
	return e, err
}

// trust returns the signers in the flags and in the identity file, and those of the server with a data folder, if any.
func (f *trustFlags) trust(identity, data string) (backup.Trust, error) {
	return backup.Trusting{SignedBy: f.signedBy, Identity: identity, Unsigned: f.unsigned, Data: data}.Trust()
}

// askTrust is trust for a restore. On a terminal it asks if nobody named a key.
func (c *command) askTrust(f *restoreFlags, from string) (t backup.Trust, err error) {
	t, err = f.trust(f.identity, "")
	if err != nil || len(t.Signers) > 0 || t.Unproven {
		return t, err
	}
	if !c.shell().CanAsk() {
		return t, service.Usagef("nothing proves who wrote %s, so anybody who can write there may have changed it: name the lost server's public signing key with --signed-by, or use --unsigned", from)
	}
	t.Unproven = c.shell().Confirm("Without --signed-by, nothing proves who wrote " + from + ", so anybody who can write there may have changed it. Restore it anyway?")
	if !t.Unproven {
		return t, service.Usagef("name the lost server's public signing key with --signed-by")
	}
	return t, nil
}
