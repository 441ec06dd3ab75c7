package location

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
)

const (
	// signingFile in the data folder contains the server's private signing key. No backup and no replica contains it, so
	// a reader of a backup still cannot sign.
	signingFile = "signing-key"
	// signersFile in a restored data folder lists the keys that signed the repositories it came from.
	signersFile = "trusted-signers"

	signedBy  = "# signed by: "
	keyPrefix = "hfsig1"
	// maxSigners limits a file with public keys, in bytes.
	maxSigners = 1 << 20
)

// SigningKey returns a data folder's signing key, and creates one in a new or restored folder.
func SigningKey(data string) (replica.SigningKey, error) {
	name := filepath.Join(data, signingFile)
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		err := durable.Create(name, durable.Bytes([]byte(replica.NewSigningKey().Text()+"\n")))
		if err != nil && !errors.Is(err, fs.ErrExist) { // another process may create it at the same time
			return replica.SigningKey{}, err
		}
	}
	return readSigningKey(name)
}

func readSigningKey(name string) (k replica.SigningKey, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return k, err
	}
	if k, err = replica.ParseSigningKey(string(text)); err != nil {
		return k, fmt.Errorf("%s: %w: bring back a copy, or move it away and choose new locations for replica and backups", name, err)
	}
	return k, nil
}

// KnownSigner returns a data folder's public signing key, or zero for a folder without a key.
func KnownSigner(data string) (replica.PublicKey, error) {
	k, err := readSigningKey(filepath.Join(data, signingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return replica.PublicKey{}, nil
	}
	return k.Public(), err
}

// Own returns the keys that a server with this data folder trusts without asking: its own key, and for each repository
// it was restored from, the key that signed that repository.
func Own(data string) (t replica.Trust, err error) {
	own, err := KnownSigner(data)
	if err != nil {
		return t, err
	}
	if !own.IsZero() {
		t.Signers = append(t.Signers, replica.Signer{Key: own})
	}
	text, err := os.ReadFile(filepath.Join(data, signersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(string(text)) {
		key, repository, _ := strings.Cut(strings.TrimSpace(line), " ")
		k, err := replica.ParsePublicKey(key)
		if err != nil || repository == "" {
			return t, errcode.Newf(errcode.Invalid, "%s contains a line without a key and a repository", filepath.Join(data, signersFile))
		}
		t.Signers = append(t.Signers, replica.Signer{Key: k, Repository: repository})
	}
	return t, nil
}

// TrustSigner makes a restored data folder trust the key that signed the repository it came from.
func TrustSigner(data string, s replica.Signer) error {
	return durable.Replace(filepath.Join(data, signersFile), durable.Bytes([]byte(s.Key.String()+" "+s.Repository+"\n")))
}

// Signers returns public signing keys. Each text is a key, or a file with keys. A private key file (identity) may contain
// keys in comments, too; see NewKey.
func Signers(texts []string, identity string) (all []replica.Signer, err error) {
	for _, text := range texts {
		if strings.HasPrefix(strings.ToLower(text), keyPrefix) {
			key, err := replica.ParsePublicKey(text)
			if err != nil {
				return nil, err
			}
			all = append(all, replica.Signer{Key: key})
			continue
		}
		keys, err := signersIn(text, "")
		if err != nil {
			return nil, err
		}
		if len(keys) == 0 {
			return nil, errcode.Newf(errcode.Invalid, "%s contains no public signing key: expected a text that starts with %s", text, keyPrefix)
		}
		all = append(all, keys...)
	}
	if identity == "" {
		return all, nil
	}
	signers, err := signersIn(identity, signedBy)
	return append(all, signers...), err
}

// signersIn returns the keys in the lines that begin with prefix.
func signersIn(name, prefix string) (all []replica.Signer, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSigners))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if !strings.HasPrefix(word, keyPrefix) {
				continue
			}
			key, err := replica.ParsePublicKey(word)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, replica.Signer{Key: key})
		}
	}
	return all, nil
}
