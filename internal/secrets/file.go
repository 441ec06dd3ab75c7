package secrets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/fserror"
	"holdfast/internal/ident"
)

// File in the data folder contains the generated secrets: TOML with the configuration's sections and keys.
const File = "secrets.toml"

// Path returns a file's absolute path in the data folder, for messages.
func Path(data, name string) string { return service.Absolute(filepath.Join(data, name)) }

// MinLength is the minimum for tokens that an operator chooses and that other machines can try, and is recommended for
// all chosen secrets, in characters.
const MinLength = 32

// Elsewhere is engine.Elsewhere, for packages that may not import engine.
const Elsewhere = engine.Elsewhere

// MakeOne is a command that prints a secret of 64 hexadecimal digits.
const MakeOne = "openssl rand -hex 32"

// These server settings can be generated.
const (
	Master = "server.master_secret"
	Admin  = "server.admin_token"
)

// Viewer is the setting of another token that opens the console.
const Viewer = "server.viewer_token"

// ShortToken returns how a token of an operator is too short, e.g. "has 5 characters, fewer than 32", or "". No token
// is not too short.
func ShortToken(token string) string {
	n := utf8.RuneCountInString(token)
	if n == 0 || n >= MinLength {
		return ""
	}
	return fmt.Sprintf("has %s, fewer than %d", service.Count(int64(n), "character"), MinLength)
}

// Secret is a setting that is generated if unset.
type Secret struct {
	Setting string       // SECTION.KEY
	Unset   bool         // the configuration does not set it
	Set     func(string) // stores the value in the configuration
}

// Absent selects how to handle missing secrets.
type Absent int

// These are the values of Absent.
const (
	MustExist Absent = iota // the file must exist; other missing secrets are generated without saving
	MakeUp                  // for this process
	Create                  // generated, and saved in the file
)

// Completed is the result of Complete.
type Completed struct {
	Settings []string        // secrets that the configuration did not set
	Made     map[string]bool // settings that were generated now
	NewFile  bool            // this process created the file
}

// Complete sets unset secrets from the file or by generating them.
func Complete(data string, how Absent, all []Secret) (done Completed, err error) {
	for _, s := range all {
		if s.Unset {
			done.Settings = append(done.Settings, s.Setting)
		}
	}
	if len(done.Settings) == 0 {
		return done, nil
	}
	if how == Create {
		if err := engine.MakeFolder(data); err != nil {
			return done, err
		}
	}
	file, err := load(data, how, done.Settings)
	if err != nil {
		return done, err
	}
	for _, s := range all {
		if s.Unset {
			s.Set(file.values[s.Setting])
		}
	}
	done.Made, done.NewFile = file.made, file.newFile
	return done, nil
}

// loaded has the secrets from the file and generated ones.
type loaded struct {
	values  map[string]string // by setting
	made    map[string]bool
	newFile bool
}

// load reads the secrets file. With Create, it creates the file or adds missing secrets.
func load(data string, how Absent, settings []string) (all loaded, err error) {
	path := filepath.Join(data, File)
	values, err := Read(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && how == MustExist:
		return all, noFile(data)
	case missing:
		values = map[string]string{}
	case err != nil:
		return all, err
	case how == Create:
		// The process that wrote the file may have been killed before syncing the folder.
		if err := durable.SyncFolder(data); err != nil {
			return all, err
		}
	}
	all = loaded{values: values, made: map[string]bool{}, newFile: missing && how == Create}
	for _, name := range settings {
		if values[name] == "" {
			values[name] = ident.Hex(32)
			all.made[name] = true
		}
	}
	if len(all.made) == 0 || how != Create {
		return all, nil
	}
	err = write(path, values, missing)
	if errors.Is(err, fs.ErrExist) {
		return load(data, how, settings)
	}
	return all, err
}

