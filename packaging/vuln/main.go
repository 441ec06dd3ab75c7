// Command vuln checks modules for known vulnerabilities with govulncheck, the standard library included. `make vuln` and
// `make dist` run it.
//
// It fails (status 1) if a module reaches a vulnerable function. It prints advisories for code that is imported but not
// reached. If it cannot check, e.g. because the database cannot be reached or is older than 14 days, it says NOT CHECKED
// and ends with status 3, or with status 0 if -unchecked-ok is set.
//
// It is a separate module, so that govulncheck is not a dependency of the server. Its go.mod pins the version.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

// uncheckedStatus is the exit status if nothing was checked. The flag package uses 2.
const uncheckedStatus = 3

var errReachable = errors.New("known vulnerabilities are reachable")

func main() {
	err := run(os.Args[1:], os.Stdout)
	if _, ok := errors.AsType[*uncheckedError](err); ok {
		os.Exit(uncheckedStatus) // run has printed why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

type options struct {
	db          string
	tags        string
	uncheckedOK bool
	record      string
	folders     []string
}

func run(args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("vuln", flag.ExitOnError)
	flags.StringVar(&o.db, "db", "https://vuln.go.dev", "URL of the vulnerability database: https://, http:// or file://")
	flags.StringVar(&o.tags, "tags", "", "build tags")
	flags.BoolVar(&o.uncheckedOK, "unchecked-ok", false, "succeed if nothing can be checked")
	flags.StringVar(&o.record, "record", "", "also write the result into this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.folders = flags.Args(); len(o.folders) == 0 {
		return errors.New("expected at least one folder of a module")
	}
	var says bytes.Buffer
	err := check(context.Background(), &o, io.MultiWriter(stdout, &says))
	if o.record != "" {
		failed := os.MkdirAll(filepath.Dir(o.record), 0o755)
		if failed == nil {
			failed = os.WriteFile(o.record, says.Bytes(), 0o644)
		}
		if failed != nil {
			return errors.Join(err, failed)
		}
	}
	if _, ok := errors.AsType[*uncheckedError](err); ok && o.uncheckedOK {
		return nil
	}
	return err
}

// check checks all folders. If one cannot be checked, the others still may fail.
func check(ctx context.Context, o *options, out io.Writer) error {
	db, err := openDatabase(ctx, o.db, time.Now())
	if err != nil {
		return notChecked(out, "", err)
	}
	fmt.Fprintf(out, "vulnerability database: %s of %s\n", db, db.date())
	reachable := false
	var unchecked error
	for _, folder := range o.folders {
		found, goVersion, err := checkModule(ctx, o, db, folder)
		if err != nil {
			unchecked = notChecked(out, " in "+folder, err)
			continue
		}
		for _, f := range found {
			fmt.Fprintln(out, f)
			reachable = reachable || f.level == reached
		}
		if !anyReached(found) {
			fmt.Fprintf(out, "%s with %s: no known vulnerability is reachable\n", filepath.Base(folder), goVersion)
		}
	}
	if reachable {
		return errReachable
	}
	return unchecked
}

func notChecked(out io.Writer, where string, err error) error {
	fmt.Fprintf(out, "VULNERABILITIES NOT CHECKED%s: %v\n", where, err)
	return &uncheckedError{err.Error()}
}

// checkModule checks all packages of the module in a folder, and returns the version of Go that builds them.
func checkModule(ctx context.Context, o *options, db *database, folder string) (found []finding, goVersion string, err error) {
	// Without GOVERSION, the scanner asks for the Go version of the current folder, which may be another one.
	version := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	version.Dir = folder
	text, err := version.Output()
	if err != nil {
		return nil, "", uncheckedf("go env GOVERSION: %v", err)
	}
	goVersion = strings.TrimSpace(string(text))
	var stream, stderr bytes.Buffer
	cmd := scan.Command(ctx, "-C", folder, "-db", db.url.String(), "-format", "json", "-tags", o.tags, "./...")
	cmd.Env = append(os.Environ(), "GOVERSION="+goVersion)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), &stream, &stderr
	if err = cmd.Start(); err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return nil, "", uncheckedf("govulncheck: %v %s", err, strings.TrimSpace(stderr.String()))
	}
	found, err = findings(&stream)
	return found, goVersion, err
}
