// Package copying copies the tables of a service from one database to another, of the same engine or of another one,
// while servers use the source. It knows no service and no engine: tables are described by package rows, and
// what differs between engines by engine.Traits.
//
// A Copy is `holdfast copy`. Its steps: claim both databases (claim.go), copy all owners from snapshots (spans.go, pipe.go,
// write.go), copy what has changed meanwhile (changes.go), as fast as writers change it (pace.go), and compare owner by owner
// (compare.go). Package importing uses a Fill, which has some of these steps.
package copying
