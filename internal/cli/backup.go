package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/check"
)

// backup is the command for both kinds of backups: increments in a repository at a URL, and a full copy in a new
// folder.
func (c *command) backup() *cobra.Command {
	var o backup.Options
	var identity string
	cmd := &cobra.Command{
		Use:   "backup [URL|DIR]",
		Short: "Back up the SQLite databases, the secrets file and object bodies while the server runs",
		Long: "Add a backup at URL, a folder (file:///mnt/backup) or a bucket (s3://, gs://, azblob://), while the server runs.\n" +
			"It contains the SQLite databases, each consistent in itself, and the secrets file. Only changes since the previous\n" +
			"backup are sent, encrypted for backup.recipients, and read back. Without recipients, or with --identity, the\n" +
			"databases are also restored temporarily and read. Then old backups are deleted according to backup.keep. URL\n" +
			"defaults to backup.url.\n\n" +
			"With DIR, copy the databases, the secrets file, and object bodies from file nodes to the new folder DIR. Its\n" +
			"parent folder must exist. DIR is named DIR.partial-… until it is complete, and must not be in the data folder.\n" +
			"To restore, stop the server, move its data folder away and put a copy of the backup in its place.\n\n" +
			"PostgreSQL and Spanner databases are not in a backup: use their own tools, first. Bodies on cloud nodes are not\n" +
			"in it either.",
		Example: "  holdfast backup\n" +
			"  holdfast backup file:///mnt/disk/holdfast\n" +
			"  holdfast backup /var/backups/holdfast/$(date +%F)",
		Args: optional("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !strings.Contains(args[0], "://") {
				if identity != "" {
					return service.Usagef("--identity is for backups to a URL")
				}
				return c.backupFolder(cmd.Context(), args[0], o)
			}
			if o.WithoutFiles {
				return service.Usagef("--no-bodies is for backups to a folder")
			}
			return c.backupURL(cmd.Context(), args, identity)
		},
	}
	cmd.AddCommand(c.verifyBackup(), c.listBackups(), c.backupKey())
	cmd.Flags().BoolVar(&o.WithoutFiles, "no-bodies", false, "with DIR: leave out object bodies on storage nodes, and print which nodes hold them")
	cmd.Flags().StringVar(&identity, "identity", "", "with URL: also verify an encrypted backup, with the private key in `FILE`")
	_ = cmd.MarkFlagFilename("identity")
	return cmd
}

// optional accepts no argument, or one.
func optional(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return service.Args(name)(cmd, args)
	}
}

// backupFolder prints each file name that it copied, also if the backup then fails.
func (c *command) backupFolder(ctx context.Context, dir string, o backup.Options) error {
	// Do not migrate: before an upgrade, the new binary may make the backup.
	return c.with(ctx, app.ModeKeepSchema, func(ctx context.Context, a *app.App) error {
		bar := c.shell().Bar("bodies", 0)
		o.Progress = bar.ShowOf
		files, err := a.Backup(ctx, dir, o)
		bar.End()
		for _, f := range files {
			fmt.Fprintln(c.env.Stdout, f)
		}
		return err
	})
}

// backupURL prints how far the backup was verified, and on standard error the key that a restore asks for. It checks
// the settings before it opens the services, so that a mistake costs no time. identity is a file with a private key,
// or "".
func (c *command) backupURL(ctx context.Context, args []string, identity string) error {
	cfg, _, err := c.read()
	if err != nil {
		return err
	}
	s := backup.Sending{Settings: cfg.Backup, Identity: identity, Progress: c.step}
	if len(args) == 1 {
		s.URL, s.Typed = args[0], args[0] != cfg.Backup.URL
	}
	if s.URL == "" {
		return service.Usagef("URL or DIR is required, because backup.url is not set")
	}
	if problems := s.Check(); len(problems) > 0 {
		if problems[0].Key == "url" {
			return service.Usagef("%q %s", s.URL, problems[0].What)
		}
		return fmt.Errorf("backup.%s %s", problems[0].Key, problems[0].What)
	}
	return c.with(ctx, app.ModeKeepSchema, func(ctx context.Context, a *app.App) error {
		replaced, err := a.ReplacedBackups(&s.Settings)
		if err != nil {
			return err
		}
		c.step(replaced)
		sent, err := a.SendBackup(ctx, &s)
		if err != nil {
			return err
		}
		verified := "sent data was read back, but not restored"
		switch {
		case sent.Restored:
			verified = "it was restored and read"
		case len(sent.Point.Files) == 0:
			verified = "sent data was read back; it contains no database"
		}
		_, err = c.shell().Printf("%s: backup %d from %s: %s\n", sent.Name, sent.Point.Number, sent.Point.Time.UTC().Format(time.RFC3339), verified)
		fmt.Fprintln(c.env.Stderr, "# signed by:", sent.Point.Key)
		return err
	})
}

