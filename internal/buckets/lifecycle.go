package buckets

type Lifecycle struct {
	Rules []LifecycleRule `json:"rules,omitempty"`

	// Changed is when the rules were set. Each run applies one version of the rules.
	Changed Moment `json:"changed,omitempty"`

	// Bucket is stored because lifecycle sweeps read only the settings.
	Bucket string `json:"bucket,omitempty"`

	// MinimumSize is S3's default minimum transition size. It has no effect.
	MinimumSize string `json:"minimum_size,omitempty"`
}

// LifecycleRule is a rule with either Filter or Prefix, S3's older form.
type LifecycleRule struct {
	ID         string             `json:"id"`
	Disabled   bool               `json:"disabled,omitempty"`
	Prefix     *string            `json:"prefix,omitempty"`
	Filter     *LifecycleFilter   `json:"filter,omitempty"`
	Expiration *Expiration        `json:"expiration,omitempty"`
	Noncurrent *NoncurrentVersion `json:"noncurrent,omitempty"`

	// AbortDays is the age at which incomplete uploads are aborted; 0 means never.
	AbortDays int `json:"abort_days,omitempty"`
}

type LifecycleFilter struct {
	Prefix      *string `json:"prefix,omitempty"`
	Tags        []Tag   `json:"tags,omitempty"`
	GreaterThan *int64  `json:"greater_than,omitempty"`
	LessThan    *int64  `json:"less_than,omitempty"`

	// And records that the client sent an And element.
	And bool `json:"and,omitempty"`
}

type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Expiration expires objects by age or at a date.
type Expiration struct {
	Days int    `json:"days,omitempty"`
	Date Moment `json:"date,omitempty"` // midnight UTC

	// DeleteMarker removes delete markers that hide no versions.
	DeleteMarker *bool `json:"delete_marker,omitempty"`
}

type NoncurrentVersion struct {
	Days int  `json:"days"`
	Keep *int `json:"keep,omitempty"` // newer noncurrent versions to keep
}

func (r *LifecycleRule) Begins() string {
	switch {
	case r.Prefix != nil:
		return *r.Prefix
	case r.Filter != nil && r.Filter.Prefix != nil:
		return *r.Filter.Prefix
	}
	return ""
}

func (r *LifecycleRule) Expires() bool {
	return !r.Disabled && r.Expiration != nil && (r.Expiration.Days > 0 || r.Expiration.Date != 0)
}

func (r *LifecycleRule) Aborts() bool { return !r.Disabled && r.AbortDays > 0 }

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
