//go:build !linux

package fault

// becomeProgram does nothing: tests that cut the power need Linux.
func becomeProgram() {}