// backupAddress returns the argument, or else backup.url.
func (c *command) backupAddress(args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	cfg, err := c.load()
	if err == nil && cfg.Backup.URL == "" {
		err = service.Usagef("URL is required, because backup.url is not set")
	}
	if err != nil {
		return "", err
	}
	return cfg.Backup.URL, nil
}

// verifyBackup prints findings like holdfast check. Damage ends with status 1.
func (c *command) verifyBackup() *cobra.Command {
	var identity, at string
	var trusted trustFlags
	cmd := &cobra.Command{
		Use:   "verify [URL|DIR]",
		Short: "Read a backup's databases and secrets file, and report damage",
		Long: "Read a backup's SQLite databases and secrets file completely, and report damage. The backup is not changed, and\n" +
			"may be on a read-only disk. A backup at a URL is restored database by database into a temporary folder (TMPDIR),\n" +
			"and its object bodies are read. URL defaults to backup.url. Bodies in a folder are not read: every read and\n" +
			"buckets audits run verify their checksums. The exit status is 1 when something is wrong. Signatures must be of\n" +
			"this data folder's server, of a server in --signed-by, or of one that the identity file names.",
		Example: "  holdfast backup verify --identity backup.key\n" +
			"  holdfast backup verify /var/backups/holdfast/2026-11-21",
		Args: optional("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := c.backupAddress(args)
			if err != nil {
				return err
			}
			var findings []service.Finding
			if strings.Contains(address, "://") {
				findings, err = c.verifyURL(cmd.Context(), address, identity, at, &trusted)
			} else {
				findings, err = check.Backup(cmd.Context(), address, c.step)
			}
			if err != nil {
				return err
			}
			return c.printFindings(findings)
		},
	}
	cmd.Flags().StringVar(&identity, "identity", "", "decrypt with the private key in `FILE`, created by holdfast backup key")
	cmd.Flags().StringVar(&at, "time", "", "verify the newest backup at or before this `TIME`, e.g. 2026-11-21T15:04:05Z")
	_ = cmd.MarkFlagFilename("identity")
	trusted.add(cmd)
	return cmd
}

// verifyURL restores a backup's databases into TMPDIR and reads it. at is from --time, or "": the newest backup.
func (c *command) verifyURL(ctx context.Context, address, identity, at string, trusted *trustFlags) ([]service.Finding, error) {
	trust, err := trusted.trust(identity, c.data)
	if err != nil {
		return nil, err
	}
	v := backup.Verifying{Clouds: c.clouds(), URL: address, Known: backup.NamesOf(c.services), Trust: trust, Identity: identity, Temporary: os.TempDir(), Progress: c.step, Bodies: c.eachBody}
	if v.AtLeast, err = trusted.expected(); err != nil {
		return nil, err
	}
	if at != "" {
		if v.At, err = parseMoment(at); err != nil {
			return nil, err
		}
	}
	return backup.Verify(ctx, v)
}

// eachBody calls fn with the files that restored services refer to, e.g. object bodies, so that package backup can
// read them. It opens the databases in folder without changing them.
func (c *command) eachBody(ctx context.Context, folder string, services []string, fn func(of, name string, size int64) error) error {
	if len(services) == 0 {
		return nil
	}
	a, err := c.openRestored(ctx, folder, services, app.ModeReadBackup)
	if err != nil {
		return err
	}
	return errors.Join(backup.EachFile(ctx, a.Services(), fn), a.Close())
}

