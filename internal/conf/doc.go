// Package conf fills a tree of structs from a TOML file and the environment.
//
// The caller defines the tree; conf knows no service and no setting. The exported fields
// are the settings:
//
//	type Config struct {
//		Server struct {
//			Listen string        `toml:"listen" doc:"Address of the main listener."`
//			Grace  time.Duration `toml:"grace" doc:"How long open requests may take at shutdown."`
//			Key    conf.Secret   `toml:"key" doc:"Signs the tokens."`
//		} `toml:"server" doc:"Listeners and what they share."`
//	}
//
// The values in the tree when Load is called are the defaults. These sources override
// them, each the ones before it: the file; the variables of Mozilla's server (SYNC_…)
// that the caller maps; HOLDFAST_ and the path in upper case with two underscores between
// section and key, such as HOLDFAST_SERVER__LISTEN; flags of the command line. A duration
// requires a unit, except in SYNC_ variables, where it is a number of seconds.
//
// A setting is a string, bool, int, int64, float64, time.Duration, a list of strings, a
// Secret or a list of them. A struct is a section. A map of structs by name is a section
// with a subsection for each name. Tags:
//
//	toml:"name"    the key; required on every exported field, "-" leaves it out
//	doc:"…"        one sentence for the reference
//	unit:"bytes"   the unit of a number
//	secret:"true"  treats a string like a Secret, for packages that may not import conf
//	reload:"true"  a running server applies a new value; on a section: of all its settings
//
// Every secret x has a key x_file with the name of a file that contains it.
//
// All problems are reported together, each with its place and what was expected. A
// report never quotes a value, because it may be a secret in the wrong place.
package conf
