package location

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"holdfast/internal/replica"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	recipients := []string{key.Recipient().String()}
	for _, c := range []struct {
		s    Settings
		want string // part of the problem, or ""
	}{
		{Settings{}, ""},
		{Settings{URL: "s3://bucket?prefix=a/", Recipients: recipients}, ""},
		{Settings{URL: "file:///mnt/backup"}, ""},
		{Settings{URL: "file:///mnt/backup", Recipients: recipients}, ""},
		{Settings{URL: "s3://bucket"}, "holdfast backup key"},
		{Settings{URL: "s3://", Recipients: recipients}, "must name a bucket"},
		{Settings{URL: "/mnt/backup"}, "must be a URL"},
		{Settings{URL: "file://mnt/backup"}, "must be file:// and a folder path"},
		{Settings{URL: "ftp://host/backup", Recipients: recipients}, "must be a URL"},
		{Settings{Recipients: []string{key.String()}}, "is not a public key"},
		{Settings{Recipients: []string{""}}, "is not a public key"},
	} {
		problems := c.s.Check()
		switch {
		case c.want == "" && len(problems) > 0:
			t.Errorf("%v: %v", c.s, problems)
		case c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].What, c.want)):
			t.Errorf("%v: %v, want %q", c.s, problems, c.want)
		}
		for _, p := range problems {
			if strings.Contains(p.What, "AGE-SECRET-KEY") {
				t.Errorf("%v shows a private key", p)
			}
		}
	}
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# public key: " + key.Recipient().String() + "\n" + key.String() + "\n")
	if all, err := Identities(file); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	write(key.Recipient().String())
	if _, err := Identities(file); err == nil || !strings.Contains(err.Error(), "no private key") {
		t.Errorf("a public key: %v", err)
	}
}

func TestServerID(t *testing.T) {
	t.Parallel()
	data, other := t.TempDir(), t.TempDir()
	first, err := ServerID(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ServerID(data); err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
	if another, err := ServerID(other); err != nil || another == first {
		t.Errorf("another folder has %q, %v", another, err)
	}
	if err := os.WriteFile(filepath.Join(data, serverFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ServerID(data); err == nil {
		t.Error("an empty file has no error")
	}
}

func TestOutside(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for address, want := range map[string]bool{
		"file://" + data: false, "file://" + data + "/replica": false, "file://" + data + "-replica": true, "file://" + filepath.Dir(data): true, "s3://bucket": true,
	} {
		if err := Outside(address, data); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestUnknownFolder uses folders below a file, which are neither missing nor readable: that is no folder outside of the data,
// and no disk that is not mounted.
func TestUnknownFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Outside("file:///mnt/backup", file+"/data"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("the data folder: %v", err)
	}
	err := replica.Folder(file+"/replica").Put(t.Context(), "a", strings.NewReader("a"))
	if err == nil || !strings.Contains(err.Error(), "not a directory") || strings.Contains(err.Error(), "mounted") {
		t.Errorf("the replica: %v", err)
	}
}

// TestSigners checks that a data folder makes a single signing key, which only its user can read, and that keys are found in
// texts, files and comments of identity files, and mistyped keys are refused.
func TestSigners(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if k, err := KnownSigner(data); err != nil || !k.IsZero() {
		t.Errorf("a new folder has %v, %v", k, err)
	}
	key, err := SigningKey(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := SigningKey(data)
	if known, knownErr := KnownSigner(data); err != nil || knownErr != nil || again.Public() != key.Public() || known != key.Public() {
		t.Errorf("the key changes: %v, %v", err, knownErr)
	}
	if info, err := os.Stat(filepath.Join(data, signingFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	public := key.Public().String()
	file, _, err := NewKey(time.Now(), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	identity, list, broken := filepath.Join(data, "identity"), filepath.Join(data, "list"), filepath.Join(data, "broken")
	for name, text := range map[string]string{identity: file, list: "lost server: " + public + "\n", broken: signedBy + public[:len(public)-1] + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := Identities(identity); err != nil || len(ids) != 1 {
		t.Errorf("%d identities, %v", len(ids), err)
	}
	for _, c := range []struct {
		texts    []string
		identity string
		want     int
	}{{nil, "", 0}, {[]string{public}, "", 1}, {nil, identity, 1}, {[]string{list, public}, identity, 3}, {[]string{public[1:]}, "", -1}, {[]string{public + "x"}, "", -1}, {nil, broken, -1}, {[]string{data + "/absent"}, "", -1}} {
		all, err := Signers(c.texts, c.identity)
		if (err != nil) != (c.want < 0) || err == nil && len(all) != c.want {
			t.Errorf("%v: %v, %v", c, all, err)
		}
	}
	restored := t.TempDir()
	if err := TrustSigner(restored, replica.Signer{Key: key.Public(), Repository: "R"}); err != nil {
		t.Fatal(err)
	}
	own, err := SigningKey(restored)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := Own(restored)
	if err != nil || len(trust.Signers) != 2 || own.Public() == key.Public() || trust.Signers[1] != (replica.Signer{Key: key.Public(), Repository: "R"}) {
		t.Errorf("a restored folder trusts %v, %v", trust, err)
	}
}
