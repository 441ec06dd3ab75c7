package ext

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
)

func (c *command) usage() *cobra.Command {
	var (
		o             owner
		audit, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "usage [--tenant T [--install I]]",
		Short: "Show how much installs store; with --audit, verify the counters",
		Long: "Show how much an install stores and may store, as quotas count it. Without --install show all\n" +
			"installs of the tenant, without --tenant those of all tenants: a line for each install that has or\n" +
			"had a record.\n\n" +
			"With --audit count the rows and compare them with the counters. Of several installs, only those\n" +
			"that differ are printed, including those that have rows but no counters. The exit status is 1 when\n" +
			"something differs. Servers can keep running.",
		Example: "  holdfast ext usage\n" +
			"  holdfast ext usage --tenant $TENANT --install $INSTALL\n" +
			"  holdfast ext usage --audit",
	}
	o.optional(cmd)
	given := cmd.Flags().Changed // an empty --tenant or --install is an error, and does not mean all
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if given("install") && !given("tenant") {
			return service.Usagef("--install requires --tenant")
		}
		return service.Args()(cmd, args)
	}
	cmd.RunE = c.withService(func(ctx context.Context, s *ext.Service) error {
		span := ext.Span{All: true}
		if given("tenant") {
			who, err := o.parse(given("install"))
			if err != nil {
				return err
			}
			if given("install") {
				if audit {
					return c.auditOf(ctx, s, who, asJSON)
				}
				return c.usageOf(ctx, s, who, asJSON)
			}
			span = ext.Span{Tenant: who.Tenant}
		}
		if audit {
			return c.auditAll(ctx, s, span, asJSON)
		}
		return c.listUsage(ctx, s, span, c.now(), asJSON)
	})
	cmd.Flags().BoolVar(&audit, "audit", false, "count all rows and compare them with the counters")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each install")
	return cmd
}

// usageLine is an install as JSON, with the members of the API.
type usageLine struct {
	Tenant      ext.TenantID     `json:"tenant"`
	Install     ext.InstallID    `json:"install"`
	Tier        string           `json:"tier"`
	RevokedAt   *time.Time       `json:"revokedAt"`
	Bytes       map[string]int64 `json:"bytes"`
	Keys        map[string]int64 `json:"keys"`
	Namespaces  map[string]int64 `json:"namespaces"`
	ByNamespace []namespaceLine  `json:"byNamespace,omitempty"`
}

type namespaceLine struct {
	Namespace ext.Namespace `json:"namespace"`
	Keys      int64         `json:"keys"`
	Bytes     int64         `json:"bytes"`
}

func newUsageLine(in *ext.InstallUsage, q ext.Quota) usageLine {
	line := usageLine{
		Tenant: in.Tenant, Install: in.Install, Tier: in.Registered.Tier,
		Bytes:      map[string]int64{"used": in.Bytes, "limit": q.Bytes},
		Keys:       map[string]int64{"used": in.Keys, "limitPerNamespace": q.Keys},
		Namespaces: map[string]int64{"used": in.Namespaces, "limit": q.Namespaces},
	}
	if at := in.Registered.RevokedAt; at != 0 {
		revoked := at.Time()
		line.RevokedAt = &revoked
	}
	return line
}

// auditOf compares the counters of an install with its rows.
func (c *command) auditOf(ctx context.Context, s *ext.Service, o ext.Owner, asJSON bool) error {
	found, err := s.AuditInstall(ctx, o)
	if err != nil {
		return err
	}
	if err := c.printAudit(o, &found, asJSON); err != nil {
		return err
	}
	if !found.Right() {
		return errors.New("the counters of the install differ from the rows")
	}
	return nil
}

// usageOf prints the usage of an install, which need not be registered and may be
// revoked.
func (c *command) usageOf(ctx context.Context, s *ext.Service, o ext.Owner, asJSON bool) error {
	now := c.now()
	registered, err := s.ShowInstall(ctx, o)
	if err != nil && !errors.Is(err, ext.ErrNoInstall) {
		return err
	}
	u, err := s.InstallUsage(ctx, o, now)
	if err != nil {
		return err
	}
	q := registered.Quota(s.QuotaOf(registered.Tier), now)
	if asJSON {
		line := newUsageLine(&ext.InstallUsage{Owner: o, Counters: u.Counters, Registered: registered}, q)
		for _, n := range u.Namespaces {
			line.ByNamespace = append(line.ByNamespace, namespaceLine(n))
		}
		return c.PrintLine(line)
	}
	w := c.Table()
	w.Printf("bytes\t%d of %d\nnamespaces\t%d of %d\nkeys\t%d, of %d in each namespace\n",
		u.Counters.Bytes, q.Bytes, u.Counters.Namespaces, q.Namespaces, u.Counters.Keys, q.Keys)
	for _, n := range u.Namespaces {
		w.Printf("  %s\t%s, %s\n", n.Namespace, service.Count(n.Keys, "key"), service.Count(n.Bytes, "byte"))
	}
	return w.Flush()
}

