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
	Profile  string                   `toml:"profile" doc:"What the guests of the site choose and hand over: hotel, for a hotel search, or the name of one of guest.profiles. Databases and Redis of one profile cannot be used with another."`
	Profiles map[string]ProfileConfig `toml:"profiles" doc:"Profiles of other sites, by name: 1 to 32 characters of a-z, 0-9 and -. The name hotel has settings of the profile hotel: those that any site has, of attributes, users and origins."`
}

// ProfileConfig configures a profile.
type ProfileConfig struct {
	EventPrefix string `toml:"event_prefix" doc:"Beginning of the types of events, with a dot at the end, such as shop.guest. (in the profile hotel: melmastoon.bff.consumer.)"`
	EventSource string `toml:"event_source" doc:"The source of the events, a URI reference. Empty: guest.event_source."`
	Items       string `toml:"items" doc:"IDs of items: text, such as sku-4711, or uuid. A text has 1 to 64 letters, digits and . _ ~ : - and begins with a letter or a digit. Empty: text."`
	MaxQuantity int    `toml:"max_quantity" doc:"The largest quantity of an entry of the wishlist. 0: entries have no quantity."`
	Payload     string `toml:"payload" doc:"JSON Schema (Draft 2020-12) of what a handoff hands over, such as the entries of a cart. It must not have what identifies a guest. Empty: there are no handoffs."`
	Criteria    string `toml:"criteria" doc:"JSON Schema (Draft 2020-12) of what guests search by. The server publishes and stores searches, so the schema must not have what identifies a guest; free text belongs into the member text, which is not published. Empty: there is no search."`
	SiteConfig
	Upstreams map[string]UpstreamConfig `toml:"upstreams" doc:"HTTP services of the catalogue, by name: 1 to 32 characters of a-z, 0-9 and -. The one named search finds items: it gets POST with the criteria. GET /catalogue/NAME returns the answers of another. guest.upstreams has the token, the timeout and the size of an answer."`
	Tenant    string                    `toml:"tenant" doc:"UUID of the tenant of entries and views that name none, for a site with one tenant. Empty: they must name one."`
}

const (
	itemsText = "text"
	itemsUUID = "uuid"
)

var (
	profileName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	eventPrefix = regexp.MustCompile(`^(?:[a-zA-Z0-9_-]+\.)+$`)
)

// maxMaxQuantity is the database column's limit.
const maxMaxQuantity = 1 << 30

func defaultProfiles() Profiles { return Profiles{Profile: guest.Hotel.Name} }

// Check reports every invalid setting.
func (c *Profiles) Check() (problems conf.Problems) {
	if _, found := c.Profiles[c.Profile]; !found && c.Profile != guest.Hotel.Name {
		problems.Addf("profile", "must be %s, or the name of one of guest.profiles", guest.Hotel.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p, at := c.Profiles[name], "profiles."+name+"."
		p.SiteConfig.check(at, &problems)
		if name == guest.Hotel.Name {
			if !p.isSite() {
				problems.Addf("profiles."+name, "must have settings of attributes, users, origins and cookies only: give a profile of your own another name")
			}
			continue
		}
		if !profileName.MatchString(name) {
			problems.Addf("profiles."+name, "must have another name: 1 to 32 characters of a-z, 0-9 and -")
		}
		if !eventPrefix.MatchString(p.EventPrefix) {
			problems.Addf(at+"event_prefix", "must be words with a dot after each, such as shop.guest.")
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

// users returns nil if sign-in is disabled.
func (c *Profiles) users() guest.Users {
	texts := c.Profiles[c.Profile].UserKeys
	keys, err := httpapi.NewUserKeys(texts)
	if err != nil || len(texts) == 0 {
		return nil
	}
	return keys
}

func (c *Profiles) source(general string) string {
	return cmp.Or(c.Profiles[c.Profile].EventSource, general)
}
