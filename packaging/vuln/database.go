package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxAge is how old a database may be. The Go team publishes advisories every week.
	maxAge = 14 * 24 * time.Hour

	fetchTimeout = 30 * time.Second
	maxIndex     = 64 << 20 // bytes; the index of all modules has about 1 MB
)

// uncheckedError says why nothing was checked. It never means that there are no vulnerabilities.
type uncheckedError struct{ reason string }

func (e *uncheckedError) Error() string { return e.reason }

func uncheckedf(format string, args ...any) error {
	return &uncheckedError{fmt.Sprintf(format, args...)}
}

// database is a vulnerability database in the format of https://go.dev/security/vuln/database.
type database struct {
	url      *url.URL
	modified time.Time
}

// openDatabase reads the indexes of a database before it is used: the scanner itself takes an empty or undated database
// for one without advisories.
func openDatabase(ctx context.Context, address string, now time.Time) (*database, error) {
	u, err := url.Parse(address)
	if err != nil || !slices.Contains([]string{"https", "http", "file"}, u.Scheme) {
		return nil, uncheckedf("no database: %q is not a URL that begins with https://, http:// or file://", address)
	}
	d := &database{url: u}
	var about struct {
		Modified time.Time `json:"modified"`
	}
	if err := d.read(ctx, "index/db.json", &about); err != nil {
		return nil, err
	}
	d.modified = about.Modified
	var modules []struct {
		Path string `json:"path"`
	}
	if err := d.read(ctx, "index/modules.json", &modules); err != nil {
		return nil, err
	}
	hasStandard := false
	for _, m := range modules {
		hasStandard = hasStandard || m.Path == "stdlib"
	}
	switch age := now.Sub(d.modified); {
	case d.modified.IsZero():
		return nil, uncheckedf("the database %s is damaged: index/db.json has no date", d)
	case !hasStandard:
		return nil, uncheckedf("the database %s is damaged: index/modules.json does not have the standard library", d)
	case age > maxAge:
		return nil, uncheckedf("the database %s is of %s, %d days old, more than %d", d, d.date(), int(age.Hours()/24), int(maxAge.Hours()/24))
	case age < -24*time.Hour:
		return nil, uncheckedf("the database %s is of %s, in the future: set the clock", d, d.date())
	}
	return d, nil
}

func (d *database) String() string { return strings.TrimRight(d.url.Redacted(), "/") }

func (d *database) date() string { return d.modified.UTC().Format(time.DateOnly) }

// read decodes a file of the database, which a web server has only compressed.
func (d *database) read(ctx context.Context, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var body io.ReadCloser
	var err error
	if d.url.Scheme == "file" {
		body, err = os.Open(filepath.Join(filepath.FromSlash(d.url.Path), filepath.FromSlash(name)))
	} else {
		body, err = d.fetch(ctx, name+".gz")
	}
	if err != nil {
		return uncheckedf("no database: cannot read %s of %s: %v", name, d, cause(err))
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxIndex))
	if err != nil {
		return uncheckedf("no database: cannot read %s of %s: %v", name, d, cause(err))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return uncheckedf("the database %s is damaged: %s is not valid: %v", d, name, err)
	}
	return nil
}

type zipped struct {
	*gzip.Reader
	body io.Closer
}

func (z zipped) Close() error { return errors.Join(z.Reader.Close(), z.body.Close()) }

func (d *database) fetch(ctx context.Context, name string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(d.url.String(), "/")+"/"+name, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New(resp.Status), resp.Body.Close())
	}
	text, err := gzip.NewReader(resp.Body)
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return zipped{text, resp.Body}, nil
}

// cause leaves out the URL and the path, which the message contains already.
func cause(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	if of, ok := errors.AsType[*os.PathError](err); ok {
		return of.Err
	}
	return err
}
