// Package archtest tests the rules of ARCHITECTURE.md: which package may import which,
// and the form of files, packages and the binary. The rules are data. Each has a reason,
// which a failure prints.
//
// A new service is one more line in services (services_test.go). A package without a
// rule fails, and so does a rule without a package.
//
// The tests read all files in their own process and not through the go command, so that
// the cache of go test notices a change of any file.
package archtest
