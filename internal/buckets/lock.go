package buckets

import (
	"encoding/json"
	"time"

	"holdfast/internal/errcode"
)

// LockMode is the retention mode; "" means no retention.
type LockMode string

// Retention modes. Governance can be bypassed; compliance cannot.
const (
	Governance LockMode = "GOVERNANCE"
	Compliance LockMode = "COMPLIANCE"
)

// HoldStatus is the legal hold, which has no end.
type HoldStatus string

// Legal hold statuses; "" means never set.
const (
	HoldOn  HoldStatus = "ON"
	HoldOff HoldStatus = "OFF"
)

// Lock protects an object version. The database clock decides when retention ends.
type Lock struct {
	Mode  LockMode   `json:"mode,omitempty"`
	Until Moment     `json:"until,omitempty"` // 0 without retention
	Hold  HoldStatus `json:"hold,omitempty"`
}

// IsZero reports whether the version was never locked. JSON needs the method to omit it.
func (l Lock) IsZero() bool { return l == Lock{} }

func (l Lock) Retention() Retention { return Retention{l.Mode, l.Until} }

// Retention keeps a version until a date.
type Retention struct {
	Mode  LockMode
	Until Moment
}

func (r Retention) IsZero() bool { return r == Retention{} }

// Check returns ErrRetention if r is invalid.
func (r Retention) Check() error {
	if r.IsZero() || (r.Mode == Governance || r.Mode == Compliance) && 0 < r.Until && r.Until <= maxUntil {
		return nil
	}
	return ErrRetention
}

// maxUntil is the last date that both databases and S3 support.
var maxUntil = At(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))

// Check returns *LockedError if the version must not be deleted or changed. With bypass, governance mode does not
// count.
func (l Lock) Check(now Moment, bypass bool) error {
	if l.Hold == HoldOn || l.Until > now && !(bypass && l.Mode == Governance) {
		return &LockedError{l}
	}
	return nil
}

// Change returns *LockedError if the lock forbids the change. Retention can always be extended. With a bypass,
// governance retention can also be shortened, removed or changed to compliance.
func (l Lock) Change(c LockChange, now Moment) (Lock, error) {
	if r := c.Retention; r != nil {
		if err := r.Check(); err != nil {
			return l, err
		}
		extends := r.Mode == l.Mode && r.Until >= l.Until
		if l.Until > now && !extends && !(c.Bypass && l.Mode == Governance) {
			return l, &LockedError{Lock{Mode: l.Mode, Until: l.Until}}
		}
		l.Mode, l.Until = r.Mode, r.Until
	}
	if c.Hold != "" {
		l.Hold = c.Hold
	}
	return l, nil
}

// LockChange changes a lock. Zero fields change nothing.
type LockChange struct {
	Retention *Retention // a pointer to the zero value removes it
	Hold      HoldStatus
	Bypass    bool // the client may override governance mode
}

// LockedError means that a lock forbids a delete or change. Lock is the lock at that time.
type LockedError struct{ Lock Lock }

func (e *LockedError) Error() string {
	switch {
	case e.Lock.Hold == HoldOn:
		return "the version has a legal hold: turn the hold off first"
	case e.Lock.Mode == Compliance:
		return "the version is in compliance mode until " + e.until() + ": it cannot be deleted or shortened before"
	case e.Lock.Mode == Governance:
		return "the version is in governance mode until " + e.until() + ": only the right to bypass governance can delete it or shorten that before"
	}
	return "the version is locked"
}

func (e *LockedError) until() string { return e.Lock.Until.Time().UTC().Format(time.RFC3339) }

func (e *LockedError) ErrorCode() errcode.Code { return errcode.Denied }

// BucketLock is a bucket's object lock, with the default retention for new versions.
type BucketLock struct {
	Enabled bool `json:"-"` // permanent, and versioning cannot be suspended

	Mode  LockMode `json:"mode,omitempty"` // "" for no default
	Days  int      `json:"days,omitempty"` // either Days or Years is set
	Years int      `json:"years,omitempty"`
}

// Maximum default retention.
const (
	MaxLockDays  = 36500 // S3's limits
	MaxLockYears = 100
)

// Check returns ErrUnlock, ErrRetention or ErrRetentionPeriod.
func (l BucketLock) Check() error {
	switch {
	case !l.Enabled:
		return ErrUnlock
	case l.Mode == "" && l.Days == 0 && l.Years == 0:
		return nil
	case l.Mode != Governance && l.Mode != Compliance, (l.Days == 0) == (l.Years == 0):
		return ErrRetention
	case l.Days < 0 || l.Days > MaxLockDays, l.Years < 0 || l.Years > MaxLockYears:
		return ErrRetentionPeriod
	}
	return nil
}

// Encode returns the JSON for the column object_lock. The column is NULL unless Enabled.
func (l BucketLock) Encode() (string, error) {
	if err := l.Check(); err != nil {
		return "", err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return "", errcode.Wrap(errcode.Internal, "encode the object lock of a bucket", err)
	}
	return string(text), nil
}

// Apply gives an object's own retention precedence over the default.
func (l BucketLock) Apply(own Lock, now Moment) (Lock, error) {
	switch {
	case !l.Enabled && !own.IsZero():
		return own, ErrNoLock
	case l.Mode != "" && own.Mode == "":
		own.Mode, own.Until = l.Mode, l.until(now)
	}
	return own, nil
}

// until returns the end of the default retention. As in PostgreSQL, a year after February 29 is February 28.
func (l BucketLock) until(now Moment) Moment {
	t := now.Time()
	if u := t.AddDate(l.Years, 0, 0); u.Day() == t.Day() {
		t = u
	} else {
		t = u.AddDate(0, 0, -1)
	}
	return At(t.AddDate(0, 0, l.Days).Truncate(time.Second).Add(time.Second)) // round up to whole seconds, which clients use
}

var (
	ErrNoLock          = errcode.New(errcode.Invalid, "object lock is not enabled for the bucket")
	ErrUnlock          = errcode.New(errcode.Invalid, "object lock cannot be disabled")
	ErrLockVersioning  = errcode.New(errcode.Conflict, "object lock needs versioning: enable it first, and do not suspend it")
	ErrRetention       = errcode.New(errcode.Invalid, "the retention is not valid: expected the mode GOVERNANCE or COMPLIANCE with a date, or as a default with days or years")
	ErrRetentionPeriod = errcode.New(errcode.Invalid, "the retention period is not valid: expected 1 to 36,500 days or 1 to 100 years")
)
