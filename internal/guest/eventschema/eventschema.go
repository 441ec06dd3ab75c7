// Package eventschema describes guest event data as JSON Schemas (Draft 2020-12), for consumers.
//
// A schema's version is the end of the event type, e.g. v1. Members may be added within a version, so the schemas
// allow unknown members.
package eventschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/telemetry"
)

// Schema describes an event type for consumers.
type Schema struct {
	Kind string // without the profile's prefix, e.g. wishlist.added.v1
	// the full type, in the CloudEvents attribute type
	Type string
	// an English sentence: when the event is published
	Doc       string
	Retention string // guest.Operational or guest.Audit
	// a JSON Schema for the event's data
	Text json.RawMessage
}

// object is a JSON object: a schema, or a schema's properties.
type object = map[string]any

// All returns a profile's schemas, ordered by type.
func All(p *guest.Profile) (all []Schema) {
	b := builder{p}
	kinds := b.kinds()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[kind]
		root := object{
			"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:holdfast:guest:event:" + p.EventType(kind),
			"title": p.EventType(kind), "description": k.doc,
		}
		maps.Copy(root, k.data)
		text, err := json.MarshalIndent(root, "", "  ")
		if err != nil {
			panic(err) // the payload schema is not JSON, which the configuration rejects
		}
		all = append(all, Schema{kind, p.EventType(kind), k.doc, k.retention, append(text, '\n')})
	}
	return all
}

// Find takes a type with or without the profile's prefix.
func Find(p *guest.Profile, name string) (Schema, bool) {
	all := All(p)
	i := slices.IndexFunc(all, func(s Schema) bool { return s.Type == name || s.Kind == name })
	if i < 0 {
		return Schema{}, false
	}
	return all[i], true
}

// kind is an event type before it gets its profile's prefix.
type kind struct {
	doc       string
	retention string
	// JSON Schema for the data
	data object
}

// builder builds the schemas that a profile's sites publish.
type builder struct{ profile *guest.Profile }

// kinds returns every event type by name without prefix. A new event needs an entry here: tests check recorded events
// against the schemas.
func (b builder) kinds() map[string]kind {
	wish := record(b.withQuantity(object{
		"sessionId": id(guest.SessionPrefix), "wishId": id(guest.WishPrefix), "tenantId": uuid(), b.item(): b.itemID(), "source": text("Where the guest added it."),
	}))
	kinds := map[string]kind{
		"session.started.v1": {"A guest received a new session's cookie.", guest.Operational, record(object{
			"sessionId": id(guest.SessionPrefix), "createdAt": moment(), "campaign": campaign(),
		}, "campaign")},
		"session.attributes_changed.v1": {"Session attributes changed. Their values are not published.", guest.Operational, record(object{
			"sessionId": id(guest.SessionPrefix), "changed": list(text("")), "version": text("The attributes' ETag."), "bytes": count(0),
		})},
		"session.linked.v1": {"A session was linked to a signed-in user. sessionId is the session with the merged list.", guest.Operational, record(object{
			"sessionId": id(guest.SessionPrefix), "formerSessionId": id(guest.SessionPrefix), "added": count(0), "changed": count(0), "dropped": count(0),
		})},
		"wishlist.added.v1":     {"An item was added to a wishlist.", guest.Operational, wish},
		"wishlist.removed.v1":   {"An item was removed from a wishlist.", guest.Operational, wish},
		"handoff.initiated.v1":  {"A handoff was minted.", guest.Audit, b.initiated()},
		"bot_suspected.v1":      {"A handoff was consumed again (signal handoff-replay), or a request is suspect (signal score).", guest.Audit, b.suspected()},
		"page_view.recorded.v1": {"A front end reported a page view.", guest.Operational, b.pageView()},
		"funnel.recorded.v1":    {"A front end reported a step towards a handoff.", guest.Operational, b.funnelEvent()},
	}
	if b.profile.IsHotel() {
		kinds["search.executed.v1"] = kind{"A guest searched.", guest.Operational, searched()}
		kinds["detail.viewed.v1"] = kind{"A guest with a session viewed a property.", guest.Operational, record(object{
			"sessionId": id(guest.SessionPrefix), "tenantId": uuid(), "propertyId": uuid(), "locale": locale(), "currency": currency(), "cache": cacheState(),
		})}
		return kinds
	}
	if b.profile.Payload != nil {
		kinds["handoff.voided.v1"] = kind{"A handoff was voided before it was consumed.", guest.Audit, record(object{
			"handoffId": id(guest.HandoffPrefix), "sessionId": id(guest.SessionPrefix), "tenantId": uuid(), b.item(): b.itemID(), "reason": one(handoffs.VoidReasons...),
		})}
	}
	kinds["wishlist.changed.v1"] = kind{"A wishlist entry's quantity changed.", guest.Operational, wish}
	if b.profile.Criteria != nil {
		kinds["search.executed.v1"] = kind{"A guest searched.", guest.Operational, searchedFor(record(object{
			"criteria": object{"type": "object", "additionalProperties": true, "description": "Without the member text."},
			"page":     count(1), "pageSize": count(1), "locale": locale(), "currency": currency(),
		}))}
	}
	if slices.ContainsFunc(b.profile.Upstreams, func(u guest.Upstream) bool { return slices.Contains(u.Path, "itemId") }) {
		kinds["detail.viewed.v1"] = kind{"A guest with a session viewed an item.", guest.Operational, record(object{
			"sessionId": id(guest.SessionPrefix), "itemId": b.itemID(), "upstream": text("The upstream that answered."), "cache": cacheState(),
		})}
	}
	return kinds
}

