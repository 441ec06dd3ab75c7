// Command release builds a release: a tarball, packages for Debian, RPM and Alpine, and an SBOM for each
// architecture, and SHA256SUMS. `make dist` runs it. Builds are reproducible for the same commit and Go version.
//
// It is a separate module, so that the packaging libraries are not server dependencies. Its go.mod pins their
// versions.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type release struct {
	source  string
	out     string
	version version
	commit  string
	ldflags string
	tags    string
	time    time.Time
	arches  []arch
	contact map[string]string
}

func run(args []string, stdout io.Writer) error {
	r := release{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.source, "source", "../..", "folder of the repository")
	flags.StringVar(&r.out, "out", "", "output folder; files of an earlier run are removed")
	described := flags.String("version", "dev", "version, as git describe --tags --dirty prints it")
	flags.StringVar(&r.commit, "commit", "", "short hash of the commit")
	flags.StringVar(&r.ldflags, "ldflags", "", "linker flags of the binary")
	flags.StringVar(&r.tags, "tags", "", "build tags of the binary")
	epoch := flags.Int64("epoch", 0, "time of the commit in seconds since 1970; every file gets it")
	printed := flags.String("print-version", "", "print the version for deb, rpm or apk instead of making files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.time = time.Unix(*epoch, 0).UTC()
	r.version = parseVersion(*described, r.commit, r.time)
	if *printed != "" {
		text, err := r.version.of(*printed)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, text)
		return err
	}
	if r.out == "" || *epoch <= 0 || flags.NArg() == 0 {
		return errors.New("expected -out, -epoch and at least one architecture: " + strings.Join(archNames(), ", "))
	}
	for _, name := range flags.Args() {
		i := slices.IndexFunc(arches, func(a arch) bool { return a.name == name })
		if i < 0 {
			return fmt.Errorf("unknown architecture %q: expected %s", name, strings.Join(archNames(), ", "))
		}
		r.arches = append(r.arches, arches[i])
	}
	return r.make(stdout)
}

func (r *release) make(stdout io.Writer) (err error) {
	for _, path := range []*string{&r.source, &r.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if err := errors.Join(r.readContact(), r.clear()); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	say := func(arch, step string) { fmt.Fprintf(os.Stderr, "%s: %s\n", arch, step) }
	for _, a := range r.arches {
		say(a.name, "compile")
		if err := r.build(a.goos(), filepath.Join(r.tree(a), "holdfast")); err != nil {
			return err
		}
	}
	say("all", "manual pages, completions and guides")
	generated := filepath.Join(work, "generated")
	if err := r.generate(generated); err != nil {
		return err
	}
	for _, a := range r.arches {
		say(a.name, "licences, tarball, SBOM, packages")
		if err := errors.Join(r.thirdParty(a), r.fillTree(a, generated), r.tarball(a), r.sbom(a), r.packages(a)); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return r.sums(stdout)
}

func (r *release) clear() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"linux_*", `holdfast[_\-]*`, "SHA256SUMS", "data"} {
		found, err := filepath.Glob(filepath.Join(r.out, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	// This empty folder is for the image; see packaging/Dockerfile.
	return os.Mkdir(filepath.Join(r.out, "data"), 0o700)
}
