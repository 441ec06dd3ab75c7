// Package archtest tests the rules of ARCHITECTURE.md: which package may import which, and the form of files,
// packages and the binary.
//
// The tests read all files in their own process and not through the go command, so that the cache of go test notices
// a change of any file.
package archtest
