package s3api

import (
	"cmp"
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

// lifecycleConfiguration mirrors S3's XML; rule converts it.
type lifecycleConfiguration struct {
	XMLName xml.Name       `xml:"LifecycleConfiguration"`
	Rules   lifecycleRules `xml:"Rule"`
}

type lifecycleRule struct {
	ID         string           `xml:"ID" s3:"empty"`
	Status     string           `xml:"Status" s3:"required"`
	Prefix     *string          `xml:"Prefix" s3:"empty"`
	Filter     *lifecycleFilter `xml:"Filter"`
	Expiration *struct {
		Days   *int64     `xml:"Days"`
		Date   *string    `xml:"Date"`
		Marker *bool      `xml:"ExpiredObjectDeleteMarker"`
		All    notApplied `xml:"ExpiredObjectAllVersions"` // MinIO's
	} `xml:"Expiration"`
	Noncurrent *struct {
		Days *int64 `xml:"NoncurrentDays" s3:"required"`
		Keep *int   `xml:"NewerNoncurrentVersions"`
	} `xml:"NoncurrentVersionExpiration"`
	Abort *struct {
		Days *int64 `xml:"DaysAfterInitiation" s3:"required"`
	} `xml:"AbortIncompleteMultipartUpload"`
	Transition           notApplied `xml:"Transition"`
	NoncurrentTransition notApplied `xml:"NoncurrentVersionTransition"`
	Markers              notApplied `xml:"DelMarkerExpiration"` // MinIO's
}

type lifecycleFilter struct {
	lifecycleConditions
	And *lifecycleConditions `xml:"And"`
}

type lifecycleConditions struct {
	Prefix      *string      `xml:"Prefix" s3:"empty"`
	Tags        []tagElement `xml:"Tag"`
	GreaterThan *int64       `xml:"ObjectSizeGreaterThan"`
	LessThan    *int64       `xml:"ObjectSizeLessThan"`
}

type lifecycleRules []lifecycleRule

// UnmarshalXML limits how many rules are decoded.
func (l *lifecycleRules) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	return appendXML((*[]lifecycleRule)(l), buckets.MaxLifecycleRules, d, start)
}

// minimumSize is S3's header for transitions. It is stored and returned, but nothing transitions.
const minimumSize = "X-Amz-Transition-Default-Minimum-Object-Size"

// getLifecycle serves GetBucketLifecycleConfiguration.
func (x *request) getLifecycle() error {
	l := &x.bucket.Settings.Lifecycle
	if len(l.Rules) == 0 {
		return refuse(http.StatusNotFound, "NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")
	}
	d := newDocument("LifecycleConfiguration")
	for i := range l.Rules {
		writeRule(d, &l.Rules[i])
	}
	x.out.Header().Set(minimumSize, cmp.Or(l.MinimumSize, buckets.MinimumSizeAll))
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// writeRule writes a rule in the form in which the client sent it.
func writeRule(d *document, r *buckets.LifecycleRule) {
	d.begin("Rule")
	d.text("ID", r.ID)
	if r.Prefix != nil {
		d.text("Prefix", *r.Prefix)
	}
	if f := r.Filter; f != nil {
		d.begin("Filter")
		if f.And {
			d.begin("And")
		}
		writeConditions(d, f)
		if f.And {
			d.end()
		}
		d.end()
	}
	status := "Enabled"
	if r.Disabled {
		status = "Disabled"
	}
	d.text("Status", status)
	if e := r.Expiration; e != nil {
		d.begin("Expiration")
		if e.Days > 0 {
			d.number("Days", int64(e.Days))
		}
		if e.Date != 0 {
			d.moment("Date", e.Date)
		}
		if e.DeleteMarker != nil {
			d.flag("ExpiredObjectDeleteMarker", *e.DeleteMarker)
		}
		d.end()
	}
	if n := r.Noncurrent; n != nil {
		d.begin("NoncurrentVersionExpiration")
		d.number("NoncurrentDays", int64(n.Days))
		if n.Keep != nil {
			d.number("NewerNoncurrentVersions", int64(*n.Keep))
		}
		d.end()
	}
	if r.AbortDays > 0 {
		d.begin("AbortIncompleteMultipartUpload")
		d.number("DaysAfterInitiation", int64(r.AbortDays))
		d.end()
	}
	d.end()
}

// writeConditions writes a filter's elements.
func writeConditions(d *document, f *buckets.LifecycleFilter) {
	if f.Prefix != nil {
		d.text("Prefix", *f.Prefix)
	}
	for _, t := range f.Tags {
		d.begin("Tag")
		d.text("Key", t.Key)
		d.text("Value", t.Value)
		d.end()
	}
	if f.GreaterThan != nil {
		d.number("ObjectSizeGreaterThan", *f.GreaterThan)
	}
	if f.LessThan != nil {
		d.number("ObjectSizeLessThan", *f.LessThan)
	}
}

// putLifecycle serves PutBucketLifecycleConfiguration, which replaces all rules.
func (x *request) putLifecycle() error {
	l := buckets.Lifecycle{MinimumSize: x.in.Header.Get(minimumSize)}
	if l.CheckMinimumSize() != nil {
		return invalidArgument(strings.ToLower(minimumSize), "The default minimum object size is not valid")
	}
	var c lifecycleConfiguration
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: buckets.MaxLifecycleBytes}); err != nil {
		return err
	}
	for i := range c.Rules {
		rule, err := c.Rules[i].rule()
		if err != nil {
			return err
		}
		l.Rules = append(l.Rules, rule)
	}
	if invalid := l.Check(); invalid != nil {
		return refusedRule(invalid)
	}
	if err := x.setLifecycle(l); err != nil {
		return err
	}
	x.out.Header().Set(minimumSize, cmp.Or(l.MinimumSize, buckets.MinimumSizeAll))
	return x.send(http.StatusOK)
}

