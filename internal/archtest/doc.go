// Package archtest tests the rules in ARCHITECTURE.md: which package may import which, and how files, packages and the
// binary must look.
//
// The tests read all files themselves instead of through the go command, so that the go test cache notices changed
// files.
package archtest
