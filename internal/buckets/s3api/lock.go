package s3api

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
)

const (
	// Header names for object lock.
	lockHeader      = "X-Amz-Object-Lock-"
	lockModeHeader  = lockHeader + "Mode"
	lockUntilHeader = lockHeader + "Retain-Until-Date"
	lockHoldHeader  = lockHeader + "Legal-Hold"
	bypassHeader    = "X-Amz-Bypass-Governance-Retention"
)

var (
	errNoLock        = invalidRequest("Bucket is missing Object Lock Configuration")
	errLockState     = refuse(http.StatusConflict, "InvalidBucketState", "Object Lock needs versioning to be Enabled on the bucket; then versioning cannot be suspended.")
	errNoBucketLock  = refuse(http.StatusNotFound, "ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket")
	errNoRetention   = refuse(http.StatusNotFound, "NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
	errPeriod        = refuse(http.StatusBadRequest, "InvalidRetentionPeriod", "Default retention period must be a positive integer value: 1 to 36500 days, or 1 to 100 years")
	errLockDigest    = invalidRequest("Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters")
	errLockOfPart    = invalidRequest("A part has no Object Lock of its own: send the headers with CreateMultipartUpload")
	errUntilPast     = invalidArgument("RetainUntilDate", "The retain until date must be in the future!")
	errUntilFormat   = invalidArgument("RetainUntilDate", "The retain until date must be provided in ISO 8601 format")
	errRetentionHalf = invalidArgument("x-amz-object-lock-retain-until-date", "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied")
	errLockMode      = invalidArgument("x-amz-object-lock-mode", "Unknown wormMode directive.")
	errHoldStatus    = invalidArgument("x-amz-object-lock-legal-hold", "Legal Hold must be either of 'ON' or 'OFF'")
)

// lockConfiguration is the XML of PutObjectLockConfiguration.
type lockConfiguration struct {
	XMLName xml.Name `xml:"ObjectLockConfiguration"`

	Enabled string `xml:"ObjectLockEnabled"`
	Rule    *struct {
		Default *struct {
			Mode  string `xml:"Mode"`
			Days  *int   `xml:"Days"`
			Years *int   `xml:"Years"`
		} `xml:"DefaultRetention"`
	} `xml:"Rule"`
}

// lock converts the document. S3 can enable object lock, but never disable it.
func (c *lockConfiguration) lock() (l buckets.BucketLock, err error) {
	l.Enabled = true
	switch {
	case c.Enabled != "Enabled":
		return l, errMalformedXML
	case c.Rule == nil:
		return l, nil
	case c.Rule.Default == nil || (c.Rule.Default.Days == nil) == (c.Rule.Default.Years == nil) || !isMode(c.Rule.Default.Mode):
		return l, errMalformedXML
	}
	l.Mode = buckets.LockMode(c.Rule.Default.Mode)
	if days := c.Rule.Default.Days; days != nil {
		l.Days = *days
	} else {
		l.Years = *c.Rule.Default.Years
	}
	if l.Days+l.Years <= 0 {
		return l, errPeriod
	}
	return l, l.Check()
}

// isMode reports whether s is a retention mode.
func isMode(s string) bool {
	return s == string(buckets.Governance) || s == string(buckets.Compliance)
}

// getBucketLock serves GetObjectLockConfiguration.
func (x *request) getBucketLock() error {
	l := x.bucket.Lock
	if !l.Enabled {
		return errNoBucketLock
	}
	d := newDocument("ObjectLockConfiguration")
	d.text("ObjectLockEnabled", "Enabled")
	if l.Mode != "" {
		d.begin("Rule")
		d.begin("DefaultRetention")
		d.text("Mode", string(l.Mode))
		if l.Days > 0 {
			d.number("Days", int64(l.Days))
		} else {
			d.number("Years", int64(l.Years))
		}
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// putBucketLock serves PutObjectLockConfiguration.
func (x *request) putBucketLock() error {
	var c lockConfiguration
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return err
	}
	l, err := c.lock()
	if err != nil {
		return err
	}
	if err := x.Service.SetBucketLock(x.in.Context(), x.owner, x.bucket.BucketRef, l); err != nil {
		return err
	}
	return x.send(http.StatusOK)
}

// lockedVersion reads the object if the bucket locks objects at all.
func (x *request) lockedVersion() (buckets.Object, error) {
	if !x.bucket.Lock.Enabled {
		return buckets.Object{}, errNoLock
	}
	return x.storedVersion()
}

// getRetention serves GetObjectRetention.
func (x *request) getRetention() error {
	o, err := x.lockedVersion()
	if err != nil {
		return err
	}
	if o.Lock.Mode == "" {
		return errNoRetention
	}
	d := newDocument("Retention")
	d.text("Mode", string(o.Lock.Mode))
	d.moment("RetainUntilDate", o.Lock.Until)
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// getLegalHold serves GetObjectLegalHold.
func (x *request) getLegalHold() error {
	o, err := x.lockedVersion()
	if err != nil {
		return err
	}
	if o.Lock.Hold == "" {
		return errNoRetention
	}
	d := newDocument("LegalHold")
	d.text("Status", string(o.Lock.Hold))
	sendXML(x.out, http.StatusOK, d)
	return nil
}

type retention struct {
	XMLName xml.Name `xml:"Retention"`
	Mode    string   `xml:"Mode"`
	Until   string   `xml:"RetainUntilDate"`
}

type legalHold struct {
	XMLName xml.Name           `xml:"LegalHold"`
	Status  buckets.HoldStatus `xml:"Status"`
}

// putRetention removes the retention if the document is empty.
func (x *request) putRetention() error {
	var c retention
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return err
	}
	var r buckets.Retention
	if c.Mode != "" || c.Until != "" {
		if !isMode(c.Mode) || c.Until == "" {
			return errMalformedXML
		}
		until, err := x.until(c.Until)
		if err != nil {
			return err
		}
		r = buckets.Retention{Mode: buckets.LockMode(c.Mode), Until: until}
	}
	return x.setLock(buckets.Lock{Mode: r.Mode, Until: r.Until}, buckets.LockChange{Retention: &r})
}

// putLegalHold serves PutObjectLegalHold.
func (x *request) putLegalHold() error {
	var c legalHold
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return err
	}
	if c.Status != buckets.HoldOn && c.Status != buckets.HoldOff {
		return errMalformedXML
	}
	return x.setLock(buckets.Lock{Hold: c.Status}, buckets.LockChange{Hold: c.Status})
}

// setLock changes a version's lock. l is the change as policies see it.
func (x *request) setLock(l buckets.Lock, c buckets.LockChange) error {
	x.parsed.object.Lock = l
	if err := x.allowLate(); err != nil {
		return err
	}
	if !x.bucket.Lock.Enabled {
		return errNoLock
	}
	id, err := x.versionID()
	if err != nil {
		return err
	}
	if c.Bypass, err = x.bypasses(x.key, string(id)); err != nil {
		return err
	}
	o, err := x.Service.UpdateObject(x.in.Context(), x.owner, x.bucket.BucketRef, buckets.Update{Name: x.key, Version: id, Lock: &c})
	if err != nil {
		return err
	}
	x.versionHeader(o.VersionID())
	return x.send(http.StatusOK)
}

// bypasses reports whether the request overrides governance. It rejects clients without that right.
func (x *request) bypasses(key, version string) (bool, error) {
	if !strings.EqualFold(x.in.Header.Get(bypassHeader), "true") {
		return false, nil
	}
	return true, x.allow(access{right: buckets.RightBypass, key: key, version: version, actions: []policy.Action{policy.BypassGovernance}})
}

// until parses a date, which must be in the future. S3 cuts it to milliseconds.
func (x *request) until(text string) (buckets.Moment, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, errUntilFormat
	}
	m := buckets.At(t.Truncate(time.Millisecond))
	if m <= x.Service.Now() {
		return 0, errUntilPast
	}
	if (buckets.Retention{Mode: buckets.Governance, Until: m}).Check() != nil {
		return 0, errUntilFormat
	}
	return m, nil
}

