// Package archtest keeps the rules of the house by tests: who may import whom,
// and what files, packages and the binary must look like. ARCHITECTURE.md tells
// the rules; here they are data, each with its reason, which a failure prints.
//
// A new service is one more line in services (services_test.go). A package that no rule
// covers fails, and so does a rule that covers no package any more.
//
// Everything is read in the test's own process, not through the go command: the
// cache of go test notices which files were read, and would otherwise repeat an
// answer about a tree that has changed.
package archtest
