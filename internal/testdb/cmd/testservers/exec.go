package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// execTest runs a compiled test, as `go test -exec "testservers exec"` does, and appends its processor time to the file
// TEST_TIMES. The time contains that of all programs for which the test waited, such as the built server.
func execTest(args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("usage: testservers exec TEST [ARGUMENTS]")
	}
	runtime.LockOSThread() // dieWith counts from the end of the thread that starts the program
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = dieWithParent()
	for _, variable := range os.Environ() {
		// GOGC is for the compiler and the linker. Some tests measure memory.
		if !strings.HasPrefix(variable, "GOGC=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	// At the end of its patience go test sends SIGQUIT, and the test prints its goroutines.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	code, err = forward(cmd, signals)
	if err != nil {
		return 0, err
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		return 0, err
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return code, appendTimes([]took{{Package: packageOf(args[0]), CPU: cpu.Seconds()}})
}

// packageOf returns the import path of a compiled test. go test starts it in the folder of its package.
func packageOf(test string) string {
	folder, err := os.Getwd()
	if err != nil {
		return test
	}
	for root := folder; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			within, err := filepath.Rel(root, folder)
			if err != nil {
				return test
			}
			return "holdfast/" + filepath.ToSlash(within)
		}
		if root == filepath.Dir(root) {
			return test
		}
	}
}