// item returns the member that names an item: propertyId or itemId.
func (b builder) item() string { return b.profile.Member() }

// itemID returns the schema for an item's id.
func (b builder) itemID() object {
	if b.profile.IsHotel() || !b.profile.Texts {
		return uuid()
	}
	return object{"type": "string", "minLength": 1, "maxLength": guest.MaxItem}
}

// withQuantity adds the quantity, in profiles that have it, to members and returns them.
func (b builder) withQuantity(members object) object {
	if !b.profile.IsHotel() && b.profile.MaxQuantity > 0 {
		members["quantity"] = object{"type": "integer", "minimum": 1}
	}
	return members
}

// initiated describes a minted handoff, whose travel data depends on the profile.
func (b builder) initiated() object {
	members := object{
		"handoffId": id(guest.HandoffPrefix), "sessionId": id(guest.SessionPrefix), "tenantId": uuid(), b.item(): b.itemID(), "currency": currency(), "locale": locale(),
		"campaign": campaign(), "keyId": text("The key that signed the token."), "expiresAt": moment(),
	}
	if b.profile.IsHotel() {
		maps.Copy(members, object{"checkIn": date(), "checkOut": date(), "adults": count(1), "children": count(0), "rooms": count(1)})
	} else {
		members["payload"] = b.payload()
	}
	return record(members, "campaign")
}

// payload returns the schema that the operator configured for handoffs, with an $id if it has none: relative references
// inside must not resolve against the event's.
func (b builder) payload() any {
	var schema any
	if json.Unmarshal(b.profile.Payload, &schema) != nil {
		return true
	}
	if o, ok := schema.(object); ok && o["$id"] == nil {
		o["$id"] = "urn:holdfast:guest:payload"
	}
	return schema
}

// suspected describes both shapes of a suspicion: a replayed handoff and a score.
func (b builder) suspected() object {
	signal := record(object{"signal": text(""), "value": fraction(), "weight": object{"type": "number", "minimum": 0}})
	return object{"oneOf": []object{
		record(object{
			"signal": object{"const": bots.SignalReplay}, "sessionId": id(guest.SessionPrefix), "handoffId": id(guest.HandoffPrefix), "tenantId": uuid(), b.item(): b.itemID(),
			"by": text("The service that tried to consume it."),
		}),
		record(object{
			"signal": object{"const": "score"}, "sessionId": object{"anyOf": []object{id(guest.SessionPrefix), {"type": "null"}}}, "score": fraction(),
			"verdict": one(bots.Suspect, bots.Bot), "action": one(bots.NoAction, bots.Challenge, bots.HardBlock), "signals": list(signal), "route": text("Method and path, such as POST /session."),
		}),
	}}
}

