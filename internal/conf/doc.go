// Package conf fills a tree of structs from a TOML file and the environment.
//
// The caller defines the tree; conf knows no service and no setting. Exported fields are settings.
//
// The initial values are the defaults. Later sources override earlier ones: the file; mapped variables of Mozilla's
// server (SYNC_…); HOLDFAST_ plus the upper-case path with two underscores between section and key, e.g.
// HOLDFAST_SERVER__LISTEN; command-line flags. Durations need a unit, except in SYNC_ variables, which use seconds.
//
// A setting is a string, bool, int, int64, float64, time.Duration, list of strings, Secret or list of Secrets. A
// struct is a section; a map of structs is a section with named subsections. Tags:
//
//	toml:"name"    the key; required on every exported field, "-" leaves it out
//	doc:"…"        one sentence for the reference
//	unit:"bytes"   a number's unit
//	secret:"true"  treats a string like a Secret, for packages that may not import conf
//	reload:"true"  a running server applies a new value; on a section, for all its settings
//
// Every secret x has a key x_file naming a file that contains it.
//
// All problems are reported together, each with its origin and the expected value. A report never quotes a value,
// because it may be a misplaced secret.
package conf
