package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// object is a JSON object.
type object = map[string]any

// Describe returns the API description for a profile: without paths and members that it does not use.
func Describe(p *guest.Profile) ([]byte, error) {
	if p.IsHotel() {
		return openAPI, nil
	}
	var root struct {
		OpenAPI    string            `json:"openapi"`
		Info       object            `json:"info"`
		Servers    any               `json:"servers"`
		Tags       any               `json:"tags"`
		Paths      object            `json:"paths"`
		Components map[string]object `json:"components"`
	}
	if err := json.Unmarshal(bytes.ReplaceAll(openAPI, []byte("propertyId"), []byte("itemId")), &root); err != nil {
		return nil, errcode.Wrap(errcode.Internal, "read the API description", err)
	}
	schemas := root.Components["schemas"]
	dropExamples(root.Paths)
	d := describer{p, schemas}
	d.catalogue(root.Paths)
	for _, name := range []string{"MapQuery", "Bounds", "Listing", "Pins", "Pin", "RoomType", "Hotel", "Offer", "Availability", "Facets", "Facet", "Brand", "Minor"} {
		delete(schemas, name)
	}
	d.items()
	d.wishes()
	d.handoffs(root.Paths)
	if p.AttributesSchema != nil {
		schemas["Attributes"] = embedded("attributes", p.AttributesSchema)
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, errcode.Wrap(errcode.Internal, "write the API description", err)
	}
	return append(text, '\n'), nil
}

// dropExamples removes examples, which show a hotel.
func dropExamples(of any) {
	switch v := of.(type) {
	case object:
		delete(v, "example")
		delete(v, "examples")
		for _, below := range v {
			dropExamples(below)
		}
	case []any:
		for _, below := range v {
			dropExamples(below)
		}
	}
}

// describer adapts the hotel's description to another profile.
type describer struct {
	profile *guest.Profile
	schemas object
}

// members returns a schema's properties.
func (d *describer) members(name string) object {
	return d.schemas[name].(object)["properties"].(object)
}

// require sets a schema's required members.
func (d *describer) require(name string, members ...string) {
	d.schemas[name].(object)["required"] = members
}

// items replaces the property's ID by the item's.
func (d *describer) items() {
	form := object{"type": "string", "description": "A UUID.", "pattern": uuidPattern}
	if d.profile.Texts {
		form = object{"type": "string", "description": "Item ID, e.g. sku-4711: up to 256 bytes of printable UTF-8, compared byte by byte.", "minLength": 1, "maxLength": guest.MaxItem}
	}
	d.schemas["PropertyID"] = form
	for _, name := range slices.Sorted(maps.Keys(d.schemas)) {
		members, ok := d.schemas[name].(object)["properties"].(object)
		if !ok || members["itemId"] == nil {
			continue
		}
		members["itemId"] = object{"$ref": "#/components/schemas/PropertyID"}
		if name == "PageView" || name == "FunnelEvent" {
			members["itemId"] = object{"anyOf": []any{form, object{"enum": []any{nil, ""}}}}
		}
	}
}

const uuidPattern = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"

// wishes adapts the wishlist.
func (d *describer) wishes() {
	for _, name := range []string{"WishRequest", "ViewedRequest"} {
		if d.profile.Tenant == "" {
			d.require(name, "tenantId", "itemId")
			continue
		}
		d.require(name, "itemId")
		d.members(name)["tenantId"] = object{"anyOf": []any{object{"$ref": "#/components/schemas/TenantID"}, object{"enum": []any{nil, ""}}}}
	}
	d.members("WishRequest")["source"] = object{"anyOf": []any{object{"$ref": "#/components/schemas/Source"}, object{"type": "null"}}, "description": "If absent, " + defaultSource + "."}
	d.members("Wish")["etag"] = object{"type": "string", "description": "The entity tag of the entry, as in If-Match."}
	d.require("Wish", "id", "tenantId", "itemId", "source", "addedAt", "etag")
	if d.profile.MaxQuantity == 0 {
		return
	}
	quantity := object{"type": "integer", "minimum": 1, "maximum": d.profile.MaxQuantity}
	d.members("WishRequest")["quantity"] = object{"type": []string{"integer", "null"}, "minimum": 1, "maximum": d.profile.MaxQuantity, "default": 1, "description": "Added to the quantity of the entry, if there is one."}
	d.members("WishRequest")["max"] = object{"type": []string{"integer", "null"}, "minimum": 1, "maximum": d.profile.MaxQuantity, "description": "The greatest quantity of the entry afterwards."}
	d.members("Wish")["quantity"] = quantity
	d.require("Wish", "id", "tenantId", "itemId", "quantity", "source", "addedAt", "etag")
	note := d.members("NoteRequest")
	note["quantity"] = object{"type": []string{"integer", "null"}, "minimum": 1, "maximum": d.profile.MaxQuantity}
	note["note"] = object{"type": []string{"string", "null"}, "maxLength": guest.MaxNote, "description": "An empty note removes it."}
	d.schemas["NoteRequest"] = object{"type": "object", "additionalProperties": false, "properties": note, "minProperties": 1}
}

