// Package copying copies a service's tables to another database, of any engine, while servers use the source. It
// knows no service and no engine: package rows describes tables, and engine.Traits the engines.
//
// A Copy implements `holdfast copy`. It claims both databases (claim.go), copies all owners from snapshots (spans.go,
// pipe.go, write.go), copies later changes (changes.go) at least as fast as writers make them (pace.go), and compares
// owner by owner (compare.go). Package importing uses a Fill, which shares some of these steps.
package copying