// hasLockHeaders reports whether the request locks the new object.
func (x *request) hasLockHeaders() bool {
	h := x.in.Header
	return h.Get(lockModeHeader) != "" || h.Get(lockUntilHeader) != "" || h.Get(lockHoldHeader) != ""
}

// parseLock reads the lock for a new object. Mode and date belong together.
func (x *request) parseLock() (l buckets.Lock, err error) {
	if !x.hasLockHeaders() {
		return l, nil
	}
	h := x.in.Header
	l = buckets.Lock{Mode: buckets.LockMode(h.Get(lockModeHeader)), Hold: buckets.HoldStatus(h.Get(lockHoldHeader))}
	until := h.Get(lockUntilHeader)
	switch {
	case (l.Mode == "") != (until == ""):
		return l, errRetentionHalf
	case l.Mode != "" && !isMode(string(l.Mode)):
		return l, errLockMode
	case l.Hold != "" && l.Hold != buckets.HoldOn && l.Hold != buckets.HoldOff:
		return l, errHoldStatus
	}
	if until != "" {
		l.Until, err = x.until(until)
	}
	return l, err
}

// allowLock checks that the bucket supports the lock of a new object, and that the client may set it.
func (x *request) allowLock() error {
	l := x.parsed.object.Lock
	if l.IsZero() {
		return nil
	}
	if err := x.identifyBucket(); err != nil {
		return err
	}
	if !x.bucket.Lock.Enabled {
		return errNoLock
	}
	if x.bucket.Settings.Policy.IsZero() {
		return nil
	}
	var actions []policy.Action
	if l.Mode != "" {
		actions = append(actions, policy.PutObjectRetention)
	}
	if l.Hold != "" {
		actions = append(actions, policy.PutObjectLegalHold)
	}
	return x.allow(access{right: buckets.RightWrite, key: x.key, actions: actions})
}

// checkLockDigest requires a checksum with a lock, as S3 does.
func (x *request) checkLockDigest() error {
	if x.parsed.object.Lock.IsZero() || x.in.Header.Get("Content-Md5") != "" || x.in.Header.Get("X-Amz-Trailer") != "" {
		return nil
	}
	for name := range x.in.Header {
		if strings.HasPrefix(name, "X-Amz-Checksum-") {
			return nil
		}
	}
	return errLockDigest
}

// writeLock shows the lock to clients that may read it.
func (x *request) writeLock(o *buckets.Object) {
	if o.Lock.IsZero() || x.signed == nil {
		return
	}
	may := func(a policy.Action) bool {
		return x.allow(access{right: buckets.RightRead, key: x.key, version: x.version(), actions: []policy.Action{a}}) == nil
	}
	h := x.out.Header()
	if o.Lock.Mode != "" && may(policy.GetObjectRetention) {
		h.Set(lockModeHeader, string(o.Lock.Mode))
		h.Set(lockUntilHeader, o.Lock.Until.Time().Format(xmlTime))
	}
	if o.Lock.Hold != "" && may(policy.GetObjectLegalHold) {
		h.Set(lockHoldHeader, string(o.Lock.Hold))
	}
}
