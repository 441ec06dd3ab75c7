package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/guest"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

type wishView struct {
	ID         guest.ID  `json:"id"`
	TenantID   string    `json:"tenantId"`
	PropertyID string    `json:"propertyId"`
	Source     string    `json:"source"`
	Note       string    `json:"note,omitempty"`
	AddedAt    time.Time `json:"addedAt"`
}

// itemView is a wish in profiles other than hotel.
type itemView struct {
	ID       guest.ID  `json:"id"`
	TenantID string    `json:"tenantId"`
	ItemID   string    `json:"itemId"`
	Quantity int       `json:"quantity,omitempty"`
	Source   string    `json:"source"`
	Note     string    `json:"note,omitempty"`
	AddedAt  time.Time `json:"addedAt"`
	Etag     string    `json:"etag"` // as in If-Match
}

// viewOf returns an entry's view. tenant is its tenant as the answer spells it; see spelled.
func (x *exchange) viewOf(w guest.Wish, tenant string) any {
	if x.Guests.Profile().IsHotel() {
		return wishView{w.ID, tenant, w.Item, w.Source, w.Note, w.Added}
	}
	return itemView{w.ID, tenant, w.Item, w.Quantity, w.Source, w.Note, w.Added, quoted(w.Tag())}
}

// quoted returns an entity tag as in the header ETag.
func quoted(tag string) string { return `"` + tag + `"` }

// tagged reports whether the answer carries an entity tag. The hotel search's answers were fixed before lists got tags:
// only requests with a condition get them there.
func (x *exchange) tagged() bool {
	h := x.in.Header
	return !x.Guests.Profile().IsHotel() || len(h.Values("If-Match"))+len(h.Values("If-None-Match")) > 0
}

// spelled returns a tenant as the request spells it: some platforms write tnt_ and a ULID.
func spelled(tenant, asked string) string {
	if same, ok := guest.ParseTenant(asked); ok && same == tenant && strings.HasPrefix(asked, "tnt_") {
		return asked
	}
	return tenant
}

// newWish reads an item to add. most limits its quantity; 0 if the request does not limit it.
func (x *exchange) newWish() (w guest.Wish, most int, err error) {
	if x.Guests.Profile().IsHotel() {
		var in struct {
			TenantID   string `json:"tenantId"`
			PropertyID string `json:"propertyId"`
			Source     string `json:"source"`
			Note       string `json:"note"`
		}
		err := decode(x.body, &in)
		return guest.Wish{Tenant: in.TenantID, Item: in.PropertyID, Source: in.Source, Note: in.Note}, 0, err
	}
	in := struct {
		TenantID string `json:"tenantId"`
		ItemID   string `json:"itemId"`
		Quantity int    `json:"quantity"`
		Source   string `json:"source"`
		Note     string `json:"note"`
		Max      *int   `json:"max"`
	}{Source: defaultSource}
	quantities := x.Guests.Profile().MaxQuantity > 0
	if quantities {
		in.Quantity = 1
	}
	if err = decode(x.body, &in); err == nil && in.Max != nil {
		if most = *in.Max; most == 0 || !quantities {
			err = refuseMember("max", "expected at least 1, in a profile with quantities")
		}
	}
	return guest.Wish{Tenant: in.TenantID, Item: in.ItemID, Quantity: in.Quantity, Source: in.Source, Note: in.Note}, most, err
}

const defaultSource = "detail"

// addWish adds an item to the wishlist, or increases its quantity.
func (x *exchange) addWish() error {
	w, most, err := x.newWish()
	if err != nil {
		return err
	}
	o, err := x.Guests.AddWish(x.ctx(), x.mutation, w, most)
	return reply(x, o, err, func(r guest.AddedWish) (answer, error) {
		if err := r.Err(); err != nil { // repeats get the same problem, so it names only the path
			return problemAnswer(asRefusal(err), problem.Occurrence{Path: x.at.Path}, x.NestErrors), nil
		}
		added := r.Outcome == guest.WishAdded
		status := http.StatusOK
		if added {
			status = http.StatusCreated
		}
		a, err := jsonAnswer(status, x.viewOf(r.Wish, spelled(r.Wish.Tenant, w.Tenant)))
		x.tag(&a, r.Wish)
		if added {
			a.Location = prefix + "wishlist/" + url.PathEscape(r.Wish.Item)
		}
		return a, err
	})
}

