// Package conf fills a tree of structs from a TOML file and the environment.
//
// The tree is its caller's: conf knows no service and no setting. What a program
// can be told is what the exported fields say:
//
//	type Config struct {
//		Server struct {
//			Listen string        `toml:"listen" doc:"Address of the main listener."`
//			Grace  time.Duration `toml:"grace" doc:"How long open requests may take at shutdown."`
//			Key    conf.Secret   `toml:"key" doc:"Signs the tokens."`
//		} `toml:"server" doc:"Listeners and what they share."`
//	}
//
// The defaults are the values that stand in the tree when Load is called. Over
// them comes the file, then the names of the reference server (SYNC_…, as far
// as the caller maps them), then HOLDFAST_ and the path in upper case with two
// underscores between section and key: HOLDFAST_SERVER__LISTEN, then what was
// given on the command line.
//
// A field is a string, bool, int, int64, float64, time.Duration, a list of
// strings, a Secret or list of them; a struct is a section, a map of structs by
// name a section with one sub-section per name. Tags:
//
//	toml:"name"    the key; required on every exported field, "-" leaves it out
//	doc:"…"        one sentence for the reference
//	unit:"bytes"   what a number counts
//	secret:"true"  treats a string like a Secret, for packages that may not import conf
//
// For every secret x the key x_file is there too and names a file to read it from.
//
// Everything that is wrong is reported at once, each problem with its place and
// how to mend it. No report quotes a value: what stands in the wrong place may
// well be a secret.
package conf
