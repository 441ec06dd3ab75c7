package check

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/listen"
	"holdfast/internal/secrets"
)

const chooseFolder = "choose another folder with --data"

// keptIn notes a folder with a database.
func (c *check) keptIn(what, path string) {
	dir := filepath.Dir(path)
	if dir == filepath.Clean(c.Data) {
		c.usesFolder = true
		return
	}
	if !slices.ContainsFunc(c.folders, func(f folder) bool { return f.dir == dir }) {
		c.folders = append(c.folders, folder{what, dir})
	}
}

// checkFolders reports the data folder, as a warning only if nothing uses it, and other folders that cannot be used.
func (c *check) checkFolders() []service.Finding {
	own := c.own
	if own.State == service.Wrong && !c.usesFolder {
		own.State, own.Says = service.Warning, own.Says+"; this configuration does not use it"
	}
	findings := []service.Finding{own}
	for _, f := range c.folders {
		finding := service.CheckFolder(f.what, f.dir, "choose another file in database_url")
		if finding.State == service.Wrong {
			findings = append(findings, finding)
		}
	}
	return findings
}

// isFolderError reports whether an error repeats the finding about the data folder, because a name in that folder is
// refused, too. Without this, each database would be a finding with the same fix.
func (c *check) isFolderError(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	if !ok || c.own.State != service.Wrong {
		return false
	}
	return strings.HasPrefix(service.Absolute(failed.Path), service.Absolute(c.Data))
}

// secrets checks the secrets file.
func (c *check) secrets() (findings []service.Finding) {
	const what = "secrets"
	path := filepath.Join(c.Data, secrets.File)
	unset := slices.ContainsFunc(c.Secrets, func(s secrets.Secret) bool { return s.Unset })
	c.usesFolder = unset
	values, err := secrets.Read(path)
	if c.isFolderError(err) {
		c.secretsBroken = true
		return c.tokens("")
	}
	broken, isBroken := errors.AsType[*secrets.FileError](err)
	switch {
	case isBroken && unset:
		c.secretsBroken = true
		findings = append(findings, service.Finding{State: service.Wrong, What: what, Says: path + " " + broken.What, Fix: broken.Fix})
	case isBroken:
		findings = append(findings, service.Finding{State: service.Warning, What: what, Says: path + " " + broken.What + "; all secrets are set in the configuration", Fix: broken.Fix})
	case err == nil:
		findings = append(findings, service.Finding{State: service.OK, What: what, Says: path})
	case !unset:
		findings = append(findings, service.Finding{State: service.OK, What: what, Says: "set in the configuration"})
	case errors.Is(err, fs.ErrNotExist):
		findings = append(findings, service.Finding{State: service.OK, What: what, Says: path + " will be created at the first start"})
	default: // the data folder is not a folder: another finding
		c.secretsBroken = true
	}
	if warning := secrets.ShortMaster(cmp.Or(c.Master, values[secrets.Master])); warning != "" {
		findings = append(findings, service.Finding{
			State: service.Warning, What: secrets.Master, Says: warning,
			Fix: "create a new secret with: openssl rand -hex 32; keep the old secret in server.old_master_secrets for a day",
		})
	}
	return append(findings, c.tokens(values[secrets.Admin])...)
}

// tokens finds operators' tokens that are too short. On loopback the server starts with them, so that check --start only
// warns; elsewhere it does not start.
func (c *check) tokens(generated string) (findings []service.Finding) {
	state := service.Wrong
	if c.Start && listen.IsLoopback(c.AdminListen) {
		state = service.Warning
	}
	for _, t := range []struct{ setting, value, says string }{
		{secrets.Admin, cmp.Or(c.AdminToken, generated), "whoever guesses it at server.admin_listen controls the server"},
		{secrets.Viewer, c.ViewerToken, "whoever guesses it at server.admin_listen can read the console"},
	} {
		if short := secrets.ShortToken(t.value); short != "" && c.AdminListen != "" {
			findings = append(findings, service.Finding{State: state, What: t.setting, Says: short + ": " + t.says, Fix: "make a new one with: " + secrets.MakeOne})
		}
	}
	return findings
}

// missingSecrets replaces the first finding about secrets, which says that the file will be created, because data
// needs the lost one.
func (c *check) missingSecrets(findings []service.Finding) []service.Finding {
	path := filepath.Join(c.Data, secrets.File)
	if _, err := secrets.Read(path); errors.Is(err, fs.ErrNotExist) && len(findings) > 0 {
		findings[0] = service.Finding{State: service.Wrong, What: findings[0].What, Says: path + " does not exist, and data was written with secrets", Fix: "restore it from a backup"}
		if left := secrets.Left(c.Data); len(left) > 0 {
			findings[0].Fix = secrets.DescribeLeft(left, path) + "; otherwise " + findings[0].Fix
		}
	}
	return findings
}

// certificate checks the certificate from ACME or from files.
func (c *check) certificate(ctx context.Context) []service.Finding {
	const what = "server.tls_cert_file"
	if c.Domain != "" && c.Start {
		return nil // the server will obtain it
	}
	if c.Domain != "" {
		return append([]service.Finding{c.obtained(ctx)}, c.domain(ctx)...)
	}
	if c.TLSCert == "" {
		return nil
	}
	finding := func(says, fix string) []service.Finding {
		if c.Certificates != nil { // it serves the certificate it has read
			says += "; until it is corrected, the server uses the certificate that is valid until " + date(c.Certificates.State().Until)
		}
		return []service.Finding{{State: service.Wrong, What: what, Says: says, Fix: fix}}
	}
	cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	switch {
	case err != nil:
		return finding(service.Reason(err), "name a certificate chain and its private key, both in PEM")
	case time.Now().After(cert.Leaf.NotAfter):
		expired := finding(c.TLSCert+" expired on "+date(cert.Leaf.NotAfter), "renew it; a running server reads the new file by itself")
		if c.Start { // the server starts, and clients report the problem
			expired[0].State = service.Warning
		}
		return expired
	}
	return []service.Finding{{State: service.OK, What: what, Says: c.TLSCert + " is valid until " + date(cert.Leaf.NotAfter)}}
}

// date formats a day in UTC.
func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }
