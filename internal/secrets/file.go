package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/ident"
)

// File is the name of the file in the data folder with the generated secrets. It
// is TOML with the sections and keys of the configuration.
const File = "secrets.toml"

// Path returns the absolute path of a file of secrets in a data folder.
func Path(data, name string) string { return service.Absolute(filepath.Join(data, name)) }

// MinLength is the recommended minimum length of a secret that an operator chooses: a shorter one
// can be guessed.
const MinLength = 32

// The settings of the server that can be generated.
const (
	Master = "server.master_secret"
	Admin  = "server.admin_token"
)

// Secret is a setting that the server generates if it is unset.
type Secret struct {
	Setting string // SECTION.KEY
	Unset   bool
	Set     func(string)
}

// Absent selects what to do about secrets that are neither set nor in the secrets file.
type Absent int

// The choices.
const (
	MustExist Absent = iota // the file must exist; secrets missing in it are generated, but not saved
	MakeUp                  // generate them for this process
	Create                  // generate and save them
)

// Completed are the secrets that Complete has set.
type Completed struct {
	Settings []string        // of all of them
	Made     map[string]bool // settings of the generated ones, which were not in the file
	NewFile  bool            // the file was created
}

// Complete sets the secrets that are unset to the values in the file of a data folder, or to generated ones.
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
	found, err := load(data, how, done.Settings)
	if err != nil {
		return done, err
	}
	for _, s := range all {
		if s.Unset {
			s.Set(found.values[s.Setting])
		}
	}
	done.Made, done.NewFile = found.made, found.newFile
	return done, nil
}

// loaded are the secrets of the file and generated ones, by setting.
type loaded struct {
	values  map[string]string
	made    map[string]bool // the generated ones, which were not in the file
	newFile bool            // the file was created
}

// load returns the secrets in the file of a data folder. With Create it creates
// the file, or adds the missing secrets to it.
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
		// The process that wrote the file may not have synced the folder yet, or was killed.
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
		return load(data, how, settings) // another process created it first
	}
	return all, err
}

// noFile returns the error for a secrets file that does not exist.
func noFile(data string) error {
	path := filepath.Join(data, File)
	if left := Left(data); len(left) > 0 {
		return fmt.Errorf("%s does not exist, but %s", path, DescribeLeft(left, path))
	}
	return fmt.Errorf("%s does not exist: start the server once, or set the secrets in the configuration", path)
}

// Read reads the secrets file. The error is fs.ErrNotExist or a
// *FileError.
func Read(path string) (values map[string]string, err error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, &FileError{path, "cannot be read: " + service.Reason(err), "chown it to the user that runs holdfast"}
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, &FileError{path, fmt.Sprintf("can be read by others (mode %04o)", info.Mode().Perm()), "run: chmod 600 " + path}
	}
	const restore = "restore it from a backup: without the master secret every client has to sign in again"
	sections := map[string]map[string]string{}
	if err := toml.Unmarshal(text, &sections); err != nil {
		// The error of the parser may quote the line.
		return nil, &FileError{path, "is not valid: expected TOML with sections, such as [server] with master_secret", restore}
	}
	values = map[string]string{}
	for section, keys := range sections {
		for key, value := range keys {
			values[section+"."+key] = value
		}
	}
	if len(values) == 0 {
		return nil, &FileError{path, "is empty", restore}
	}
	return values, nil
}

// FileError means that the secrets file cannot be used.
type FileError struct{ Path, What, Fix string }

func (e *FileError) Error() string { return e.Path + " " + e.What + "; " + e.Fix }

// write writes the file durably. A fresh file is created only if none exists, so
// that two servers that start at once use the same secrets.
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
		return fmt.Errorf("%s cannot be written: %s", path, service.Reason(err))
	} else if err != nil {
		return err
	}
	return nil
}

// LeftFile is a file of secrets that a start left, because it was interrupted before the
// file had its name: by a power cut or by SIGKILL.
type LeftFile struct {
	path   string
	values map[string]string
	err    error // it cannot be used
}

// leftPrefix begins the names of such files.
const leftPrefix = ".secrets-"

// Left returns the files of secrets that interrupted starts have left.
func Left(data string) (all []LeftFile) {
	entries, err := os.ReadDir(data)
	if err != nil {
		return nil // the caller knows that the folder cannot be read
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

// DescribeLeft describes files that interrupted starts have left, and what to do.
func DescribeLeft(left []LeftFile, path string) string {
	var says []string
	for _, f := range left {
		if broken, ok := errors.AsType[*FileError](f.err); ok {
			says = append(says, fmt.Sprintf("%s, which an interrupted start left, cannot be used: it %s", f.path, broken.What))
			continue
		}
		says = append(says, fmt.Sprintf("an interrupted start left %s with secrets: if no other server uses this folder, run: mv %s %s", f.path, f.path, path))
	}
	return strings.Join(says, "; ")
}
