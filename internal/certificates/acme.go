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
)

// LetsEncrypt is the directory URL of the default certificate authority (CA).
const LetsEncrypt = certmagic.LetsEncryptProductionCA

// Folder is the name of the folder of certificates in the data folder.
const Folder = "certificates"

// failureFile has the reason why the CA issued no certificate the last time, for a check in another process.
const failureFile = "last_failure"

// saveEvery is how often the server tries to write what it could not write.
const saveEvery = time.Minute

// manageEvery is longer than certmagic tries to obtain a certificate that has never been issued.
const manageEvery = 31 * 24 * time.Hour

// ACMEOptions are the options of OpenACME.
type ACMEOptions struct {
	Options

	Domain    string
	Data      string // the data folder
	Directory string // URL of the CA's directory
	RootFile  string // PEM file with the CA's root certificates; "": those of the system
	Email     string // of the account; "": none

	// The addresses of the listeners that answer the CA: the one with TLS, and the one without, which serves Handler.
	// "" for the latter: only the challenge TLS-ALPN-01 is used.
	Listen, HTTPListen string

	renewEvery time.Duration // how often to look whether it is time to renew; 0: every 10 minutes
}

// ACME is a Source that obtains a certificate by the protocol ACME, and renews it. Certificate, key and account are
// files in the data folder.
type ACME struct {
	ACMEOptions
	store     *storage
	cache     *certmagic.Cache
	config    *certmagic.Config
	issuer    *certmagic.ACMEIssuer
	temporary *tls.Certificate

	mu      sync.Mutex
	problem string // why the last attempt failed
	warned  error  // the last reason why something could not be written
}

// OpenACME prepares to obtain a certificate. Only Run contacts the CA.
func OpenACME(o ACMEOptions) (*ACME, error) {
	a := &ACME{ACMEOptions: o, store: newStorage(filepath.Join(o.Data, Folder))}
	issuer, err := a.template()
	if err != nil {
		return nil, err
	}
	if a.temporary, err = temporary(); err != nil {
		return nil, err
	}
	quiet := zap.NewNop() // events are logged here
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return a.config, nil },
		RenewCheckInterval: o.renewEvery, Logger: quiet,
	})
	a.config = certmagic.New(a.cache, certmagic.Config{
		Storage: a.store, Logger: quiet, OnEvent: a.event, ShouldEmitFunc: func(event string) bool { return event != "tls_get_certificate" },
		DefaultServerName: o.Domain, FallbackServerName: o.Domain,
		DisableStorageCheck: true, // a certificate that cannot be written is used, too
	})
	a.issuer = certmagic.NewACMEIssuer(a.config, issuer)
	a.config.Issuers = []certmagic.Issuer{a.issuer}
	return a, nil
}

// template returns the settings of the CA.
func (a *ACME) template() (issuer certmagic.ACMEIssuer, err error) {
	issuer = certmagic.ACMEIssuer{CA: a.Directory, Email: a.Email, Agreed: true, Logger: zap.NewNop(), DisableHTTPChallenge: a.HTTPListen == ""}
	if a.RootFile != "" {
		pem, err := os.ReadFile(a.RootFile)
		if err != nil {
			return issuer, err
		}
		issuer.TrustedRoots = x509.NewCertPool()
		if !issuer.TrustedRoots.AppendCertsFromPEM(pem) {
			return issuer, fmt.Errorf("%s has no certificate in PEM", a.RootFile)
		}
	}
	// certmagic listens on these addresses if nobody does. Our listeners are open by then and answer.
	if issuer.ListenHost, issuer.AltTLSALPNPort, err = split(a.Listen); err != nil {
		return issuer, err
	}
	if a.HTTPListen != "" {
		_, issuer.AltHTTPPort, err = split(a.HTTPListen)
	}
	return issuer, err
}

func split(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(number)
	return host, port, err
}

// TLS implements Source. While there is no certificate, clients get one that they do not trust and whose name says why.
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

// Handler answers HTTP-01 challenges, and passes other requests on.
func (a *ACME) Handler(next http.Handler) http.Handler { return a.issuer.HTTPChallengeHandler(next) }

// Reload implements Source. A certificate authority is asked when a certificate is due.
func (*ACME) Reload() error { return nil }

// State implements Source.
func (a *ACME) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := State{Problem: a.problem, Until: a.until()}
	if err := a.store.unsavedBecause(); err != nil && s.Problem == "" {
		s.Problem = "the certificate cannot be saved: " + err.Error()
	}
	return s
}

// until returns when the certificate in use expires.
func (a *ACME) until() (until time.Time) {
	for _, c := range a.cache.AllMatchingCertificates(a.Domain) {
		if c.Leaf.NotAfter.After(until) {
			until = c.Leaf.NotAfter
		}
	}
	return until
}

// Run implements Source.
func (a *ACME) Run(ctx context.Context) {
	// The maintenance may be waiting for the CA, which must not delay the end of the server.
	defer func() { go a.cache.Stop() }()
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
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

// begin loads the stored certificate, and obtains one if none is stored or if it is about to expire. certmagic tries
// again after failures, and renews the certificate later.
func (a *ACME) begin(ctx context.Context) error {
	_, err := readStored(ctx, a.store, a.Directory, a.Domain)
	_, isFile := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
	case isFile: // another certificate would not help: it could not be read at the next start
		a.failed("stored certificate not loaded", err)
		return err
	default: // such as a key that was written before a power cut, with the certificate that was not
		a.Log.Warn("stored certificate is damaged: obtaining another one", "domain", a.Domain, "error", err)
		if err := a.store.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(issuerKey(a.Directory), a.Domain)); err != nil {
			a.failed("stored certificate not replaced", err)
			return err
		}
	}
	return a.config.ManageAsync(ctx, []string{a.Domain})
}

// event logs an event of certmagic.
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

// failed logs and remembers why there is no new certificate.
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

// save warns once for each reason why something cannot be written.
func (a *ACME) save(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && (a.warned == nil || a.warned.Error() != err.Error()) {
		a.Log.Warn("certificate is only in memory: the next start obtains another one", "domain", a.Domain, "error", err)
	}
	a.warned = err
}

// reason returns what the CA says, or why it could not be asked.
func reason(err error) string {
	if problem, ok := errors.AsType[acme.Problem](err); ok && problem.Detail != "" {
		return "the certificate authority refuses: " + problem.Detail
	}
	return err.Error()
}

// issuerKey returns the name of a CA's folder.
func issuerKey(directory string) string { return (&certmagic.ACMEIssuer{CA: directory}).IssuerKey() }

// readStored reads a stored certificate. The error wraps fs.ErrNotExist if a file does not exist.
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

// Stored describes the certificate in a data folder, for a process that does not serve. Until is zero if none is stored.
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
