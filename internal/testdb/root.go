package testdb

import (
	"errors"
	"os"
	"path/filepath"
)

// Root returns the folder of the repository. go test starts a test in the folder of its package.
func Root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("the working folder is not in the repository")
		}
	}
	return "", err
}
