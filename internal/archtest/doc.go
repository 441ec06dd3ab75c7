// Package archtest tests the rules of ARCHITECTURE.md: which package may import which, and the form of files, packages
// and the binary.
//
// The tests read all files themselves instead of through the go command, so that the go test cache notices changed
// files.
package archtest
