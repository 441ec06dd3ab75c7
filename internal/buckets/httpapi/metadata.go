package httpapi

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/canonjson"
	"holdfast/internal/web"
)

// maxUpdate limits a JSON body in bytes.
const maxUpdate = 4*maxHeaders + buckets.MaxExtra

// getMetadata returns the metadata as JSON.
func (x *exchange) getMetadata() error {
	o, err := x.read()
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, x.ofObject(&o))
}

// readUpdate reads a small JSON body without a slot, because the client may be slow.
func (x *exchange) readUpdate() ([]byte, error) {
	web.ReleaseSlot(x.in)
	media, _, err := mime.ParseMediaType(x.in.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, web.Refuse(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "unsupported content type: send the header Content-Type: application/json")
	}
	return web.ReadBody(x.out, x.in, maxUpdate, &bodyErrors)
}

// updateMetadata replaces the members that the body contains.
func (x *exchange) updateMetadata() error {
	body, err := x.readUpdate()
	if err != nil {
		return err
	}
	u, err := parseUpdate(body)
	if err != nil {
		return err
	}
	if err := x.ready(); err != nil {
		return err
	}
	x.parsed.headers = u.Headers
	if err := x.checkPolicy(); err != nil {
		return err
	}
	u.Name, u.Condition = x.route.object, x.parsed.condition
	o, err := x.Service.UpdateObject(x.ctx(), x.owner, x.bucket.BucketRef, u)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, x.ofObject(&o))
}

// parseUpdate rejects unknown members, because the client expects an effect.
func parseUpdate(body []byte) (u buckets.Update, err error) {
	u.Touch = true
	v, err := canonjson.Parse(body, maxUpdate)
	if err != nil {
		return u, invalid("the body is not valid: it " + err.Error())
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(v), &members) != nil || members == nil {
		return u, invalid("the body must be a JSON object")
	}
	for name, raw := range members {
		switch name {
		case "content_type":
			u.ContentType, err = parseContentType(raw)
		case "headers":
			u.Headers, err = parseHeaders(raw)
		case "roles":
			u.Roles, err = parseRoleList(raw)
		case "properties":
			u.Extra, err = parseProperties(raw)
		default:
			err = invalid("unknown member in the body: expected content_type, headers, roles and properties")
		}
		if err != nil {
			return u, err
		}
	}
	return u, nil
}

// parseContentType parses a member of an update.
func parseContentType(raw []byte) (*string, error) {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil || *s == "" || len(*s) > maxHeaders {
		return nil, invalid("content_type must be a string of 1 to 4096 bytes")
	}
	if strings.ContainsFunc(*s, isControl) {
		return nil, invalid("content_type has control characters")
	}
	return s, nil
}

// parseHeaders parses a member of an update.
func parseHeaders(raw []byte) (map[string]string, error) {
	var given map[string]*string
	if json.Unmarshal(raw, &given) != nil || given == nil {
		return nil, invalid("headers must be an object of strings")
	}
	all := make(map[string]string, len(given))
	for name, value := range given {
		if value == nil {
			return nil, invalid("headers must be an object of strings")
		}
		all[name] = text(*value)
	}
	return all, checkHeaders(all)
}

// parseRoleList parses a member of an update. An empty list removes all roles.
func parseRoleList(raw []byte) (*[]string, error) {
	var list []string
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return nil, invalid("roles must be a list of UUIDs")
	}
	roles, err := parseRoles(list)
	return &roles, err
}

// parseProperties parses a member of an update. {} removes all.
func parseProperties(raw []byte) (*json.RawMessage, error) {
	extra, err := buckets.ParseExtra(raw)
	if extra == nil {
		extra = json.RawMessage("null")
	}
	return &extra, err
}