// handoffs replaces the stay by the profile's payload, and describes names.
func (d *describer) handoffs(paths object) {
	responses := paths[prefix+"handoff/{tenantId}/{itemId}"].(object)["post"].(object)["responses"].(object)
	kept := maps.Clone(responses["201"].(object))
	kept["description"] = "With ifOpen keep: the open handoff of this name."
	responses["200"] = kept
	d.schemas["Payload"] = embedded("payload", d.profile.Payload)
	for _, name := range []string{"MintRequest", "Handoff", "Received"} {
		members := d.members(name)
		for _, of := range []string{"checkIn", "checkOut", "adults", "children", "rooms"} {
			delete(members, of)
		}
		members["payload"] = object{"$ref": "#/components/schemas/Payload"}
		if name == "MintRequest" {
			members["ifOpen"] = object{"type": []string{"string", "null"}, "enum": []any{"replace", "keep", "", nil}, "default": "replace",
				"description": "If the handoff of this name is open: replace voids it; keep returns it with 200 if it has the same content and browser and more than half of its life left."}
		}
		required := []string{"payload"}
		if name != "MintRequest" {
			was, _ := d.schemas[name].(object)["required"].([]any)
			for _, member := range was {
				if members[member.(string)] != nil {
					required = append(required, member.(string))
				}
			}
		}
		d.require(name, required...)
	}
}

// catalogue replaces the hotel's paths by the profile's search and upstreams.
func (d *describer) catalogue(paths object) {
	base := strings.TrimSuffix(prefix, "/")
	answer, _ := paths[base+"/hotels/{itemId}"].(object)["get"].(object)
	for _, template := range hotelTemplates {
		if criteriaActions[template] == nil || d.profile.Criteria == nil {
			delete(paths, base+strings.ReplaceAll(template, "propertyId", "itemId"))
		}
	}
	if d.profile.Criteria == nil {
		for _, name := range []string{"SearchQuery", "SearchResults", "HistoryList", "Searched", "Query"} {
			delete(d.schemas, name)
		}
	} else {
		d.schemas["Criteria"] = embedded("criteria", d.profile.Criteria)
		d.members("SearchResults")["items"] = object{"type": "array", "items": object{"type": "object"}}
		d.schemas["SearchQuery"] = object{"type": "object", "additionalProperties": false, "required": []string{"criteria"}, "properties": object{
			"criteria": object{"$ref": "#/components/schemas/Criteria"},
			"page":     object{"type": []string{"integer", "null"}, "minimum": 0, "maximum": 1000, "description": "Default 1, also for 0."},
			"pageSize": object{"type": []string{"integer", "null"}, "minimum": 0, "maximum": 100, "description": "Default 20, also for 0."},
			"locale":   object{"type": []string{"string", "null"}, "description": "Default: the session's, then from Accept-Language."},
			"currency": object{"type": []string{"string", "null"}, "description": "Default: the session's, then from X-Currency."},
		}}
	}
	for _, u := range d.profile.Upstreams {
		if u.Name != guest.SearchUpstream {
			d.upstream(u, paths, answer)
		}
	}
}

// upstream adds an upstream's path.
func (d *describer) upstream(u guest.Upstream, paths, like object) {
	path, parameters := []string{prefix + "catalogue", u.Name}, []any{}
	parameter := func(name, in string) {
		schema := object{"type": "string", "maxLength": maxValue}
		if name == "itemId" && in == "path" {
			schema = object{"$ref": "#/components/schemas/PropertyID"}
		}
		parameters = append(parameters, object{"name": name, "in": in, "required": in == "path", "schema": schema})
	}
	for _, name := range u.Path {
		path = append(path, "{"+name+"}")
		parameter(name, "path")
	}
	for _, name := range u.Parameters {
		parameter(name, "query")
	}
	for _, header := range []string{"AcceptLanguage", "XCurrency", "IfNoneMatch"} {
		parameters = append(parameters, object{"$ref": "#/components/parameters/" + header})
	}
	get, responses := maps.Clone(like), maps.Clone(like["responses"].(object))
	response := maps.Clone(responses["200"].(object))
	response["description"] = "The catalogue's response."
	response["content"] = object{"application/json": object{"schema": object{"type": "object"}}}
	responses["200"] = response
	get["operationId"], get["summary"] = "get-"+u.Name, "Read "+u.Name
	get["parameters"], get["responses"] = parameters, responses
	paths[strings.Join(path, "/")] = object{"get": get}
}

// embedded returns an operator's schema with an $id: relative references must not resolve against the document.
func embedded(name string, text json.RawMessage) any {
	var schema any
	if json.Unmarshal(text, &schema) != nil {
		return object{}
	}
	if o, ok := schema.(object); ok && o["$id"] == nil {
		o["$id"] = "urn:holdfast:guest:" + name
	}
	return schema
}
