package app

import "holdfast/internal/conf"

// Reference is docs/configuration.md.
func Reference() string {
	d := NewConfig(Services())
	return "# Configuration\n\n" +
		"Made by `holdfast config reference`; `holdfast config example` prints a file with every default. Nothing has to be\n" +
		"configured. Settings come from, the later over the earlier: defaults, the TOML file (`--config`), the names of the\n" +
		"reference server (`SYNC_…`), and `HOLDFAST_…`.\n\n" +
		conf.Reference(d.sections(), d.aliases()...)
}

// Example is a configuration file with every setting and its default.
func Example() string { return conf.Example(NewConfig(Services()).sections()) }