// place returns the members that page views and funnel events share.
func (b builder) place(prefix string) object {
	return object{
		"id": id(prefix), "sessionId": id(guest.SessionPrefix), "tenantId": uuid(), b.item(): b.itemID(), "searchId": id(guest.SearchPrefix), "occurredAt": moment(),
	}
}

// pageView describes telemetry.PageView with its id and session.
func (b builder) pageView() object {
	members := b.place(guest.PageViewPrefix)
	members["page"], members["durationMs"] = one(telemetry.Pages...), count(1)
	return record(members, "tenantId", b.item(), "searchId", "durationMs")
}

// funnelEvent describes telemetry.FunnelEvent with its id and session.
func (b builder) funnelEvent() object {
	members := b.place(guest.FunnelPrefix)
	members["step"], members["handoffId"] = one(telemetry.Steps...), id(guest.HandoffPrefix)
	return record(members, "tenantId", b.item(), "searchId", "handoffId")
}

// searched describes a hotel search.
func searched() object {
	degrees := object{"type": "number", "minimum": -180, "maximum": 180}
	query := record(object{
		"country": text(""), "region": text(""), "checkIn": date(), "checkOut": date(), "adults": count(1), "children": count(0), "rooms": count(1), "minStars": count(1),
		"amenities": list(text("")), "maxNightlyMinor": object{"type": "string", "pattern": "^[0-9]+$"}, "bounds": record(object{"south": degrees, "west": degrees, "north": degrees, "east": degrees}),
		"sort": one(catalogue.Sorts...), "page": count(1), "pageSize": count(1), "locale": locale(), "currency": currency(), "device": one("mobile", "desktop"),
	}, "country", "region", "checkIn", "checkOut", "minStars", "amenities", "maxNightlyMinor", "bounds", "device")
	return searchedFor(query)
}

// searchedFor describes telemetry.Executed for a profile's query.
func searchedFor(query object) object {
	return record(object{
		"sessionId": id(guest.SessionPrefix), "searchId": id(guest.SearchPrefix), "kind": one("list", "map"), "query": query, "hasText": object{"type": "boolean"}, "total": count(0), "cache": cacheState(),
	}, "searchId")
}

// record returns an object's schema, in which members are required unless listed as optional. Unknown members stay
// allowed, so that new members do not break consumers.
func record(members object, optional ...string) object {
	required := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(name string) bool { return slices.Contains(optional, name) })
	return object{"type": "object", "properties": members, "required": required}
}

// id describes an identifier: the prefix and a ULID in Crockford's base 32, whose first digit is at most 7.
func id(prefix string) object {
	return object{"type": "string", "pattern": "^" + prefix + "[0-7][0-9A-HJKMNP-TV-Z]{25}$"}
}

// uuid describes a lower-case UUID.
func uuid() object {
	return object{"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
}

// text describes a string, with an explanation unless doc is "".
func text(doc string) object {
	o := object{"type": "string"}
	if doc != "" {
		o["description"] = doc
	}
	return o
}

// moment describes a time.
func moment() object {
	return object{"type": "string", "format": "date-time", "description": "RFC 3339, in UTC."}
}

// date describes a calendar day without a time zone.
func date() object { return object{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"} }

// locale describes a language tag.
func locale() object { return text("BCP 47, e.g. de-AT.") }

// currency describes an ISO 4217 code.
func currency() object { return object{"type": "string", "pattern": "^[A-Z]{3}$"} }

// count describes an integer with a minimum.
func count(least int) object { return object{"type": "integer", "minimum": least} }

// fraction describes a number from 0 to 1.
func fraction() object { return object{"type": "number", "minimum": 0, "maximum": 1} }

// list describes an array.
func list(of object) object { return object{"type": "array", "items": of} }

// campaign describes the free members that a front end sent with the session's start.
func campaign() object {
	return object{"type": "object", "additionalProperties": true, "description": "What brought the guest here."}
}

// cacheState lists the states in which a guest got an answer; errors publish nothing.
func cacheState() object {
	return one(slices.DeleteFunc(slices.Clone(catalogue.CacheStates), func(s catalogue.CacheState) bool { return strings.HasPrefix(string(s), "ERR") })...)
}

// one describes a string from a list.
func one[T ~string](values ...T) object { return object{"type": "string", "enum": values} }
