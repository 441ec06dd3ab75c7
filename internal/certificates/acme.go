package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"

	"holdfast/internal/errcode"
)

// LetsEncrypt is the default certificate authority's (CA's) directory URL.
const LetsEncrypt = certmagic.LetsEncryptProductionCA

// Folder is below the data folder.
const Folder = "certificates" // below the data folder

// failureFile keeps the last failure's text for `holdfast check`, which runs in another process.
const failureFile = "last_failure"

// saveEvery is how often the server tries to save a certificate that is only in memory.
const saveEvery = time.Minute

// manageEvery is longer than certmagic tries to obtain a first certificate.
const manageEvery = 31 * 24 * time.Hour

// ACMEOptions configure OpenACME. Domain, Data, Directory and Listen are required.
type ACMEOptions struct {
	Options

	Domain    string // name in the certificate
	Data      string // data folder
	Directory string // URL of the CA, e.g. LetsEncrypt
	RootFile  string // PEM file with a private CA's root; "": the system's
	Email     string // for the CA's messages; may be ""

	// Listen and HTTPListen are the listeners that answer the CA: with TLS, and without, serving Handler. Without
	// HTTPListen, only TLS-ALPN-01 is used.
	Listen, HTTPListen string

	renewEvery time.Duration // between checks; 0: certmagic's default
}

// ACME is a Source that obtains and renews a certificate with ACME, stored in the data folder.
type ACME struct {
	ACMEOptions
	store     *storage
	cache     *certmagic.Cache
	config    *certmagic.Config
	issuer    *certmagic.ACMEIssuer
	temporary *tls.Certificate // served until there is a certificate

	mu      sync.Mutex // guards problem and warned
	problem string     // the last failure since the last success
	warned  error      // the last reported reason why it cannot be saved

	isUnreadable bool // the stored certificate could not be read; only Run uses it
}

// OpenACME prepares everything without asking the CA; Run obtains the certificate.
func OpenACME(o ACMEOptions) (*ACME, error) {
	a := &ACME{ACMEOptions: o, store: newStorage(filepath.Join(o.Data, Folder))}
	issuer, err := a.template()
	if err != nil {
		return nil, err
	}
	if a.temporary, err = temporary(); err != nil {
		return nil, err
	}
	quiet := zap.NewNop()
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return a.config, nil },
		RenewCheckInterval: o.renewEvery, Logger: quiet,
	})
	a.config = certmagic.New(a.cache, certmagic.Config{
		Storage: a.store, Logger: quiet, OnEvent: a.event, ShouldEmitFunc: func(event string) bool { return event != "tls_get_certificate" },
		DefaultServerName: o.Domain, FallbackServerName: o.Domain,
		DisableStorageCheck: true, // an unsaved certificate is used, too
	})
	a.issuer = certmagic.NewACMEIssuer(a.config, issuer)
	a.config.Issuers = []certmagic.Issuer{a.issuer}
	return a, nil
}

// template returns the issuer's settings. It reads RootFile.
func (a *ACME) template() (issuer certmagic.ACMEIssuer, err error) {
	issuer = certmagic.ACMEIssuer{CA: a.Directory, Email: a.Email, Agreed: true, Logger: zap.NewNop(), DisableHTTPChallenge: a.HTTPListen == ""}
	if a.RootFile != "" {
		pem, err := os.ReadFile(a.RootFile)
		if err != nil {
			return issuer, err
		}
		issuer.TrustedRoots = x509.NewCertPool()
		if !issuer.TrustedRoots.AppendCertsFromPEM(pem) {
			return issuer, fmt.Errorf("%s contains no PEM certificate", a.RootFile)
		}
	}
	// certmagic listens on these addresses unless they are in use. By then, our listeners are open and answer.
	if issuer.ListenHost, issuer.AltTLSALPNPort, err = split(a.Listen); err != nil {
		return issuer, err
	}
	if a.HTTPListen != "" {
		_, issuer.AltHTTPPort, err = split(a.HTTPListen)
	}
	return issuer, err
}

// split returns an address's host and port.
func split(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(number)
	return host, port, err
}

// TLS serves the certificate, answers the CA, and serves a temporary certificate meanwhile.
func (a *ACME) TLS() *tls.Config {
	c := serve(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := a.config.GetCertificate(hello)
		if err != nil && !slices.Contains(hello.SupportedProtos, acmez.ACMETLS1Protocol) {
			return a.temporary, nil
		}
		return cert, err
	})
	c.NextProtos = append(c.NextProtos, acmez.ACMETLS1Protocol)
	return c
}

// Handler answers the CA's requests on an HTTP listener, and passes others to next.
func (a *ACME) Handler(next http.Handler) http.Handler { return a.issuer.HTTPChallengeHandler(next) }

// Reload does nothing: settings about the certificate need a restart.
func (*ACME) Reload() error { return nil }

// State returns the certificate in use. Problem is the latest failure, or why it cannot be saved.
func (a *ACME) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := State{Problem: a.problem, Until: a.until()}
	if err := a.store.unsavedBecause(); err != nil && s.Problem == "" {
		s.Problem = "the certificate cannot be saved: " + err.Error()
	}
	return s
}