// changeWish changes an item's note or quantity.
func (x *exchange) changeWish() error {
	c, err := x.wishChange()
	if err != nil {
		return err
	}
	o, err := x.Guests.ChangeWish(x.ctx(), x.mutation, c)
	return reply(x, o, err, func(r guest.ChangedWish) (answer, error) {
		a, err := jsonAnswer(http.StatusOK, x.viewOf(r.Wish, r.Wish.Tenant))
		x.tag(&a, r.Wish)
		return a, err
	})
}

// tag sets an answer's entity tag to its entry's tag.
func (x *exchange) tag(a *answer, w guest.Wish) {
	if x.tagged() {
		a.Etag = quoted(w.Tag())
	}
}

// getWish answers with an entry.
func (x *exchange) getWish() error {
	if x.session == "" {
		return guest.ErrNoWish
	}
	w, err := x.Guests.Wish(x.ctx(), x.session, x.route.item)
	if err != nil {
		return err
	}
	known, err := web.ParseEntityTags(x.in.Header, "If-None-Match")
	if err != nil || x.notModified(known, w.Tag()) {
		return err
	}
	return x.sendJSON(http.StatusOK, x.viewOf(w, w.Tenant))
}

// notModified sets the answer's entity tag. If the client already knows it, by its If-None-Match header, notModified answers
// with 304 and returns true.
func (x *exchange) notModified(known *web.EntityTags, tag string) bool {
	x.out.Header().Set("Etag", quoted(tag))
	if known == nil || !known.MatchesWeak(tag) {
		return false
	}
	x.out.WriteHeader(http.StatusNotModified)
	return true
}

// guard reads a change's conditions.
func guard(h http.Header) (g guest.Guard, err error) {
	match, err := web.ParseEntityTags(h, "If-Match")
	if err != nil {
		return g, err
	}
	none, err := web.ParseEntityTags(h, "If-None-Match")
	if err != nil {
		return g, err
	}
	if match != nil { // weak tags match nothing (RFC 9110, section 13.1.1)
		g.Match = &guest.Tags{Any: match.Any, Tags: match.Strong}
	}
	if none != nil {
		g.NoneMatch = &guest.Tags{Any: none.Any, Tags: slices.Concat(none.Strong, none.Weak)}
	}
	return g, nil
}

// wishChange reads a change; missing members stay.
func (x *exchange) wishChange() (c guest.ChangeWish, err error) {
	c.Item = x.route.item
	var note struct {
		Note *string `json:"note"`
	}
	if p := x.Guests.Profile(); p.IsHotel() || p.MaxQuantity == 0 {
		if err := decode(x.body, &note); err != nil {
			return c, err
		}
		if note.Note == nil {
			return c, refuseMember("note", "expected a text; an empty one removes the note")
		}
		c.Note = note.Note
		return c, nil
	}
	var in struct {
		Note     *string `json:"note"`
		Quantity *int    `json:"quantity"`
	}
	if err := decode(x.body, &in); err != nil {
		return c, err
	}
	if in.Note == nil && in.Quantity == nil {
		return c, guest.BadMember("expected a note, a quantity or both", "note", "quantity")
	}
	c.Note = in.Note
	if in.Quantity != nil {
		if c.Quantity = *in.Quantity; c.Quantity == 0 {
			return c, refuseMember("quantity", "expected at least 1: remove the entry instead")
		}
	}
	return c, nil
}

// removeWish removes an item. A missing item is no error.
func (x *exchange) removeWish() error {
	o, err := x.Guests.RemoveWish(x.ctx(), x.mutation, x.route.item)
	return reply(x, o, err, noContent)
}

const (
	defaultLimit = 100
	maxLimit     = 100
)

// listWishes lists the wishlist, newest first.
func (x *exchange) listWishes() error {
	limit, after, err := parsePage(x.in.URL.RawQuery, guest.WishPrefix)
	if err != nil {
		return err
	}
	var last *guest.Wish
	if after != nil {
		last = &guest.Wish{ID: after.ID, Added: after.At}
	}
	var all []guest.Wish
	if x.session != "" {
		if all, err = x.Guests.AllWishes(x.ctx(), x.session); err != nil {
			return err
		}
	}
	if x.tagged() {
		known, err := web.ParseEntityTags(x.in.Header, "If-None-Match")
		if err != nil || x.notModified(known, guest.ListTag(all)) {
			return err
		}
	}
	all = guest.PageOf(all, last, limit+1)
	page := struct {
		Items      []any   `json:"items"`
		NextCursor *string `json:"nextCursor"`
	}{Items: []any{}}
	if len(all) > limit {
		all = all[:limit]
		next := cursorOf(position{all[limit-1].Added, all[limit-1].ID})
		page.NextCursor = &next
	}
	for _, w := range all {
		page.Items = append(page.Items, x.viewOf(w, w.Tenant))
	}
	return x.sendJSON(http.StatusOK, page)
}

