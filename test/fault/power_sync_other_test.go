//go:build !linux

package fault

func becomeProgram() {}
