package guest

import (
	"encoding/json"
	"reflect"

	"holdfast/internal/conf"
	"holdfast/internal/guest"
)

// SiteConfig are the settings of a profile that hotel has, too.
type SiteConfig struct {
	AttributesLimit  int64  `toml:"attributes_limit" unit:"bytes" doc:"The largest attributes of a session, as JSON without spaces: at most 16384. 0: that."`
	AttributesSchema string `toml:"attributes_schema" doc:"JSON Schema (Draft 2020-12) of the attributes of a session. Empty: any object."`
}

// check adds the problems of the settings to those of the section.
func (c *SiteConfig) check(at string, problems *conf.Problems) {
	if c.AttributesLimit < 0 || c.AttributesLimit > guest.MaxAttributes {
		problems.Addf(at+"attributes_limit", "must be from 0 to %d", guest.MaxAttributes)
	}
	if c.AttributesSchema != "" {
		if err := guest.CheckSchema([]byte(c.AttributesSchema)); err != nil {
			problems.Addf(at+"attributes_schema", "must be a JSON Schema: it %s", err.Error())
		}
	}
}

// isSite reports whether a profile has nothing but the settings that hotel has, too.
func (p ProfileConfig) isSite() bool {
	return reflect.DeepEqual(p, ProfileConfig{SiteConfig: p.SiteConfig})
}

// site returns what the settings choose.
func (c *SiteConfig) site() guest.Site {
	s := guest.Site{AttributesLimit: int(c.AttributesLimit)}
	if c.AttributesSchema != "" {
		s.AttributesSchema = json.RawMessage(c.AttributesSchema)
	}
	return s
}
