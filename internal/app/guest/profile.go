package guest

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"holdfast/internal/conf"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/ident"
)

// Profiles holds the profile settings in the section [guest].
type Profiles struct {
	Profile  string                   `toml:"profile" doc:"Site type: hotel, for a hotel search, or a name from guest.profiles. A database and Redis belong to one profile."`
	Profiles map[string]ProfileConfig `toml:"profiles" doc:"Profiles for other sites, by name: 1 to 32 characters from a-z, 0-9 and -. The name hotel configures the hotel profile: only attributes, user and origin settings apply."`
}

// ProfileConfig is a profile for a site that is not a hotel search. SiteConfig is the part that applies to hotel, too.
type ProfileConfig struct {
	EventPrefix string `toml:"event_prefix" doc:"Event type prefix ending in a dot, e.g. shop.guest. (hotel profile: melmastoon.bff.consumer.)"`
	EventSource string `toml:"event_source" doc:"Event source, a URI reference. Empty: guest.event_source."`
	Items       string `toml:"items" doc:"Item ID format: uuid, or text, e.g. sku-4711: 1 to 256 bytes of printable UTF-8. Empty: text."`
	MaxQuantity int    `toml:"max_quantity" doc:"Maximum quantity per wishlist entry. 0: entries carry no quantity."`
	Payload     string `toml:"payload" doc:"JSON Schema (Draft 2020-12) for handoff payloads, e.g. cart entries. It must exclude data that identifies guests. Empty: no handoffs."`
	Criteria    string `toml:"criteria" doc:"JSON Schema (Draft 2020-12) for search criteria. Searches are stored and published, so it must exclude data that identifies guests; free text belongs in the member text, which is not published. Empty: no search."`
	SiteConfig
	Upstreams map[string]UpstreamConfig `toml:"upstreams" doc:"HTTP catalogue services, by name: 1 to 32 characters from a-z, 0-9 and -. The service named search finds items and receives the criteria by POST. GET /catalogue/NAME returns the others' responses. Token, timeout and response size are set in guest.upstreams."`
	Tenant    string                    `toml:"tenant" doc:"Default tenant UUID for entries and views, for a site with a single tenant. Empty: they must name a tenant."`
}

const (
	// Values of ProfileConfig.Items.
	itemsText = "text"
	itemsUUID = "uuid"
)

var (
	profileName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	eventPrefix = regexp.MustCompile(`^(?:[a-zA-Z0-9_-]+\.)+$`)
)

// maxMaxQuantity is the database column's limit.
const maxMaxQuantity = 1 << 30

// defaultProfiles selects the hotel profile, without own settings.
func defaultProfiles() Profiles { return Profiles{Profile: guest.Hotel.Name} }

// Check checks all profiles, also those that are not selected. The profile hotel is built in: only its SiteConfig may
// be set.
func (c *Profiles) Check() (problems conf.Problems) {
	if _, found := c.Profiles[c.Profile]; !found && c.Profile != guest.Hotel.Name {
		problems.Addf("profile", "must be %s, or a name in guest.profiles", guest.Hotel.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p, at := c.Profiles[name], "profiles."+name+"."
		p.SiteConfig.check(at, &problems)
		if name == guest.Hotel.Name {
			if !p.isSite() {
				problems.Addf("profiles."+name, "may only set attributes, users, origins and cookies: name your own profile differently")
			}
			continue
		}
		if !profileName.MatchString(name) {
			problems.Addf("profiles."+name, "needs another name: 1 to 32 characters from a-z, 0-9 and -")
		}
		if !eventPrefix.MatchString(p.EventPrefix) {
			problems.Addf(at+"event_prefix", "must be words with a dot after each, e.g. shop.guest.")
		}
		if p.Items != "" && p.Items != itemsText && p.Items != itemsUUID {
			problems.Addf(at+"items", "must be %s or %s", itemsText, itemsUUID)
		}
		if p.MaxQuantity < 0 || p.MaxQuantity > maxMaxQuantity {
			problems.Addf(at+"max_quantity", "must be from 0 to %d", maxMaxQuantity)
		}
		if p.Payload != "" {
			if err := guest.CheckSchema([]byte(p.Payload)); err != nil {
				problems.Addf(at+"payload", "must be a JSON Schema: it %s", err.Error())
			}
		}
		p.checkCatalogue(at, &problems)
		if id, ok := ident.ParseUUID(p.Tenant); p.Tenant != "" && (!ok || id != p.Tenant) {
			problems.Addf(at+"tenant", "must be a UUID in lower case")
		}
	}
	return problems
}

// profile returns the selected profile. It must not be called before Check.
func (c *Profiles) profile() *guest.Profile {
	p := c.Profiles[c.Profile]
	if c.Profile == guest.Hotel.Name {
		hotel := *guest.Hotel
		hotel.Site = p.site()
		return &hotel
	}
	profile := &guest.Profile{Name: c.Profile, Types: p.EventPrefix, Texts: p.Items != itemsUUID, MaxQuantity: p.MaxQuantity, Tenant: p.Tenant, Site: p.site()}
	if p.Payload != "" {
		profile.Payload = json.RawMessage(p.Payload)
	}
	if p.Criteria != "" {
		profile.Criteria = json.RawMessage(p.Criteria)
	}
	profile.Upstreams = p.upstreams()
	return profile
}

// users returns the keys that verify the site's user tokens, or nil if users cannot sign in.
func (c *Profiles) users() guest.Users {
	texts := c.Profiles[c.Profile].UserKeys
	keys, err := httpapi.NewUserKeys(texts)
	if err != nil || len(texts) == 0 {
		return nil
	}
	return keys
}

// source returns the profile's event source, or general, the setting guest.event_source.
func (c *Profiles) source(general string) string {
	return cmp.Or(c.Profiles[c.Profile].EventSource, general)
}
