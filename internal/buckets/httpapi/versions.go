package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/canonjson"
	"holdfast/internal/web"
)

const (
	versionHeader = "Object-Version"
	markerHeader  = "Object-Delete-Marker"
)

var versioningStates = []string{buckets.VersioningOff: "off", buckets.VersioningEnabled: "enabled", buckets.VersioningSuspended: "suspended"}

var errMarker = web.Refuse(http.StatusNotFound, codeNoObject, "the version is a delete marker")

// updateBucket changes versioning.
func (x *exchange) updateBucket() error {
	body, err := x.readUpdate()
	if err != nil {
		return err
	}
	v, err := parseVersioning(body)
	if err != nil {
		return err
	}
	if err := x.ready(); err != nil {
		return err
	}
	if err := x.Service.SetVersioning(x.ctx(), x.owner, x.bucket.BucketRef, v); err != nil {
		return err
	}
	x.bucket.Versioning = v
	return x.answer(http.StatusOK, ofBucket(&x.bucket))
}

// parseVersioning parses {"versioning": STATE}.
func parseVersioning(body []byte) (buckets.Versioning, error) {
	v, err := canonjson.Parse(body, maxUpdate)
	if err != nil {
		return 0, invalid("the body is not valid: it " + err.Error())
	}
	var members map[string]json.RawMessage
	var state string
	if json.Unmarshal([]byte(v), &members) != nil || len(members) != 1 || json.Unmarshal(members["versioning"], &state) != nil {
		return 0, invalid(`the body must be {"versioning": "enabled"} or {"versioning": "suspended"}`)
	}
	at := slices.Index(versioningStates, state)
	if at <= 0 {
		return 0, invalid("versioning must be enabled or suspended")
	}
	return buckets.Versioning(at), nil
}

// version returns the version in the query; "" if missing.
func (x *exchange) version() (buckets.VersionID, error) {
	if !x.query.Has("version") {
		return "", nil
	}
	return buckets.ParseVersionID(x.query.Get("version"))
}

// read returns the object or the version in the query.
func (x *exchange) read() (o buckets.Object, err error) {
	id, err := x.version()
	if err != nil {
		return o, err
	}
	if id == "" {
		return x.Service.Object(x.ctx(), x.owner, x.bucket.ID, x.route.object)
	}
	v, err := x.Service.Version(x.ctx(), x.owner, x.bucket.ID, x.route.object, id)
	if err == nil && v.Marker {
		err = errMarker
	}
	return v.Object, err
}

// versionOf returns "" in buckets without versioning.
func (x *exchange) versionOf(o *buckets.Object) buckets.VersionID {
	if x.bucket.Versioning == buckets.VersioningOff {
		return ""
	}
	return o.VersionID()
}

// writeVersionID sets the header unless id is "".
func (x *exchange) writeVersionID(id buckets.VersionID) {
	if id != "" {
		x.out.Header().Set(versionHeader, string(id))
	}
}

// versionEntryJSON is a version or delete marker in a list.
type versionEntryJSON struct {
	Type     string            `json:"type"`
	Name     string            `json:"name"`
	Version  buckets.VersionID `json:"version"`
	Current  bool              `json:"current"`
	Modified string            `json:"modified"`
	*versionJSON
}

// ofVersionEntry converts a version.
func ofVersionEntry(v *buckets.Version) versionEntryJSON {
	e := versionEntryJSON{Type: "delete_marker", Name: v.Name, Version: v.VersionID(), Current: v.Current, Modified: formatMoment(v.Modified)}
	if !v.Marker {
		body := ofVersion(&v.Object)
		e.Type, e.versionJSON = "version", &body
	}
	return e
}

// listVersions writes slice by slice. The marker is VERSION/NAME.
func (x *exchange) listVersions() error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	q := buckets.VersionQuery{Prefix: x.query.Get("prefix"), Bytes: buckets.SliceBytes}
	if marker := x.query.Get("marker"); marker != "" {
		id, name, ok := strings.Cut(marker, "/")
		if q.AfterVersion, err = buckets.ParseVersionID(id); !ok || err != nil {
			return invalid("marker must be the next_marker of another page")
		}
		q.After = name
	}
	d, page := x.newPage(), buckets.VersionPage{}
	err = d.blocks.Slices(sliceMemory, func() (bool, error) {
		q.Limit = min(limit-d.count, buckets.FirstSlice)
		if err := d.blocks.Read(func() (err error) {
			page, err = x.Service.ListVersions(x.ctx(), x.owner, x.bucket.ID, q)
			return err
		}); err != nil {
			return false, err
		}
		for i := range page.Versions {
			if err := d.add(ofVersionEntry(&page.Versions[i])); err != nil {
				return false, err
			}
		}
		q.After, q.AfterVersion = page.After, page.AfterVersion
		page.Versions = nil
		return page.More && d.count < limit, nil
	})
	if err != nil {
		return err
	}
	return d.finishPage(page.More, string(q.AfterVersion)+"/"+q.After)
}