// usageRow has columns of a fixed width, because a million lines cannot be buffered to
// find the widest.
const usageRow = "%-36s  %-36s  %14v  %6s  %9v  %10v\n"

func (c *command) listUsage(ctx context.Context, s *ext.Service, span ext.Span, now ext.Moment, asJSON bool) error {
	if !asJSON {
		if _, err := c.Printf(usageRow, "TENANT", "INSTALL", "BYTES", "SHARE", "KEYS", "NAMESPACES"); err != nil {
			return err
		}
	}
	err := s.EachUsage(ctx, span, func(page []ext.InstallUsage) error {
		for i := range page {
			in := &page[i]
			q := in.Registered.Quota(s.QuotaOf(in.Registered.Tier), now)
			var err error
			if asJSON {
				err = c.PrintLine(newUsageLine(in, q))
			} else {
				share := fmt.Sprintf("%.1f%%", 100*float64(in.Bytes)/float64(q.Bytes))
				_, err = c.Printf(usageRow, in.Tenant, in.Install, in.Bytes, share, in.Keys, in.Namespaces)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return errStopped
	}
	return err
}

// errStopped is the error of an interrupted command.
var errStopped = errors.New("stopped before the end")

// namedMost is the maximum number of installs in an error; the output has all.
const namedMost = 10

// auditAll prints every install as JSON, or those that differ as text.
func (c *command) auditAll(ctx context.Context, s *ext.Service, span ext.Span, asJSON bool) error {
	audited, wrong, named := 0, 0, ""
	err := s.AuditAll(ctx, span, func(o ext.Owner, found *ext.Audit) error {
		audited++
		if !found.Right() {
			if wrong++; wrong <= namedMost {
				named += fmt.Sprintf("\n  install %s of tenant %s", o.Install, o.Tenant)
			}
			if !asJSON {
				if _, err := c.Printf("tenant %s, install %s\n", o.Tenant, o.Install); err != nil {
					return err
				}
				return c.printAudit(o, found, false)
			}
		}
		if asJSON {
			return c.printAudit(o, found, true)
		}
		return nil
	})
	if ctx.Err() != nil {
		err = errStopped
	}
	if !asJSON {
		if _, failed := c.Printf("installs audited: %d, with differences: %d\n", audited, wrong); failed != nil {
			return failed
		}
	}
	if wrong > 0 {
		if wrong > namedMost {
			named += fmt.Sprintf("\n  and %d more", wrong-namedMost)
		}
		err = errors.Join(err, fmt.Errorf("the counters of %d of %s differ from the rows:%s", wrong, service.Count(int64(audited), "install"), named))
	}
	return err
}

// auditLine is an audit as JSON.
type auditLine struct {
	Tenant     ext.TenantID   `json:"tenant"`
	Install    ext.InstallID  `json:"install"`
	Right      bool           `json:"right"`
	Counters   countersLine   `json:"counters"`
	Rows       countersLine   `json:"rows"`
	Namespaces []namespaceGap `json:"namespaces,omitempty"` // that differ
}

type countersLine struct {
	Bytes      int64 `json:"bytes"`
	Keys       int64 `json:"keys"`
	Namespaces int64 `json:"namespaces"`
}

type namespaceGap struct {
	Namespace ext.Namespace `json:"namespace"`
	Counter   int64         `json:"counter"`
	Rows      int64         `json:"rows"`
}

func (c *command) printAudit(o ext.Owner, found *ext.Audit, asJSON bool) error {
	if asJSON {
		line := auditLine{
			Tenant: o.Tenant, Install: o.Install, Right: found.Right(),
			Counters: countersLine(found.Counters), Rows: countersLine(found.Counted),
		}
		for _, n := range found.Namespaces {
			line.Namespaces = append(line.Namespaces, namespaceGap{n.Namespace, n.Keys, n.Counted})
		}
		return c.PrintLine(line)
	}
	w := c.Table()
	w.Printf("WHAT\tCOUNTER\tROWS\n")
	w.Printf("bytes\t%d\t%d\nkeys\t%d\t%d\nnamespaces\t%d\t%d\n", found.Counters.Bytes, found.Counted.Bytes,
		found.Counters.Keys, found.Counted.Keys, found.Counters.Namespaces, found.Counted.Namespaces)
	for _, n := range found.Namespaces {
		w.Printf("keys of %s\t%d\t%d\n", n.Namespace, n.Keys, n.Counted)
	}
	return w.Flush()
}