// listedBackup is a line in holdfast backup list --json.
type listedBackup struct {
	At    time.Time `json:"at"`              // all writes acknowledged before are included
	Has   []string  `json:"has"`             // databases and other files
	Lacks []string  `json:"lacks,omitempty"` // files in other listed backups

	Size *backup.Size `json:"size,omitempty"` // took in nanoseconds
}

// sizes returns "-" for a restore point of a replica, which has no sizes.
func sizes(s *backup.Size) (databases, sent, took string) {
	if s == nil {
		return "-", "-", "-"
	}
	return service.FormatBytes(s.Databases), service.FormatBytes(s.Sent), s.Duration()
}

// listBackups reads no data and verifies no signature, so it needs no key.
func (c *command) listBackups() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [URL]",
		Short: "List the backups in a folder or bucket, or a replica's restore points",
		Long: "List the backups at URL, newest first, or a replica's restore points, with their age and content, and\n" +
			"which databases in other listed backups they lack. This needs no key. URL defaults to backup.url.",
		Example: "  holdfast backup list",
		Args:    optional("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := c.backupAddress(args)
			if err != nil {
				return err
			}
			if !strings.Contains(address, "://") {
				return service.Usagef("URL: invalid value %q: expected a URL such as file:///mnt/backup or s3://bucket?prefix=holdfast/", address)
			}
			// A list proves nothing, and needs no key.
			all, err := backup.List(cmd.Context(), backup.Listing{Clouds: c.clouds(), URL: address, Known: backup.NamesOf(c.services), Trust: backup.Trust{Unproven: true}})
			if err != nil {
				return err
			}
			w, has := c.shell().Table(), []string{}
			if !asJSON && len(all) > 0 {
				w.Printf("MADE\tAGE\tDATABASES\tSENT\tTOOK\tCONTENT\tLACKS\n")
			}
			for _, b := range all {
				has = append(has, b.Has...)
			}
			for _, b := range all {
				lacks := backup.Missing(b.Has, has)
				if asJSON {
					err = errors.Join(err, c.shell().PrintLine(listedBackup{b.At, b.Has, lacks, b.Size}))
					continue
				}
				databases, sent, took := sizes(b.Size)
				w.Printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", b.At.UTC().Format("2006-01-02T15:04:05.000Z"), age(c.clock()().Sub(b.At)), databases, sent, took,
					strings.Join(b.Has, ", "), cmp.Or(strings.Join(lacks, ", "), "-"))
			}
			return errors.Join(err, w.Flush())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON line for each backup")
	return cmd
}

// age rounds a backup's age for display.
func age(d time.Duration) time.Duration {
	if d < time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}

// backupKey writes the private key to standard output, and everything else to standard error, so that a redirection
// gets only the key file.
func (c *command) backupKey() *cobra.Command {
	return &cobra.Command{
		Use:   "key",
		Short: "Print a new private key for encrypted backups and replicas",
		Long: "Print a new private key (age), in age-keygen's format, for encrypted backups and replicas. Keep it away from this\n" +
			"machine: without it, nothing can be restored. The server needs only the public key, in backup.recipients and\n" +
			"replica.recipients. If the data folder has a signing key, the output names its public key, too: a restore with this\n" +
			"file then expects that signature.",
		Example: "  holdfast backup key >backup.key",
		Args:    service.Args(),
		RunE: func(*cobra.Command, []string) error {
			signer, err := backup.KnownSigner(c.data)
			if err != nil {
				return err
			}
			file, public, err := backup.NewKey(c.clock()(), signer)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.env.Stderr, "public key:", public)
			if signer.IsZero() {
				fmt.Fprintln(c.env.Stderr, "this data folder has no signing key yet: add the line \"# signed by:\" that holdfast backup prints to the file")
			} else {
				fmt.Fprintln(c.env.Stderr, "signed by:", signer)
			}
			_, err = fmt.Fprint(c.env.Stdout, file)
			return err
		},
	}
}
