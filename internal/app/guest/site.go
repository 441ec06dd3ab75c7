package guest

import (
	"encoding/json"
	"reflect"
	"slices"

	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
)

// SiteConfig are the settings of a profile that hotel has, too.
type SiteConfig struct {
	AttributesLimit  int64  `toml:"attributes_limit" unit:"bytes" doc:"The largest attributes of a session, as JSON without spaces: at most 16384. 0: that."`
	AttributesSchema string `toml:"attributes_schema" doc:"JSON Schema (Draft 2020-12) of the attributes of a session. Empty: any object."`

	UserKeys []string `toml:"user_keys" secret:"true" doc:"What the site signs the tokens of its users with: secrets of at least 32 bytes (HS256), or public keys in PEM (EdDSA, ES256). A token of any of them is accepted. Empty: users cannot sign in."`
	Merge    string   `toml:"merge" doc:"What becomes of the wishlist of a guest who signs in: union adds its entries to the user's, newest also replaces older entries of the same item, sum adds up quantities, keep drops it unless the user's is empty. Empty: union."`
}

// check adds the problems of the settings to those of the section.
func (c *SiteConfig) check(at string, problems *conf.Problems) {
	if c.AttributesLimit < 0 || c.AttributesLimit > guest.MaxAttributes {
		problems.Addf(at+"attributes_limit", "must be from 0 to %d", guest.MaxAttributes)
	}
	if _, err := httpapi.NewUserKeys(c.UserKeys); err != nil {
		problems.Addf(at+"user_keys", "%s", errcode.Message(err))
	}
	if c.Merge != "" && !slices.Contains(guest.MergeRules, guest.MergeRule(c.Merge)) {
		problems.Addf(at+"merge", "must be union, newest, sum or keep")
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
	s := guest.Site{AttributesLimit: int(c.AttributesLimit), Merge: guest.MergeRule(c.Merge)}
	if c.AttributesSchema != "" {
		s.AttributesSchema = json.RawMessage(c.AttributesSchema)
	}
	return s
}
