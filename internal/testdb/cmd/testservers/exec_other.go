//go:build !linux

package main

import "syscall"

// dieWithParent is only possible on Linux.
func dieWithParent() *syscall.SysProcAttr { return nil }
