package buckets

// Lifecycle holds a bucket's rules, which package lifecycle applies once a day.
type Lifecycle struct {
	Rules []LifecycleRule `json:"rules,omitempty"`

	// Changed is when the rules were set, and identifies that version. Each run applies a single version.
	Changed Moment `json:"changed,omitempty"`

	// Bucket is the bucket's name. It is stored because lifecycle sweeps read only the settings.
	Bucket string `json:"bucket,omitempty"`

	// MinimumSize is S3's default minimum transition size. It has no effect.
	MinimumSize string `json:"minimum_size,omitempty"`
}

// LifecycleRule is a rule with either Filter or Prefix, S3's older form.
type LifecycleRule struct {
	ID         string             `json:"id"` // unique in the bucket
	Disabled   bool               `json:"disabled,omitempty"`
	Prefix     *string            `json:"prefix,omitempty"`
	Filter     *LifecycleFilter   `json:"filter,omitempty"`
	Expiration *Expiration        `json:"expiration,omitempty"` // when current objects expire; nil: never
	Noncurrent *NoncurrentVersion `json:"noncurrent,omitempty"` // when noncurrent versions expire; nil: never

	// AbortDays is the age at which incomplete uploads are aborted; 0 means never.
	AbortDays int `json:"abort_days,omitempty"`
}

// LifecycleFilter selects objects for which all conditions hold. Nil fields select all.
type LifecycleFilter struct {
	Prefix      *string `json:"prefix,omitempty"`
	Tags        []Tag   `json:"tags,omitempty"`
	GreaterThan *int64  `json:"greater_than,omitempty"` // bytes, exclusive
	LessThan    *int64  `json:"less_than,omitempty"`    // bytes, exclusive

	// And records that the client sent an And element.
	And bool `json:"and,omitempty"`
}

// Tag is a condition on an object tag; both parts must be equal.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Expiration expires objects by age or at a date.
type Expiration struct {
	Days int    `json:"days,omitempty"` // after the last write; 0 if Date is set
	Date Moment `json:"date,omitempty"` // midnight UTC

	// DeleteMarker removes delete markers that hide no versions.
	DeleteMarker *bool `json:"delete_marker,omitempty"`
}

// NoncurrentVersion deletes noncurrent versions by age.
type NoncurrentVersion struct {
	Days int  `json:"days"`           // since a newer version replaced it
	Keep *int `json:"keep,omitempty"` // newer noncurrent versions to keep
}

// Begins returns the name prefix that the rule applies to, from either form.
func (r *LifecycleRule) Begins() string {
	switch {
	case r.Prefix != nil:
		return *r.Prefix
	case r.Filter != nil && r.Filter.Prefix != nil:
		return *r.Filter.Prefix
	}
	return ""
}

// Expires reports whether the rule is active and deletes current objects.
func (r *LifecycleRule) Expires() bool {
	return !r.Disabled && r.Expiration != nil && (r.Expiration.Days > 0 || r.Expiration.Date != 0)
}

// Aborts reports whether the rule is active and aborts incomplete uploads.
func (r *LifecycleRule) Aborts() bool { return !r.Disabled && r.AbortDays > 0 }

// text returns the bytes of the rules' texts, which is less than the document that a client sends for them.
func (l *Lifecycle) text() (n int) {
	for i := range l.Rules {
		r := &l.Rules[i]
		n += len(r.ID) + len(r.Begins())
		if r.Filter != nil {
			for _, t := range r.Filter.Tags {
				n += len(t.Key) + len(t.Value)
			}
		}
	}
	return n
}

// memory estimates the size in bytes, for caches and pages.
func (l *Lifecycle) memory() (n int) {
	for i := range l.Rules {
		r := &l.Rules[i]
		n += objectMemory + len(r.ID) + len(r.Begins())
		if r.Filter != nil {
			for _, t := range r.Filter.Tags {
				n += tagMemory + len(t.Key) + len(t.Value)
			}
		}
	}
	return n
}
