package app

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var ownSecrets = []string{"master_secret", "admin_token"}

func TestSecretsAreMadeOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if _, _, err := loadSecrets(data, false, ownSecrets); err == nil || !strings.Contains(err.Error(), "start the server once") {
		t.Errorf("without a file: %v", err)
	}
	// Servers that start together agree.
	made := make([]map[string]string, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], _, err = loadSecrets(data, true, ownSecrets); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range made {
		if !maps.Equal(s, made[0]) || len(s["master_secret"]) != 64 || s["master_secret"] == s["admin_token"] {
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
	if _, unsaved, err := loadSecrets(data, false, ownSecrets); err != nil || !unsaved["admin_token"] || unsaved["master_secret"] {
		t.Fatalf("of this process only: %v, %v", unsaved, err)
	}
	s, unsaved, err := loadSecrets(data, true, ownSecrets)
	if err != nil || s["master_secret"] != "old" || s["admin_token"] == "" || len(unsaved) > 0 {
		t.Fatalf("%+v, %v, %v", s, unsaved, err)
	}
	if again, _, err := loadSecrets(data, false, ownSecrets); err != nil || !maps.Equal(again, s) {
		t.Errorf("not kept: %+v, %v", again, err)
	}
	// What another release or service has there stays.
	if more, _, err := loadSecrets(data, true, []string{"of_a_toy"}); err != nil || more["admin_token"] != s["admin_token"] || more["of_a_toy"] == "" {
		t.Errorf("%+v, %v", more, err)
	}
}

func TestSecretsThatOthersCanRead(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	path := filepath.Join(data, SecretsFile)
	if err := errors.Join(os.WriteFile(path, []byte("master_secret = 'x'\n"), 0o600), os.Chmod(path, 0o644)); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if _, _, err := loadSecrets(data, true, ownSecrets); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("mode 0644: %v", err)
	}
	if err := os.WriteFile(path, []byte("master_secret = 'hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := loadSecrets(data, true, ownSecrets); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a broken file: %v", err)
	}
}
