package main

import "syscall"

// dieWithParent lets the system end the test if this process is killed, e.g. by go test after SIGQUIT was ignored.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
