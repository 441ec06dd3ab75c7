package buckets

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// shellKey is an access key with everything that an S3 client must know.
type shellKey struct {
	Account   string `json:"account"`
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Endpoint  string `json:"endpoint"`
	Region    string `json:"region"`
}

// lines returns commands for a POSIX shell. AWS_DEFAULT_REGION is for aws-cli and boto3, which ignore AWS_REGION.
// AWS_ENDPOINT_URL_S3 takes precedence over AWS_ENDPOINT_URL, so both are set. A session token from another server
// would be sent along with the key.
func (k *shellKey) lines() string {
	var b strings.Builder
	for _, v := range [][2]string{
		{"AWS_ACCESS_KEY_ID", k.AccessKey}, {"AWS_SECRET_ACCESS_KEY", k.SecretKey},
		{"AWS_ENDPOINT_URL", k.Endpoint}, {"AWS_ENDPOINT_URL_S3", k.Endpoint},
		{"AWS_REGION", k.Region}, {"AWS_DEFAULT_REGION", k.Region},
	} {
		fmt.Fprintf(&b, "export %s=%s\n", v[0], service.ShellQuoted(v[1]))
	}
	return b.String() + "unset AWS_SESSION_TOKEN\n"
}

// env returns the command that sets a shell's variables for S3 clients.
func (s *Buckets) env(sh *service.Shell) *cobra.Command {
	var key string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "env [ACCOUNT]",
		Short: "Print an access key and the endpoint as variables for a shell",
		Long: "Print an access key, its secret, the endpoint and the region as commands for a shell, which sets the\n" +
			"variables that S3 clients read. Without --key it chooses an active access key without limits. Without\n" +
			"ACCOUNT it is the account that the first start created.",
		Example: "  eval \"$(holdfast buckets env)\"\n" +
			"  eval \"$(holdfast buckets env photos-app)\"\n" +
			"  eval \"$(holdfast buckets env --key HFABCDEFGHIJKLMNOPQR)\"",
		Args: func(cmd *cobra.Command, args []string) error {
			return service.Args(args[:min(len(args), 1)]...)(cmd, args)
		},
		RunE: sh.Run(func(ctx context.Context, args []string) error {
			found, err := on(s, func(ctx context.Context, args []string) (shellKey, error) { return s.keyForShell(ctx, args, key) })(ctx, args)
			if err != nil {
				return err
			}
			if note := s.endpointNote(); note != "" {
				fmt.Fprintln(sh.Stderr, note)
			}
			if asJSON {
				return sh.PrintLine(found)
			}
			_, err = fmt.Fprint(sh.Stdout, found.lines())
			return err
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "use this access `KEY`, which may have limits")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// keyForShell returns the key with an ID, or a key for everything in an account. args is an account's name, or empty.
func (s *Buckets) keyForShell(ctx context.Context, args []string, id string) (k shellKey, err error) {
	k = shellKey{Endpoint: s.publicEndpoint(), Region: s.cfg.Region}
	name := s.usualAccount()
	if len(args) > 0 {
		name = args[0]
	}
	if id != "" {
		key, ok, err := s.keys.Find(ctx, id)
		switch {
		case err != nil:
			return k, err
		case !ok:
			return k, about(id, errcode.New(errcode.NotFound, "the access key does not exist, or is revoked: holdfast buckets keys list "+name+" shows the account's keys"))
		case len(args) > 0 && key.Account.Name != name:
			return k, about(id, errcode.New(errcode.NotFound, "the access key belongs to account "+key.Account.Name))
		case key.Expires != 0 && key.Expires <= s.opened.Now():
			return k, about(id, errcode.New(errcode.Conflict, "the access key has expired: holdfast buckets keys limit "+id+" --expires-in DURATION"))
		}
		k.Account, k.AccessKey, k.SecretKey = key.Account.Name, id, key.Secret
		return k, nil
	}
	a, err := s.account(ctx, name)
	if errcode.Is(err, errcode.NotFound) {
		return k, s.nameAccounts(ctx, err)
	}
	if err != nil {
		return k, err
	}
	key, err := s.unlimitedKey(ctx, a)
	k.Account, k.AccessKey, k.SecretKey = a.Name, key.id, key.secret
	return k, err
}

// usualAccount returns the account for users who name none: the first in the configuration, or else firstAccount.
func (s *Buckets) usualAccount() string {
	if len(s.cfg.Accounts) > 0 {
		return slices.Min(slices.Collect(maps.Keys(s.cfg.Accounts)))
	}
	return firstAccount
}

// nameAccounts adds the existing accounts to the error for an unknown account.
func (s *Buckets) nameAccounts(ctx context.Context, unknown error) error {
	all, err := s.opened.ListAccounts(ctx, "", buckets.MaxPage)
	if err != nil || len(all) == 0 {
		return fmt.Errorf("%w: make it with: holdfast buckets accounts create NAME", unknown)
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return fmt.Errorf("%w; accounts: %s", unknown, service.FirstNames(names))
}

// unlimitedKey returns a configured key or, of the stored keys without limits, the oldest that never expires. If all
// expire, it is the last to expire. The error counts the other keys.
func (s *Buckets) unlimitedKey(ctx context.Context, a buckets.Account) (newKey, error) {
	for _, k := range s.cfg.ConfiguredKeys() {
		if k.Account == a.Name {
			return newKey{k.ID, k.Secret}, nil
		}
	}
	var best *buckets.Key
	var revoked, expired, limited int64
	now := s.opened.Now()
	for after, more := "", true; more; {
		keys, err := s.opened.Keys(ctx, a.ID, after, buckets.MaxPage)
		if err != nil {
			return newKey{}, err
		}
		for i := range keys {
			k := &keys[i]
			after = k.ID
			switch {
			case k.Revoked != 0:
				revoked++
			case k.Expires != 0 && k.Expires <= now:
				expired++
			case !k.Limits.IsZero():
				limited++
			case best == nil || isBetter(k, best):
				best = k
			}
		}
		more = len(keys) == buckets.MaxPage
	}
	if best == nil {
		return newKey{}, errcode.Newf(errcode.NotFound, "%s: no active access key without limits: the account has %d limited, %d expired and %d revoked; "+
			"make one with: holdfast buckets keys create %[1]s, or choose one with --key", a.Name, limited, expired, revoked)
	}
	secret, err := s.keys.Secret(*best)
	return newKey{best.ID, secret}, err
}

// isBetter reports whether a lasts longer than b or, if both never expire, is older.
func isBetter(a, b *buckets.Key) bool {
	switch {
	case a.Expires == b.Expires:
		return a.Created < b.Created
	case a.Expires == 0 || b.Expires == 0:
		return a.Expires == 0
	}
	return a.Expires > b.Expires
}
