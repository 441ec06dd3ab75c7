package buckets

// Lifecycle has the lifecycle rules of a bucket.
type Lifecycle struct {
	Rules []LifecycleRule `json:"rules,omitempty"`

	// Changed is when the rules were set. A run applies the rules of one change.
	Changed Moment `json:"changed,omitempty"`

	// Bucket is the name of the bucket, so that a sweep needs only its settings.
	Bucket string `json:"bucket,omitempty"`

	// MinimumSize is S3's default minimum size of transitions, which clients read back.
	MinimumSize string `json:"minimum_size,omitempty"`
}

// LifecycleRule has either Prefix, the older form of S3, or Filter.
type LifecycleRule struct {
	ID         string             `json:"id"`
	Disabled   bool               `json:"disabled,omitempty"`
	Prefix     *string            `json:"prefix,omitempty"`
	Filter     *LifecycleFilter   `json:"filter,omitempty"`
	Expiration *Expiration        `json:"expiration,omitempty"`
	Noncurrent *NoncurrentVersion `json:"noncurrent,omitempty"`

	// AbortDays is how many days after its start an incomplete upload is aborted; 0: never.
	AbortDays int `json:"abort_days,omitempty"`
}

// LifecycleFilter selects objects that meet all of its conditions.
type LifecycleFilter struct {
	Prefix      *string `json:"prefix,omitempty"`
	Tags        []Tag   `json:"tags,omitempty"`
	GreaterThan *int64  `json:"greater_than,omitempty"` // bytes
	LessThan    *int64  `json:"less_than,omitempty"`    // bytes

	// And says that the client has sent the conditions in the element And.
	And bool `json:"and,omitempty"`
}

// Tag is a tag of an object.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Expiration says when objects expire: some days after they were written, or at a date.
type Expiration struct {
	Days int    `json:"days,omitempty"`
	Date Moment `json:"date,omitempty"` // midnight UTC

	// DeleteMarker removes delete markers that have no versions; nil: the client has not sent it.
	DeleteMarker *bool `json:"delete_marker,omitempty"`
}

// NoncurrentVersion says when noncurrent versions expire. Only buckets with versions have them.
type NoncurrentVersion struct {
	Days int  `json:"days"`
	Keep *int `json:"keep,omitempty"` // how many newer noncurrent versions are kept
}

// Begins returns the prefix of the names to which the rule applies.
func (r *LifecycleRule) Begins() string {
	switch {
	case r.Prefix != nil:
		return *r.Prefix
	case r.Filter != nil && r.Filter.Prefix != nil:
		return *r.Filter.Prefix
	}
	return ""
}

// Expires reports whether the rule makes objects expire.
func (r *LifecycleRule) Expires() bool {
	return !r.Disabled && r.Expiration != nil && (r.Expiration.Days > 0 || r.Expiration.Date != 0)
}

// Aborts reports whether the rule aborts incomplete uploads.
func (r *LifecycleRule) Aborts() bool { return !r.Disabled && r.AbortDays > 0 }

// memory returns about how many bytes the rules take.
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
