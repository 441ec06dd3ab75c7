// Package conf fills a tree of structs from a TOML file and the environment.
//
// The caller owns the tree: conf knows no service and no setting. The exported
// fields are the settings:
//
//	type Config struct {
//		Server struct {
//			Listen string        `toml:"listen" doc:"Address of the main listener."`
//			Grace  time.Duration `toml:"grace" doc:"How long open requests may take at shutdown."`
//			Key    conf.Secret   `toml:"key" doc:"Signs the tokens."`
//		} `toml:"server" doc:"Listeners and what they share."`
//	}
//
// The values in the tree when Load is called are the defaults. The file overrides
// them, then the variables of Mozilla's server (SYNC_…, as far as the caller maps
// them), then HOLDFAST_ and the path in upper case with two underscores between
// section and key: HOLDFAST_SERVER__LISTEN, then flags of the command line. A
// duration needs a unit, except in SYNC_ variables, which count seconds.
//
// A field is a string, bool, int, int64, float64, time.Duration, a list of
// strings, a Secret or list of them; a struct is a section, a map of structs by
// name a section with one sub-section per name. Tags:
//
//	toml:"name"    the key; required on every exported field, "-" leaves it out
//	doc:"…"        one sentence for the reference
//	unit:"bytes"   the unit of a number
//	secret:"true"  treats a string like a Secret, for packages that may not import conf
//
// Every secret x has a key x_file, which names a file to read it from.
//
// All problems are reported at once, each with its place and what was expected. No
// report quotes a value: in the wrong place it may be a secret.
package conf