var errQuery = web.Refuse(http.StatusBadRequest, "invalid", "query: expected limit (1 to 100) and cursor (nextCursor of the page before), each at most once")

// parsePage reads the parameters limit and cursor. prefix is that of the IDs in the list; after is nil on the first
// page.
func parsePage(raw, prefix string) (limit int, after *position, err error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return 0, nil, errQuery
	}
	limit = defaultLimit
	for name, values := range query {
		switch {
		case len(values) != 1:
			return 0, nil, errQuery
		case name == "limit":
			if limit, err = strconv.Atoi(values[0]); err != nil || limit < 1 || limit > maxLimit {
				return 0, nil, errQuery
			}
		case name == "cursor":
			if after, err = parseCursor(values[0], prefix); err != nil {
				return 0, nil, err
			}
		default:
			return 0, nil, errQuery
		}
	}
	return limit, after, nil
}

// position is the last entry on a page, in a cursor.
type position struct {
	At time.Time
	ID guest.ID
}

// cursorOf encodes a position. Cursors are not signed: a made-up one only shows another part of the client's own list.
func cursorOf(p position) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.At.UnixMicro(), 10) + "." + string(p.ID)))
}

// parseCursor refuses malformed cursors and IDs with another prefix.
func parseCursor(text, prefix string) (*position, error) {
	cursor, err := base64.RawURLEncoding.Strict().DecodeString(text)
	micros, id, _ := strings.Cut(string(cursor), ".")
	at, err2 := strconv.ParseInt(micros, 10, 64)
	last, ok := guest.ParseID(prefix, id)
	if err != nil || err2 != nil || !ok || at < 0 || at > 1<<52 {
		return nil, errQuery
	}
	return &position{time.UnixMicro(at).UTC(), last}, nil
}

// refuseMember answers 422 for a wrong member.
func refuseMember(name, detail string) error {
	cause := guest.FieldErrors{{Pointer: "/" + strings.ReplaceAll(name, ".", "/"), Code: "invalid", Detail: detail}}
	return web.RefuseFor(cause, http.StatusUnprocessableEntity, "invalid", name+": "+detail)
}

// decode decodes a body, and rejects unknown members.
func decode(body canonjson.Value, into any) error {
	if len(body) == 0 || body[0] != '{' { // null would change nothing
		return web.Refuse(http.StatusUnprocessableEntity, "invalid", "expected an object")
	}
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		field := sent(reflect.TypeOf(into), mismatch.Field)
		return refuseMember(field, "unexpected "+kind)
	}
	if err != nil {
		field, known := unknownMember([]byte(body), reflect.TypeOf(into))
		detail := "unknown member: expected " + strings.Join(known, ", ")
		pointer := ""
		if field != "" {
			pointer = "/" + strings.ReplaceAll(field, ".", "/")
		}
		cause := guest.FieldErrors{{Pointer: pointer, Code: "invalid", Detail: detail}}
		return web.RefuseFor(cause, http.StatusUnprocessableEntity, "invalid", strings.TrimPrefix(field+": ", ": ")+detail)
	}
	return nil
}

// sent returns the member path that clients send for a field path: package json also names embedded structs.
func sent(t reflect.Type, field string) string {
	var names []string
	for name := range strings.SplitSeq(field, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return strings.Join(append(names, name), ".")
		}
		if f, ok := t.FieldByName(name); ok && f.Anonymous && f.Tag.Get("json") == "" {
			t = f.Type
			continue
		}
		names = append(names, name)
		for _, f := range reflect.VisibleFields(t) {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
				t = f.Type
				break
			}
		}
	}
	return strings.Join(names, ".")
}

// unknownMember returns the path of the first object with an unknown member, and the known members. It does not
// return the unknown name, which comes from the client.
func unknownMember(text []byte, t reflect.Type) (field string, known []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var members map[string]json.RawMessage
	if t.Kind() != reflect.Struct || json.Unmarshal(text, &members) != nil {
		return "", nil
	}
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			known, types[strings.ToLower(name)] = append(known, name), f.Type // case-insensitive, like the decoder
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		kind, ok := types[strings.ToLower(name)]
		if !ok {
			return "", known
		}
		if below, names := unknownMember(members[name], kind); names != nil {
			return strings.TrimSuffix(name+"."+below, "."), names
		}
	}
	return "", nil
}
