package app

import (
	"context"
	"io"

	"holdfast/internal/app/service"
	"holdfast/internal/check"
)

// Check checks everything that the configuration names; see check.Run.
func Check(ctx context.Context, cfg *Config, data string, o check.Options) []service.Finding {
	o.Open = func(ctx context.Context, name string, noSecrets bool) (*check.Opened, error) {
		return openForCheck(ctx, cfg.Only(name), data, noSecrets)
	}
	return check.Run(ctx, cfg.checked(data), o)
}

func (c *Config) checked(data string) *check.Server {
	s := &check.Server{
		Data: data, PublicURL: c.Server.PublicURL, Listen: c.Server.Listen, TLSCert: c.Server.TLSCert, TLSKey: c.Server.TLSKey,
		Domain: c.Server.Domain, ACMEDirectory: c.Server.ACMEDirectory, HTTPListen: c.Server.HTTPListen,
		Master: c.Server.MasterSecret.Reveal(), AdminToken: c.Server.AdminToken.Reveal(), ViewerToken: c.Server.ViewerToken.Reveal(),
		AdminListen: c.Server.AdminListen,
		Replica:     c.Replica, Backup: c.Backup, Services: c.Services, Listeners: c.listeners(), Secrets: c.generated(), Writable: checkWhole,
	}
	for _, old := range c.Server.OldMasterSecrets {
		s.OldMasters = append(s.OldMasters, old.Reveal())
	}
	return s
}

func openForCheck(ctx context.Context, one *Config, data string, noSecrets bool) (*check.Opened, error) {
	all := one.generated()
	restore := func() {
		for _, s := range all {
			if s.Unset {
				s.Set("")
			}
		}
	}
	o := Options{Config: one, Data: data, LogTo: io.Discard, Quiet: true, Leave: true, NoSecrets: true}
	if noSecrets {
		o.Unknown = withoutSecrets(all)
	}
	a, err := Open(ctx, o)
	if err != nil {
		restore()
		return nil, err
	}
	return &check.Opened{Services: a.running(), Guard: a.guard, Close: func() error {
		restore()
		return a.Close()
	}}, nil
}

// checkRunning skips the addresses, because this server itself listens on them.
func (a *App) checkRunning(ctx context.Context) []service.Finding {
	s := a.cfg.checked(a.data)
	s.Certificates, s.Replication = a.certificates, a.replication
	found := check.Running(ctx, s, &check.Opened{Services: a.running(), Guard: a.guard}, a.cfg.report)
	return append(found, a.reloadFindings()...)
}