// noFile explains the missing file. A file that an interrupted start left may have the secrets.
func noFile(data string) error {
	path := filepath.Join(data, File)
	if left := Left(data); len(left) > 0 {
		return fmt.Errorf("%s does not exist, but %s", path, DescribeLeft(left, path))
	}
	return fmt.Errorf("%s does not exist: start the server once with holdfast serve, or set the secrets in the configuration; if there is a server, %s", Path(data, File), engine.Elsewhere)
}

// Read returns fs.ErrNotExist or a *FileError.
func Read(path string) (values map[string]string, err error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, &FileError{path, "cannot be read: " + service.Reason(err), cmp.Or(fserror.Advice(err), "look at it with ls -l, and at the disk"), err}
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, &FileError{path, fmt.Sprintf("can be read by others (mode %04o)", info.Mode().Perm()), "run: chmod 600 " + path, nil}
	}
	const restore = "restore it from a backup: without the master secret every client has to sign in again"
	sections := map[string]map[string]string{}
	if err := toml.Unmarshal(text, &sections); err != nil {
		// The parser's error may quote the line.
		return nil, &FileError{path, "is not valid: expected TOML with sections, such as [server] with master_secret", restore, nil}
	}
	values = map[string]string{}
	for section, keys := range sections {
		for key, value := range keys {
			values[section+"."+key] = value
		}
	}
	if len(values) == 0 {
		return nil, &FileError{path, "is empty", restore, nil}
	}
	return values, nil
}

// FileError means that the secrets file is unusable.
type FileError struct {
	Path, What, Fix string
	err             error // of the file system, or nil
}

func (e *FileError) Error() string { return e.Path + " " + e.What + "; " + e.Fix }

func (e *FileError) Unwrap() error { return e.err }

// write writes the file durably. If fresh is set, it only creates a missing file, so that servers that start
// concurrently use the same secrets.
func write(path string, values map[string]string, fresh bool) error {
	sections := map[string]map[string]string{}
	for setting, value := range values {
		section, key, _ := strings.Cut(setting, ".")
		if sections[section] == nil {
			sections[section] = map[string]string{}
		}
		sections[section][key] = value
	}
	text, err := toml.Marshal(sections)
	if err != nil {
		return err
	}
	head := "# Generated by holdfast. Keep it secret and keep a copy: without the master\n# secret every client has to sign in again.\n"
	save := durable.File.Replace
	if fresh {
		save = durable.File.Create
	}
	if err := save(durable.File{Name: path, Temporary: leftPrefix}, durable.Bytes([]byte(head+string(text)))); err != nil && !errors.Is(err, fs.ErrExist) {
		return fserror.Named(err, "%s cannot be written: %s", path, service.Reason(err))
	} else if err != nil {
		return err
	}
	return nil
}

// LeftFile is a secrets file left by an interrupted start (power failure, SIGKILL).
type LeftFile struct {
	path   string
	values map[string]string // by setting
	err    error             // why it cannot be used, or nil
}

// leftPrefix begins names for temporary copies of the secrets file.
const leftPrefix = ".secrets-"

// Left returns the files left by interrupted starts.
func Left(data string) (all []LeftFile) {
	entries, err := os.ReadDir(data)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), leftPrefix) || !e.Type().IsRegular() {
			continue
		}
		f := LeftFile{path: Path(data, e.Name())}
		f.values, f.err = Read(f.path)
		all = append(all, f)
	}
	return all
}

// DescribeLeft describes leftover files, with advice.
func DescribeLeft(left []LeftFile, path string) string {
	var sentences []string
	for _, f := range left {
		if broken, ok := errors.AsType[*FileError](f.err); ok {
			sentences = append(sentences, fmt.Sprintf("%s, which an interrupted start left, cannot be used: it %s", f.path, broken.What))
			continue
		}
		sentences = append(sentences, fmt.Sprintf("an interrupted start left %s with secrets: if no other server uses this folder, run: mv %s %s", f.path, f.path, path))
	}
	return strings.Join(sentences, "; ")
}
