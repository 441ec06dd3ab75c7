package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// lookEvery is short, because the files are small and in the page cache. Comparing content also notices a changed link,
// as with certbot.
const lookEvery = 5 * time.Second

// Files is a Source that reads a certificate chain and private key from files.
type Files struct {
	Options
	certFile, keyFile string

	mu      sync.Mutex
	current *tls.Certificate
	used    pair  // content in use
	refused pair  // content that cannot be used
	failure error // why
	warned  bool  // reported
}

// pair is the files' content.
type pair struct{ cert, key []byte }

func (p pair) equal(other pair) bool {
	return bytes.Equal(p.cert, other.cert) && bytes.Equal(p.key, other.key)
}

// OpenFiles accepts an expired certificate: the server starts, and clients report the problem.
func OpenFiles(certFile, keyFile string, o Options) (*Files, error) {
	f := &Files{Options: o, certFile: certFile, keyFile: keyFile}
	content, err := f.read()
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(content.cert, content.key)
	if err != nil {
		return nil, err
	}
	f.current, f.used = &cert, content
	return f, nil
}

// read reads both files, which may not match while they are being replaced.
func (f *Files) read() (p pair, err error) {
	if p.cert, err = os.ReadFile(f.certFile); err != nil {
		return p, err
	}
	p.key, err = os.ReadFile(f.keyFile)
	return p, err
}

// TLS serves the pair that was valid last.
func (f *Files) TLS() *tls.Config {
	return serve(func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.current, nil
	})
}

// State reports a problem only after look has found it twice.
func (f *Files) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := State{Until: f.current.Leaf.NotAfter}
	if f.warned {
		s.Problem = f.failure.Error()
	}
	return s
}

// Run looks for changed files until ctx ends.
func (f *Files) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
		}
	}
}

// look reports a bad pair only if it is unchanged the next time: while only the first file is replaced, the files do
// not match.
func (f *Files) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if content, err := f.replace(); err != nil {
		f.refuse(content, err)
	}
}

// Reload reads the files at once; an error leaves the certificate in use.
func (f *Files) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.replace()
	return err
}

// replace uses the files' content if it changed.
func (f *Files) replace() (content pair, err error) {
	if content, err = f.read(); err != nil {
		return content, err
	}
	if content.equal(f.used) {
		f.settle()
		return content, nil
	}
	cert, err := tls.X509KeyPair(content.cert, content.key)
	if err == nil && f.Clock().After(cert.Leaf.NotAfter) {
		err = fmt.Errorf("it expired on %s", cert.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	if err != nil {
		return content, err
	}
	f.current, f.used = &cert, content
	f.settle()
	f.Log.Info("certificate replaced", "file", f.certFile, "until", cert.Leaf.NotAfter.UTC())
	f.observe(nil)
	return content, nil
}

// settle forgets a refusal.
func (f *Files) settle() { f.refused, f.failure, f.warned = pair{}, nil, false }

// refuse records unusable files; the second time in a row it warns.
func (f *Files) refuse(content pair, err error) {
	again := f.failure != nil && f.refused.equal(content) && f.failure.Error() == err.Error()
	if f.warned = f.warned && again; again && !f.warned {
		f.warned = true
		f.Log.Warn("certificate not replaced: the previous certificate stays in use", "file", f.certFile, "error", err,
			"until", f.current.Leaf.NotAfter.UTC())
		f.observe(err)
	}
	f.refused, f.failure = content, err
}

var _ Source = (*Files)(nil)
