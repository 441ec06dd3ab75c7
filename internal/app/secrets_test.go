package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSecretsAreMadeOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if _, err := loadSecrets(data, false); err == nil || !strings.Contains(err.Error(), "start the server once") {
		t.Errorf("without a file: %v", err)
	}
	// Servers that start together agree.
	made := make([]secrets, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], err = loadSecrets(data, true); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range made {
		if s != made[0] || len(s.MasterSecret) != 64 || s.MasterSecret == s.AdminToken {
			t.Errorf("secrets differ or are weak: %+v", s)
		}
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestSecretsOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	path := filepath.Join(data, SecretsFile)
	if err := os.WriteFile(path, []byte("master_secret = 'old'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := loadSecrets(data, true)
	if err != nil || s.MasterSecret != "old" || s.AdminToken == "" {
		t.Fatalf("%+v, %v", s, err)
	}
	if again, err := loadSecrets(data, false); err != nil || again != s {
		t.Errorf("not kept: %+v, %v", again, err)
	}
}

func TestSecretsThatOthersCanRead(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	path := filepath.Join(data, SecretsFile)
	if err := errors.Join(os.WriteFile(path, []byte("master_secret = 'x'\n"), 0o600), os.Chmod(path, 0o644)); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if _, err := loadSecrets(data, true); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("mode 0644: %v", err)
	}
	if err := os.WriteFile(path, []byte("master_secret = 'hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSecrets(data, true); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a broken file: %v", err)
	}
}