// until returns when the certificate in memory expires, or zero.
func (a *ACME) until() (until time.Time) {
	for _, c := range a.cache.AllMatchingCertificates(a.Domain) {
		if c.Leaf.NotAfter.After(until) {
			until = c.Leaf.NotAfter
		}
	}
	return until
}

// Run obtains and renews the certificate until ctx ends.
func (a *ACME) Run(ctx context.Context) {
	// Maintenance may be waiting for the CA, which must not delay shutdown.
	defer func() { go a.cache.Stop() }()
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	// A failure of an earlier process, perhaps with another domain, is over: this process tries again at once.
	_ = a.store.Delete(ctx, failureFile)
	var managed time.Time
	for ctx.Err() == nil {
		if now := a.Clock(); now.Sub(managed) > manageEvery && a.begin(ctx) == nil {
			managed = now
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
			a.save(a.store.save())
		}
	}
}

// begin makes certmagic manage the certificate. A damaged stored one is replaced.
func (a *ACME) begin(ctx context.Context) error {
	_, err := readStored(ctx, a.store, a.Directory, a.Domain)
	_, isFile := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		a.readable()
	case isFile: // the next start could not read another certificate, either
		a.failed("stored certificate not loaded", err)
		a.isUnreadable = true
		return err
	default:
		a.Log.Warn("stored certificate is damaged: obtaining a new one", "domain", a.Domain, "error", err)
		if err := a.store.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(issuerKey(a.Directory), a.Domain)); err != nil {
			a.failed("stored certificate not replaced", err)
			return err
		}
	}
	return a.config.ManageAsync(ctx, []string{a.Domain})
}

// event is certmagic's callback.
func (a *ACME) event(ctx context.Context, event string, data map[string]any) error {
	switch event {
	case "cert_obtained":
		a.mu.Lock()
		a.problem = ""
		a.mu.Unlock()
		_ = a.store.Delete(ctx, failureFile)
		attrs := []any{"domain", a.Domain, "renewal", data["renewal"]}
		if cert, err := readStored(ctx, a.store, a.Directory, a.Domain); err == nil {
			attrs = append(attrs, "until", cert.Leaf.NotAfter.UTC())
		}
		a.Log.Info("certificate obtained", attrs...)
		a.save(a.store.unsavedBecause())
		a.observe(nil)
	case "cert_failed":
		if err, ok := data["error"].(error); ok && ctx.Err() == nil {
			a.failed("certificate not obtained", errors.New(reason(err)))
		}
	}
	return nil
}

// failed records a failure.
func (a *ACME) failed(what string, err error) {
	a.mu.Lock()
	a.problem = err.Error()
	until := a.until()
	a.mu.Unlock()
	attrs := []any{"domain", a.Domain, "error", err}
	if !until.IsZero() {
		attrs = append(attrs, "until", until.UTC())
	}
	a.Log.Warn(what, attrs...)
	_ = a.store.Store(context.Background(), failureFile, []byte(err.Error()+" ("+a.Clock().UTC().Format(time.RFC3339)+")\n"))
	a.observe(err)
}

// readable ends the failure to read the stored certificate.
func (a *ACME) readable() {
	if !a.isUnreadable {
		return
	}
	a.isUnreadable = false
	a.mu.Lock()
	a.problem = ""
	a.mu.Unlock()
	_ = a.store.Delete(context.Background(), failureFile)
}

// save logs once when a certificate cannot be saved.
func (a *ACME) save(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && (a.warned == nil || a.warned.Error() != err.Error()) {
		a.Log.Warn("certificate is only in memory: the next start obtains a new one", "domain", a.Domain, "error", err)
	}
	a.warned = err
}

// reason returns a failure's text for operators.
func reason(err error) string {
	if problem, ok := errors.AsType[acme.Problem](err); ok && problem.Detail != "" {
		return "the certificate authority refuses: " + problem.Detail
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		text := errcode.NoAnswer(failed.URL, failed).Error()
		if fix := errcode.NetworkFix(failed); fix != "" {
			text += "; " + fix
		}
		return text
	}
	return err.Error()
}

// issuerKey names the authority's folder, as certmagic chooses it.
func issuerKey(directory string) string { return (&certmagic.ACMEIssuer{CA: directory}).IssuerKey() }

// readStored wraps fs.ErrNotExist if a file is missing.
func readStored(ctx context.Context, s *storage, directory, domain string) (*tls.Certificate, error) {
	cert, err := s.Load(ctx, certmagic.StorageKeys.SiteCert(issuerKey(directory), domain))
	if err != nil {
		return nil, err
	}
	key, err := s.Load(ctx, certmagic.StorageKeys.SitePrivateKey(issuerKey(directory), domain))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// Stored describes the certificate in a data folder, for another process. Until is zero without a certificate.
func Stored(ctx context.Context, data, directory, domain string) (State, error) {
	store := newStorage(filepath.Join(data, Folder))
	failure, err := store.Load(ctx, failureFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return State{}, err
	}
	state := State{Problem: string(failure)}
	cert, err := readStored(ctx, store, directory, domain)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return state, err
	}
	state.Until = cert.Leaf.NotAfter
	return state, nil
}

var _ Source = (*ACME)(nil)
