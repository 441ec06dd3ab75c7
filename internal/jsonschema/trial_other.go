//go:build !linux

package jsonschema

import "os/exec"

// isolate does nothing, because the process starts no other processes.
func isolate(*exec.Cmd) {}

// confine does nothing: the timeout and the runtime's memory limit apply.
func confine() error { return nil }
