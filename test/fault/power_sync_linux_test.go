package fault

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withoutSyncs is the environment variable that names a program to execute without effective fsync and fdatasync
// calls.
const withoutSyncs = "FAULT_WITHOUT_SYNCS"

func becomeProgram() {
	program := os.Getenv(withoutSyncs)
	if program == "" {
		return
	}
	fmt.Fprintln(os.Stderr, program, ignoreSyncs(program))
	os.Exit(1)
}

// ignoreSyncs executes a program under a seccomp filter, which the program cannot remove.
func ignoreSyncs(program string) error {
	const number = 0 // offset in seccomp_data
	jump := func(call uint32, then uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: then}
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		jump(unix.SYS_FSYNC, 2),
		jump(unix.SYS_FDATASYNC, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // error 0: success
	}
	runtime.LockOSThread() // the filter applies to this thread, which executes the program
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	rules := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&rules)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
}
