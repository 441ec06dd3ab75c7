package guest

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
)

// SiteConfig holds profile settings that also apply to hotel.
type SiteConfig struct {
	AttributesLimit  int64  `toml:"attributes_limit" unit:"bytes" doc:"Maximum size of session attributes as compact JSON, up to 16384. 0: 16384."`
	AttributesSchema string `toml:"attributes_schema" doc:"JSON Schema (Draft 2020-12) for session attributes. Empty: any object."`

	UserKeys []string `toml:"user_keys" secret:"true" doc:"Keys that verify the site's user tokens: secrets of at least 32 bytes (HS256), or PEM public keys (EdDSA, ES256). Any key may match. Empty: users cannot sign in."`
	Merge    string   `toml:"merge" doc:"How to merge a guest's wishlist into the user's at sign-in: union adds entries, newest also replaces older entries for the same item, sum adds quantities, keep discards the guest's unless the user's is empty. Empty: union."`

	Origins      []string `toml:"origins" doc:"Origins allowed to send requests with the cookie (CORS), e.g. https://www.example.com. Exact match: no wildcards, paths or default ports."`
	CookieDomain string   `toml:"cookie_domain" doc:"Cookie domain, e.g. example.com, to send the cookie to all its hosts, including server-side rendering. Empty: only the API host."`
}

// check adds problems to the profile's; at begins the settings' names, e.g. "profiles.shop.".
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
	for _, o := range c.Origins {
		if !isOrigin(o) {
			problems.Addf(at+"origins", "must be origins, e.g. https://www.example.com, in lower case, without a path or the default port")
			break
		}
	}
	if c.CookieDomain != "" && !domainForm.MatchString(c.CookieDomain) {
		problems.Addf(at+"cookie_domain", "must be a lower-case domain, e.g. example.com")
	}
	if c.AttributesSchema != "" {
		if err := guest.CheckSchema([]byte(c.AttributesSchema)); err != nil {
			problems.Addf(at+"attributes_schema", "must be a JSON Schema: it %s", err.Error())
		}
	}
}

var (
	originForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://(?:[a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:]+\])(?::[1-9][0-9]{0,4})?$`)
	domainForm = regexp.MustCompile(`^[a-z0-9-]+(?:\.[a-z0-9-]+)+$`)
)

// isOrigin accepts origins as sent by browsers. Apps use custom schemes.
func isOrigin(s string) bool {
	return originForm.MatchString(s) && !(strings.HasPrefix(s, "https://") && strings.HasSuffix(s, ":443")) && !(strings.HasPrefix(s, "http://") && strings.HasSuffix(s, ":80"))
}

// isSite reports whether only the settings of SiteConfig are set.
func (p ProfileConfig) isSite() bool {
	return reflect.DeepEqual(p, ProfileConfig{SiteConfig: p.SiteConfig})
}

// site converts the settings for package guest.
func (c *SiteConfig) site() guest.Site {
	s := guest.Site{AttributesLimit: int(c.AttributesLimit), Merge: guest.MergeRule(c.Merge), Origins: c.Origins, CookieDomain: c.CookieDomain}
	if c.AttributesSchema != "" {
		s.AttributesSchema = json.RawMessage(c.AttributesSchema)
	}
	return s
}