// deleteLifecycle serves DeleteBucketLifecycle.
func (x *request) deleteLifecycle() error {
	if err := x.ready(); err != nil {
		return err
	}
	if err := x.setLifecycle(buckets.Lifecycle{}); err != nil {
		return err
	}
	return x.send(http.StatusNoContent)
}

// setLifecycle stores the rules and drops them from the cache.
func (x *request) setLifecycle(l buckets.Lifecycle) error {
	defer x.lifecycles.forget(x.owner, x.bucket.Name) // even if it is unknown whether the change succeeded
	return x.Service.SetLifecycle(x.in.Context(), x.owner, x.bucket.BucketRef, l)
}

// refusedRule returns the S3 error for an invalid rule.
func refusedRule(invalid *buckets.LifecycleError) error {
	switch invalid.Problem {
	case buckets.RuleMalformed:
		return errMalformedXML
	case buckets.RuleInvalidArgument:
		return invalidArgument(invalid.Member, invalid.Error())
	}
	return invalidRequest(invalid.Error() + ".")
}

// rule converts a rule and generates a missing ID, like S3.
func (r *lifecycleRule) rule() (rule buckets.LifecycleRule, err error) {
	rule = buckets.LifecycleRule{ID: cmp.Or(r.ID, buckets.NewUUID()), Disabled: r.Status == "Disabled", Prefix: r.Prefix}
	if r.Status != "Enabled" && r.Status != "Disabled" {
		return rule, errMalformedXML
	}
	if rule.Filter, err = r.Filter.filter(); err != nil {
		return rule, err
	}
	if rule.Expiration, err = r.expiration(); err != nil {
		return rule, err
	}
	if n := r.Noncurrent; n != nil {
		days, err := daysOf("NoncurrentDays", n.Days)
		if err != nil {
			return rule, err
		}
		rule.Noncurrent = &buckets.NoncurrentVersion{Days: days, Keep: n.Keep}
	}
	if a := r.Abort; a != nil {
		rule.AbortDays, err = daysOf("DaysAfterInitiation", a.Days)
	}
	return rule, err
}

// daysOf checks a number of days; nil is 0.
func daysOf(member string, days *int64) (int, error) {
	if days == nil {
		return 0, nil
	}
	if *days < 1 || *days > 1<<31-1 {
		return 0, invalidArgument(member, "'"+member+"' must be a positive integer")
	}
	return int(*days), nil
}

// expiration converts the element; nil if it is absent.
func (r *lifecycleRule) expiration() (*buckets.Expiration, error) {
	e := r.Expiration
	if e == nil {
		return nil, nil //nolint:nilnil // no expiration
	}
	days, err := daysOf("Days", e.Days)
	if err != nil {
		return nil, err
	}
	out := &buckets.Expiration{Days: days, DeleteMarker: e.Marker}
	if e.Date != nil {
		at, err := lifecycleDate(*e.Date)
		if err != nil {
			return nil, err
		}
		out.Date = at
	}
	return out, nil
}

// lifecycleDate parses an ISO 8601 date. The first moment of 1970 is 0, which precedes every object.
func lifecycleDate(text string) (buckets.Moment, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			if m := buckets.At(t); m != 0 && t.Nanosecond()%1000 == 0 {
				return m, nil
			}
			return 0, invalidArgument("Date", "'Date' must be at midnight GMT, and later than 1970")
		}
	}
	return 0, errMalformedXML
}

// filter converts the element. Conditions stand either in And or beside it, not both.
func (f *lifecycleFilter) filter() (*buckets.LifecycleFilter, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // the older form
	}
	c := &f.lifecycleConditions
	if f.And != nil {
		if c.Prefix != nil || len(c.Tags) > 0 || c.GreaterThan != nil || c.LessThan != nil {
			return nil, errMalformedXML
		}
		c = f.And
	}
	return &buckets.LifecycleFilter{Prefix: c.Prefix, Tags: tagList(c.Tags), GreaterThan: c.GreaterThan, LessThan: c.LessThan, And: f.And != nil}, nil
}

// writeExpiration tells a signed client when a rule will delete the object.
func (x *request) writeExpiration(o *buckets.Object) {
	if x.signed == nil {
		return
	}
	l := &x.bucket.Settings.Lifecycle
	if x.bucket.ID == "" { // the object was written by bucket name, without reading the bucket
		l = x.lifecycles.get(x)
	}
	if e, ok := l.Expiry(o); ok {
		id := strings.ReplaceAll(url.QueryEscape(e.Rule.ID), "+", "%20")
		x.out.Header().Set("X-Amz-Expiration", `expiry-date="`+httpTime(e.At)+`", rule-id="`+id+`"`)
	}
}
