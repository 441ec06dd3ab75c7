package app

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/secrets"
)

// generated returns the secrets that are generated if the operator does not set them.
func (c *Config) generated() []secrets.Secret {
	srv := &c.Server
	all := []secrets.Secret{
		{Setting: secrets.Master, Unset: srv.MasterSecret == "", Set: func(s string) { srv.MasterSecret = conf.Secret(s) }},
		{Setting: secrets.Admin, Unset: srv.AdminToken == "", Set: func(s string) { srv.AdminToken = conf.Secret(s) }},
	}
	for _, s := range c.enabled() {
		for _, own := range s.Secrets {
			if own.Setting == nil {
				continue
			}
			all = append(all, secrets.Secret{Setting: s.Name + "." + own.Name, Unset: *own.Setting == "", Set: func(s string) { *own.Setting = s }})
		}
	}
	return all
}

// completeSecrets sets missing secrets in the configuration, from the file or new ones. New ones are saved if the mode
// creates the file.
func (a *App) completeSecrets(o *Options) (err error) {
	if a.secrets, err = secrets.Complete(a.data, a.may.secrets, a.cfg.generated()); err != nil {
		return err
	}
	switch {
	case len(o.placeholders) > 0:
		a.unsaved = o.placeholders
	case a.may.secrets != secrets.Create:
		a.unsaved = a.secrets.Made
	}
	a.guard = &secrets.Guard{
		Data: a.data, Log: a.log, NewSecrets: o.NewSecrets, Made: a.secrets.Made, NewFile: a.secrets.NewFile, Writable: checkWhole,
	}
	return nil
}

// boundSecrets returns the secrets without which the service's data is useless.
func (a *App) boundSecrets(s *service.Service) (all []secrets.Bound) {
	add := func(setting, value string, old []string) {
		all = append(all, secrets.Bound{Setting: setting, Value: value, Old: old, Made: a.secrets.Made[setting], Unsaved: a.unsaved[setting]})
	}
	for _, own := range s.Secrets {
		switch {
		case !own.Bound:
		case own.Setting == nil:
			masters := a.server().MasterSecrets
			add(secrets.Master, masters[0], masters[1:])
		case own.Old == nil:
			add(s.Name+"."+own.Name, *own.Setting, nil)
		default:
			add(s.Name+"."+own.Name, *own.Setting, *own.Old)
		}
	}
	return all
}

// Effective returns all settings with their values and origins. Secrets that the configuration does not set come from the
// secrets file in the data folder. If that cannot be read, they stay unset, and err is the reason.
func (c *Config) Effective(data string, getenv func(name string) string) (all []conf.Setting, err error) {
	path := secrets.Path(data, secrets.File)
	saved, err := secrets.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	isGenerated := map[string]bool{}
	for _, g := range c.generated() {
		isGenerated[g.Setting] = g.Unset
	}
	all = conf.Settings(c.sections(), c.report)
	for i := range all {
		s := &all[i]
		if s.Path == "log.otlp_endpoint" && s.Value == `""` {
			for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
				if url := getenv(name); url != "" {
					s.Value, s.Data, s.Where = strconv.Quote(url), url, name
					break
				}
			}
		}
		if !isGenerated[s.Path] {
			continue
		}
		if s.Where = "generated at the first start"; saved[s.Path] != "" {
			s.Value, s.Where = conf.Secret(saved[s.Path]).String(), path
		}
	}
	return all, err
}

// isNew reports whether the secrets file contains no secrets of the service, so it never used the data folder.
func (a *App) isNew(s *service.Service) bool {
	return slices.ContainsFunc(s.Secrets, func(own service.Secret) bool { return own.Setting != nil && a.unsaved[s.Name+"."+own.Name] })
}

// startSecrets warns about a short master secret and verifies all secrets; see secrets.Guard.Start.
func (a *App) startSecrets(ctx context.Context) error {
	if warning := secrets.ShortMaster(a.cfg.Server.MasterSecret.Reveal()); warning != "" {
		a.log.Warn(warning, "setting", secrets.Master)
	}
	return a.guard.Start(ctx)
}

// withoutSecrets sets placeholders for all missing secrets and returns their settings, which no comparison may use.
func withoutSecrets(all []secrets.Secret) (settings map[string]bool) {
	settings = map[string]bool{}
	for _, s := range all {
		if s.Unset {
			s.Set(strings.Repeat("check", 8))
			settings[s.Setting] = true
		}
	}
	return settings
}
