package buckets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// versionOperations declares the versions and their locks.
func (s *Buckets) versionOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "versions", Doc: "List a bucket's object versions and their locks", Title: "Versions", Empty: "There are no versions.",
			Group: "Show, lock and delete object versions",
		}, on(s, s.versionList)),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "versions/show", Doc: "Show an object version and its lock", Title: "Version"}, on(s, s.showVersion)),
		operate.NewChange(operate.About{
			Path: "versions/retain", Doc: "Set or extend a version's retention", Title: "Retention", Button: "Set retention", Stays: true,
			Text: "governance: until then, only keys with the right bypass can delete the version or shorten the retention. compliance: until then, nobody can.",
		}, on(s, s.retainVersion)),
		operate.NewChange(operate.About{
			Path: "versions/hold", Doc: "Turn a version's legal hold on or off", Title: "Legal hold", Button: "Set legal hold", Stays: true,
			Text: "A version with a legal hold cannot be deleted.",
		}, on(s, s.holdVersion)),
		operate.NewChange(operate.About{
			Path: "versions/delete", Doc: "Delete an object version", Title: "Delete the version", Button: "Delete version", Danger: true,
			Text: "This cannot be undone. A version that is locked stays, unless it is in governance mode and that is bypassed.",
		}, on(s, s.removeVersion)),
	}
}

// versionsInput selects a bucket's versions.
type versionsInput struct {
	bucketInput
	Prefix string `flag:"prefix" doc:"only objects with this name prefix"`
	operate.Page[string]
}

// versionOutput is a version or a delete marker, with its lock.
type versionOutput struct {
	Object    string        `json:"object" title:"Object" subject:"object" example:"reports/2026.pdf"`
	Version   string        `json:"version" title:"Version" subject:"version" example:"7ff9b3a2-7a40-7c00-8000-0123456789ab"`
	State     string        `json:"state" title:"State" enum:"current,noncurrent,delete marker"`
	Bytes     service.Bytes `json:"bytes" title:"Bytes" least:"0"`
	Modified  time.Time     `json:"modified" title:"Modified"`
	Mode      string        `json:"mode,omitempty" title:"Mode" zero:"-" enum:"governance,compliance" doc:"missing: no retention"`
	Until     *time.Time    `json:"until,omitempty" title:"Until" zero:"-" doc:"end of the retention"`
	LegalHold string        `json:"legalHold,omitempty" title:"Legal hold" zero:"-" enum:"on,off" doc:"missing: never set"`

	// lockable says that the bucket has object lock and the version has a body.
	lockable bool
}

// listedVersion is a row. Next is the position: the version and the name, separated by a slash.
type listedVersion struct {
	versionOutput
	Next string `json:"-" cursor:""`
}

// versionPage is a version with its bucket.
type versionPage struct {
	Account string `json:"account" title:"Account" subject:"account" example:"main"`
	Bucket  string `json:"bucket" title:"Bucket" subject:"bucket" example:"photos"`
	versionOutput
}

// Offers locks only where they can be set.
func (v versionOutput) Offers(verb string) bool { return verb == "delete" || v.lockable }

// versionList orders by object name, the newest version first.
func (s *Buckets) versionList(ctx context.Context, in versionsInput) (all []listedVersion, err error) {
	q := buckets.VersionQuery{Prefix: in.Prefix, Limit: min(in.Limit, buckets.MaxPage)}
	if in.After != "" {
		id, name, ok := strings.Cut(in.After, "/")
		if q.AfterVersion, err = buckets.ParseVersionID(id); !ok || err != nil {
			return nil, errAfter
		}
		q.After = name
	}
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return nil, err
	}
	page, err := s.opened.ListVersions(ctx, a.ID, b.ID, q)
	for i := range page.Versions {
		o := outputOfVersion(&page.Versions[i], b.Lock.Enabled)
		all = append(all, listedVersion{o, o.Version + "/" + o.Object})
	}
	return all, err
}

// outputOfVersion converts a version. lockable is whether its bucket has object lock.
func outputOfVersion(v *buckets.Version, lockable bool) versionOutput {
	o := versionOutput{
		Object: v.Name, Version: string(v.VersionID()), State: wordOf(v), Bytes: service.Bytes(v.Length), Modified: v.Modified.Time(),
		Mode: strings.ToLower(string(v.Lock.Mode)), LegalHold: strings.ToLower(string(v.Lock.Hold)), lockable: lockable && !v.Marker,
	}
	if v.Lock.Until != 0 {
		until := v.Lock.Until.Time()
		o.Until = &until
	}
	return o
}

// versionInput names a version. null is the version that was written without versioning.
type versionInput struct {
	bucketInput
	Object  string `subject:"object" doc:"object name"`
	Version string `subject:"version" doc:"version ID, or null"`
}

// showVersion returns errcode.NotFound for an unknown version.
func (s *Buckets) showVersion(ctx context.Context, in versionInput) (o versionPage, err error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return o, err
	}
	id, err := versionOf(in)
	if err != nil {
		return o, err
	}
	v, err := s.opened.Version(ctx, a.ID, b.ID, in.Object, id)
	return versionPage{a.Name, b.Name, outputOfVersion(&v, b.Lock.Enabled)}, about(in.Object, err)
}

// versionOf parses the version ID. An ID that is not valid is an unknown version.
func versionOf(in versionInput) (buckets.VersionID, error) {
	id, err := buckets.ParseVersionID(in.Version)
	if err != nil {
		err = about(in.Object, errcode.New(errcode.NotFound, errcode.Message(buckets.ErrNoVersion)))
	}
	return id, err
}

