package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/ident"
)

// SecretsFile is the name of the file in the data folder with the generated secrets. It
// is TOML with the sections and keys of the configuration.
const SecretsFile = "secrets.toml"

// secretsPath returns the absolute path of a file of secrets in a data folder.
func secretsPath(data, name string) string {
	path := filepath.Join(data, name)
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// minMasterSecret is the recommended minimum length of a master secret: a shorter one
// can be guessed.
const minMasterSecret = 32

// The settings of the server that can be generated.
const (
	masterSetting = "server.master_secret"
	adminSetting  = "server.admin_token"
)

// secret is a setting that the server generates if it is unset.
type secret struct {
	setting string // SECTION.KEY
	unset   bool
	set     func(string)
}

// generated returns the secrets that the server can generate: its own and those of the
// enabled services.
func (c *Config) generated() []secret {
	srv := &c.Server
	all := []secret{
		{masterSetting, srv.MasterSecret == "", func(s string) { srv.MasterSecret = conf.Secret(s) }},
		{adminSetting, srv.AdminToken == "", func(s string) { srv.AdminToken = conf.Secret(s) }},
	}
	for _, s := range c.enabled() {
		for _, own := range s.Secrets {
			all = append(all, secret{s.Name + "." + own.Name, *own.Setting == "", func(s string) { *own.Setting = s }})
		}
	}
	return all
}

// absent selects what to do about secrets that are neither set nor in the secrets file.
type absent int

const (
	mustExist absent = iota // the file must exist; secrets missing in it are generated, but not saved
	makeUp                  // generate them for this process
	create                  // generate and save them
)

// absentSecrets returns what the options say about missing secrets.
func (o *Options) absentSecrets() absent {
	switch {
	case o.NoSecrets:
		return makeUp
	case o.Create:
		return create
	}
	return mustExist
}

// secrets completes the configuration with generated secrets.
func (a *App) secrets(how absent) error {
	var unset []secret
	var settings []string
	for _, s := range a.cfg.generated() {
		if s.unset {
			unset = append(unset, s)
			settings = append(settings, s.setting)
		}
	}
	if len(unset) == 0 {
		return nil
	}
	if how == create {
		if err := engine.MakeFolder(a.data); err != nil {
			return err
		}
	}
	loaded, err := loadSecrets(a.data, how, settings)
	if err != nil {
		return err
	}
	for _, s := range unset {
		s.set(loaded.values[s.setting])
	}
	a.kept, a.made, a.newFile = settings, loaded.made, loaded.newFile
	if how != create {
		a.unsaved = loaded.made
	}
	return nil
}

// loadedSecrets are the secrets of the file and generated ones, by setting.
type loadedSecrets struct {
	values  map[string]string
	made    map[string]bool // the generated ones, which were not in the file
	newFile bool            // the file was created
}

// loadSecrets returns the secrets in the file of a data folder. With create it creates
// the file, or adds the missing secrets to it.
func loadSecrets(data string, how absent, settings []string) (loaded loadedSecrets, err error) {
	path := filepath.Join(data, SecretsFile)
	values, err := readSecrets(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && how == mustExist:
		return loaded, noSecretsFile(data)
	case missing:
		values = map[string]string{}
	case err != nil:
		return loaded, err
	case how == create:
		// The process that wrote the file may not have synced the folder yet, or was killed.
		if err := durable.SyncFolder(data); err != nil {
			return loaded, err
		}
	}
	loaded = loadedSecrets{values: values, made: map[string]bool{}, newFile: missing && how == create}
	for _, name := range settings {
		if values[name] == "" {
			values[name] = ident.Hex(32)
			loaded.made[name] = true
		}
	}
	if len(loaded.made) == 0 || how != create {
		return loaded, nil
	}
	err = writeSecrets(path, values, missing)
	if errors.Is(err, fs.ErrExist) {
		return loadSecrets(data, how, settings) // another process created it first
	}
	return loaded, err
}

// noSecretsFile returns the error for a secrets file that does not exist.
func noSecretsFile(data string) error {
	path := filepath.Join(data, SecretsFile)
	if left := leftSecrets(data); len(left) > 0 {
		return fmt.Errorf("%s does not exist, but %s", path, describeLeft(left, path))
	}
	return fmt.Errorf("%s does not exist: start the server once, or set the secrets in the configuration", path)
}

// readSecrets reads the secrets file. The error is fs.ErrNotExist or a
// *SecretsFileError.
func readSecrets(path string) (values map[string]string, err error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, &SecretsFileError{path, "cannot be read: " + service.Reason(err), "chown it to the user that runs holdfast"}
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, &SecretsFileError{path, fmt.Sprintf("can be read by others (mode %04o)", info.Mode().Perm()), "run: chmod 600 " + path}
	}
	const restore = "restore it from a backup: without the master secret every client has to sign in again"
	sections := map[string]map[string]string{}
	if err := toml.Unmarshal(text, &sections); err != nil {
		// The error of the parser may quote the line.
		return nil, &SecretsFileError{path, "is not valid: expected TOML with sections, such as [server] with master_secret", restore}
	}
	values = map[string]string{}
	for section, keys := range sections {
		for key, value := range keys {
			values[section+"."+key] = value
		}
	}
	if len(values) == 0 {
		return nil, &SecretsFileError{path, "is empty", restore}
	}
	return values, nil
}

// SecretsFileError means that the secrets file cannot be used.
type SecretsFileError struct{ Path, What, Fix string }

func (e *SecretsFileError) Error() string { return e.Path + " " + e.What + "; " + e.Fix }

// writeSecrets writes the file durably. A fresh file is created only if none exists, so
// that two servers that start at once use the same secrets.
func writeSecrets(path string, values map[string]string, fresh bool) error {
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

// leftFile is a file of secrets that a start left, because it was interrupted before the
// file had its name: by a power cut or by SIGKILL.
type leftFile struct {
	path   string
	values map[string]string
	err    error // it cannot be used
}

// leftPrefix begins the names of such files.
const leftPrefix = ".secrets-"

// leftSecrets returns the files of secrets that interrupted starts have left.
func leftSecrets(data string) (all []leftFile) {
	entries, err := os.ReadDir(data)
	if err != nil {
		return nil // the caller knows that the folder cannot be read
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), leftPrefix) || !e.Type().IsRegular() {
			continue
		}
		f := leftFile{path: secretsPath(data, e.Name())}
		f.values, f.err = readSecrets(f.path)
		all = append(all, f)
	}
	return all
}

// describeLeft describes files that interrupted starts have left, and what to do.
func describeLeft(left []leftFile, path string) string {
	var says []string
	for _, f := range left {
		if broken, ok := errors.AsType[*SecretsFileError](f.err); ok {
			says = append(says, fmt.Sprintf("%s, which an interrupted start left, cannot be used: it %s", f.path, broken.What))
			continue
		}
		says = append(says, fmt.Sprintf("an interrupted start left %s with secrets: if no other server uses this folder, run: mv %s %s", f.path, f.path, path))
	}
	return strings.Join(says, "; ")
}
