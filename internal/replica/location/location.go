// Package location opens the folder or bucket with a replica or backups, reads its encryption keys, and knows the ID
// of the server that owns the data.
package location

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"holdfast/internal/cloudbucket/scheme"
	"holdfast/internal/conf"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
)

// Settings are common to replicas and backups.
type Settings struct {
	URL        string   `toml:"url" doc:"Folder or bucket: file:///mnt/disk, s3://bucket?prefix=holdfast/, gs://bucket or azblob://bucket, with the same parameters and credentials as storage nodes in buckets. Each server needs its own. Unset: disabled."`
	Recipients []string `toml:"recipients" doc:"Public age keys to encrypt everything with before upload. Create a key pair with holdfast backup key; the private key restores. Required for a bucket."`
}

func (s *Settings) Check() (problems conf.Problems) {
	if s.URL != "" {
		if _, err := parse(s.URL); err != nil {
			problems.Addf("url", "%s", errcode.Message(err))
		} else if len(s.Recipients) == 0 && !isFolder(s.URL) {
			problems.Addf("recipients", "must be set, because the secrets leave this machine: make a key with holdfast backup key")
		}
	}
	if _, err := s.Keys(); err != nil {
		problems.Addf("recipients", "%s", errcode.Message(err))
	}
	return problems
}

func (s *Settings) Keys() (keys []age.Recipient, err error) {
	for _, text := range s.Recipients {
		parsed, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(parsed) != 1 {
			return nil, errcode.New(errcode.Invalid, "contains a text that is not a public key: expected keys, e.g. age1…")
		}
		keys = append(keys, parsed...)
	}
	return keys, nil
}

// Identities reads a private key file from holdfast backup key or age-keygen.
func Identities(file string) ([]age.Identity, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s contains no private key: expected a line starting with AGE-SECRET-KEY-1: %w", file, err)
	}
	return all, nil
}

// IsURL reports whether text is a location URL rather than a folder.
func IsURL(text string) bool {
	name, _, found := strings.Cut(text, "://")
	return found && (name == "file" || scheme.IsBucket(name))
}

// Name removes parameters and credentials, for messages.
func Name(address string) string {
	u, err := parse(address)
	if err != nil {
		return address
	}
	name := u.Scheme + "://" + u.Host + u.Path
	if prefix := u.Query().Get("prefix"); prefix != "" {
		name += "/" + strings.TrimSuffix(prefix, "/")
	}
	return name
}

// Bucket is an open bucket with a replica or backups.
type Bucket interface {
	replica.Target
	Close() error
}

// Clouds opens a bucket at a cloud provider without connecting to it. Without one, i.e. nil, locations are folders only.
type Clouds func(ctx context.Context, address string) (Bucket, error)

// Open opens a location without connecting to a provider.
func (c Clouds) Open(ctx context.Context, address string) (t replica.Target, closeIt func() error, err error) {
	u, err := parse(address)
	if err != nil {
		return nil, nil, err
	}
	if u.Scheme == "file" {
		return replica.Folder(filepath.FromSlash(u.Path)), func() error { return nil }, nil
	}
	if c == nil {
		return nil, nil, errcode.Newf(errcode.Invalid, "%s is a bucket, and this program opens folders only", Name(address))
	}
	b, err := c(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	return b, b.Close, nil
}

// Outside returns an error if a backup or replica would be lost with the data folder, or moved away by a restore.
func Outside(where, data string) error {
	path := where
	if u, err := url.Parse(where); err == nil && IsURL(where) {
		if u.Scheme != "file" {
			return nil
		}
		path = filepath.FromSlash(u.Path)
	}
	inside, err := os.Stat(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing is in it
	}
	if err != nil {
		return err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	for ; ; path = filepath.Dir(path) {
		// Links have other parent folders, and bind mounts have other names.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		if info, err := os.Stat(path); err == nil && os.SameFile(info, inside) {
			return errcode.Newf(errcode.Invalid, "%s is in the data folder %s, where it is lost together with the data: name a folder outside, best on another disk", where, data)
		}
		if path == filepath.Dir(path) {
			return nil
		}
	}
}

func isFolder(address string) bool { return strings.HasPrefix(address, "file:") }

// parse checks the form of an address. It opens nothing; errors are errcode.Invalid and complete the name of a setting.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "file" && !scheme.IsBucket(u.Scheme):
		return nil, errcode.New(errcode.Invalid, "must be a URL, e.g. s3://bucket?prefix=holdfast/, gs://…, azblob://… or file:///folder")
	case u.Scheme == "file" && (u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.RawQuery != ""):
		return nil, errcode.New(errcode.Invalid, "must be file:// and a folder path, e.g. file:///mnt/backup")
	case u.Scheme != "file" && u.Host == "":
		return nil, errcode.Newf(errcode.Invalid, "must name a bucket, e.g. %s://bucket?prefix=holdfast/", u.Scheme)
	}
	return u, nil
}

const serverFile = "server-id"

// ServerID returns a data folder's server ID, and creates one in a new folder. A restored folder gets a new ID, so
// that it never writes to the lost server's repository.
func ServerID(data string) (string, error) {
	id, err := KnownServerID(data)
	if err != nil || id != "" {
		return id, err
	}
	err = durable.Create(filepath.Join(data, serverFile), durable.Bytes([]byte(rand.Text()+"\n")))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return KnownServerID(data)
}

// KnownServerID returns a data folder's server ID, or "" for a new folder.
func KnownServerID(data string) (string, error) {
	name := filepath.Join(data, serverFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return "", fmt.Errorf("%s is empty: move it away, e.g. with mv %[1]s %[1]s.old, and choose a new location for replica and backups", name)
	}
	return id, nil
}

// NewKey returns a private key in age-keygen's format, and its public key. The file also names the signer, unless it is
// zero, so that a restore with this file knows whose repository to expect; see Signers.
func NewKey(now time.Time, signer replica.PublicKey) (file, public string, err error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	public = key.Recipient().String()
	file = fmt.Sprintf("# created: %s\n# public key: %s\n", now.Format(time.RFC3339), public)
	if !signer.IsZero() {
		file += signedBy + signer.String() + "\n"
	}
	return file + key.String() + "\n", public, nil
}