// versionChange is the changed version.
type versionChange struct {
	Account string `json:"account" subject:"account" example:"main"`
	Bucket  string `json:"bucket" subject:"bucket" example:"photos"`
	Object  string `json:"object" subject:"object" example:"reports/2026.pdf"`
	Version string `json:"version" subject:"version" example:"7ff9b3a2-7a40-7c00-8000-0123456789ab"`

	notice string
}

func (c versionChange) Notice() string { return c.notice }

// onVersion calls fn with the bucket and the version that an input names. Errors name the object.
func (s *Buckets) onVersion(ctx context.Context, in versionInput, fn func(owner buckets.AccountID, b buckets.BucketRef, id buckets.VersionID) error) (versionChange, error) {
	c := versionChange{Account: in.Account, Bucket: in.Bucket, Object: in.Object, Version: in.Version}
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return c, err
	}
	id, err := versionOf(in)
	if err != nil {
		return c, err
	}
	return c, aboutLock(in.Object, fn(a.ID, b.BucketRef, id))
}

// aboutLock returns errcode.Conflict with the reason if a lock refused the change, and otherwise about.
func aboutLock(name string, err error) error {
	if locked, ok := errors.AsType[*buckets.LockedError](err); ok {
		return errcode.New(errcode.Conflict, name+": "+locked.Error())
	}
	return about(name, err)
}

// lockVersion changes a version's retention or its hold.
func (s *Buckets) lockVersion(ctx context.Context, in versionInput, l buckets.LockChange) (versionChange, error) {
	return s.onVersion(ctx, in, func(owner buckets.AccountID, b buckets.BucketRef, id buckets.VersionID) error {
		_, err := s.opened.UpdateObject(ctx, owner, b, buckets.Update{Name: in.Object, Version: id, Lock: &l})
		return err
	})
}

// retainInput is a retention from now, or none. Bypass is the operator's right to override governance mode.
type retainInput struct {
	versionInput
	Mode   string        `flag:"mode" doc:"governance, compliance, or none to remove it" enum:"governance,compliance,none"`
	For    time.Duration `flag:"for" doc:"duration from now, e.g. 30d" default:"0s"`
	Bypass bool          `flag:"bypass-governance" doc:"shorten or remove a governance retention"`
}

// noMode is the word that removes a retention.
const noMode = "none"

// Check requires a duration with a mode, and none without.
func (in retainInput) Check() error {
	switch {
	case lockMode(in.Mode) == "" && in.Mode != noMode:
		return &operate.InputError{Input: "mode", Reason: "must be governance, compliance or none"}
	case (in.Mode == noMode) != (in.For == 0) || in.For < 0:
		return &operate.InputError{Input: "for", Reason: "must be greater than 0s, or 0s with the mode none"}
	}
	return nil
}

// lockMode returns "" for other words, also in upper case.
func lockMode(word string) buckets.LockMode {
	if m := buckets.LockMode(strings.ToUpper(word)); (m == buckets.Governance || m == buckets.Compliance) && word == strings.ToLower(word) {
		return m
	}
	return ""
}

// retainVersion cannot shorten a compliance retention; nobody can.
func (s *Buckets) retainVersion(ctx context.Context, in retainInput) (versionChange, error) {
	r, notice := buckets.Retention{Mode: lockMode(in.Mode)}, in.Object+" has no retention"
	if in.For > 0 {
		r.Until = s.opened.Now().Add(in.For)
		notice = fmt.Sprintf("%s is in %s mode until %s", in.Object, in.Mode, r.Until.Time().Format(time.RFC3339))
	}
	c, err := s.lockVersion(ctx, in.versionInput, buckets.LockChange{Retention: &r, Bypass: in.Bypass})
	c.notice = notice
	return c, err
}

// holdInput turns a legal hold on or off.
type holdInput struct {
	versionInput
	Hold string `flag:"hold" doc:"on or off" enum:"on,off"`
}

// Check refuses a missing value: there is no default.
func (in holdInput) Check() error {
	if in.Hold != "on" && in.Hold != "off" {
		return &operate.InputError{Input: "hold", Reason: "must be on or off"}
	}
	return nil
}

// holdVersion does not change the retention.
func (s *Buckets) holdVersion(ctx context.Context, in holdInput) (versionChange, error) {
	c, err := s.lockVersion(ctx, in.versionInput, buckets.LockChange{Hold: buckets.HoldStatus(strings.ToUpper(in.Hold))})
	c.notice = fmt.Sprintf("the legal hold on %s is %s", in.Object, in.Hold)
	return c, err
}

// deleteVersionInput may bypass governance mode.
type deleteVersionInput struct {
	versionInput
	Bypass bool `flag:"bypass-governance" doc:"include versions locked in governance mode"`
}

// deletedVersion also lists the backups that still hold the version.
type deletedVersion struct {
	versionChange
	service.Deleted
}

// removeVersion deletes a version for good. It reports no backups for a delete marker, which has no data.
func (s *Buckets) removeVersion(ctx context.Context, in deleteVersionInput) (d deletedVersion, err error) {
	var done buckets.Deleted
	d.versionChange, err = s.onVersion(ctx, in.versionInput, func(owner buckets.AccountID, b buckets.BucketRef, id buckets.VersionID) (err error) {
		done, err = s.opened.TakeObject(ctx, owner, b, buckets.Delete{Name: in.Object, Version: id, Bypass: in.Bypass})
		return err
	})
	if err != nil {
		return d, err
	}
	d.notice = "deleted a version of " + in.Object
	if !done.Marker {
		d.Deleted, err = s.deps.Deleted(done.Object.Created.Time(), Name)
	}
	return d, err
}
