package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast/internal/testdb"
)

// execTest runs a compiled test, as `go test -exec "testservers exec"` does, and appends its processor time to the file
// TEST_TIMES. The time contains that of all programs for which the test waited, such as the built server.
func execTest(args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("usage: testservers exec TEST [ARGUMENTS]")
	}
	runtime.LockOSThread() // with dieWithParent, the parent is the thread that starts the program
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = dieWithParent()
	// GOGC is for the compiler and the linker. Some tests measure memory.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GOGC=") })
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
	root, err := testdb.Root()
	if err != nil {
		return test
	}
	folder, err := filepath.Abs(".")
	if err != nil {
		return test
	}
	return "holdfast" + filepath.ToSlash(strings.TrimPrefix(folder, root))
}
