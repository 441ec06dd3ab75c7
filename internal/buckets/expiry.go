package buckets

import (
	"slices"
	"strings"
	"time"
)

const day = Moment(24 * time.Hour / time.Microsecond)

// never is the last midnight that HTTP and XML dates can express.
var never = At(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))

// Expiry is the time at which a lifecycle rule deletes something.
type Expiry struct {
	At   Moment
	Rule *LifecycleRule
}

// AfterDays adds days and, like S3, rounds up to midnight UTC. The result is at most in the year 9999.
func AfterDays(begin Moment, days int) Moment {
	midnight := begin - begin%day
	if begin%day < 0 {
		midnight -= day
	}
	if Moment(days) >= (never-midnight)/day {
		return never
	}
	return midnight + Moment(days+1)*day
}

// Expiry returns an object's earliest expiry. The first rule wins ties.
func (l *Lifecycle) Expiry(o *Object) (e Expiry, ok bool) {
	for i := range l.Rules {
		r := &l.Rules[i]
		if !r.Expires() || !r.matches(o) {
			continue
		}
		at := r.Expiration.Date
		if r.Expiration.Days > 0 {
			at = AfterDays(o.Modified, r.Expiration.Days)
		}
		if !ok || at < e.At {
			e, ok = Expiry{at, r}, true
		}
	}
	return e, ok
}

// AbortOf returns the earliest abort by a rule.
func (l *Lifecycle) AbortOf(u *Upload) (e Expiry, ok bool) {
	for i := range l.Rules {
		r := &l.Rules[i]
		if !r.Aborts() || !strings.HasPrefix(u.Name, r.Begins()) {
			continue
		}
		if at := AfterDays(u.Created, r.AbortDays); !ok || at < e.At {
			e, ok = Expiry{at, r}, true
		}
	}
	return e, ok
}

// ExpiryOfVersion is for noncurrent versions and lone delete markers. newer is the number of newer noncurrent
// versions.
func (l *Lifecycle) ExpiryOfVersion(v *Version, newer int) (e Expiry, ok bool) {
	for i := range l.Rules {
		r := &l.Rules[i]
		var at Moment
		switch n, x := r.Noncurrent, r.Expiration; {
		case r.Disabled || !r.matchesVersion(v):
			continue
		case !v.Current && n != nil && (n.Keep == nil || newer >= *n.Keep):
			at = AfterDays(v.Superseded, n.Days)
		case v.Current && x != nil && x.removesMarkers():
			at = 0 // expired at any age, even if the clock was ahead
		case v.Current && x != nil && x.Days > 0:
			at = AfterDays(v.Modified, x.Days)
		default:
			continue
		}
		if !ok || at < e.At {
			e, ok = Expiry{at, r}, true
		}
	}
	return e, ok
}

// matchesVersion applies the filter to a noncurrent version. A delete marker has neither tags nor a size, so only rules
// without such filters match it.
func (r *LifecycleRule) matchesVersion(v *Version) bool {
	if v.Marker {
		return !r.filtersObjects() && strings.HasPrefix(v.Name, r.Begins())
	}
	return r.matches(&v.Object)
}

// readsVersions reports whether the rule can delete noncurrent versions or delete markers.
func (r *LifecycleRule) readsVersions() bool {
	return !r.Disabled && (r.Noncurrent != nil || r.Expiration != nil && (r.Expiration.removesMarkers() || r.Expiration.Days > 0) && !r.filtersObjects())
}

// VersionPrefixes returns prefixes covering all versions that the rules may delete.
func (l *Lifecycle) VersionPrefixes() []string { return l.prefixes((*LifecycleRule).readsVersions) }

// matches applies prefix, sizes and tags. Sizes are exclusive, and all tags must match, as in S3.
func (r *LifecycleRule) matches(o *Object) bool {
	if !strings.HasPrefix(o.Name, r.Begins()) {
		return false
	}
	f := r.Filter
	if f == nil {
		return true
	}
	if f.GreaterThan != nil && o.Length <= *f.GreaterThan || f.LessThan != nil && o.Length >= *f.LessThan {
		return false
	}
	for _, t := range f.Tags {
		if v, ok := o.Tags[t.Key]; !ok || v != t.Value {
			return false
		}
	}
	return true
}

// ObjectPrefixes returns sorted, disjoint prefixes covering all objects that may have expired.
func (l *Lifecycle) ObjectPrefixes(now Moment) []string {
	return l.prefixes(func(r *LifecycleRule) bool { return r.Expires() && r.Expiration.Date <= now })
}

// UploadPrefixes returns sorted, disjoint prefixes covering all uploads that the rules may abort.
func (l *Lifecycle) UploadPrefixes() []string { return l.prefixes((*LifecycleRule).Aborts) }

// prefixes returns the selected rules' prefixes, sorted, without those that another prefix covers. So a run reads
// no name twice.
func (l *Lifecycle) prefixes(of func(*LifecycleRule) bool) (all []string) {
	for i := range l.Rules {
		if of(&l.Rules[i]) {
			all = append(all, l.Rules[i].Begins())
		}
	}
	slices.Sort(all)
	kept := all[:0]
	for _, p := range all {
		if len(kept) == 0 || !strings.HasPrefix(p, kept[len(kept)-1]) {
			kept = append(kept, p)
		}
	}
	return kept
}

// NextRun returns the midnight UTC after began, or year 9999 if no rule deletes.
func (l *Lifecycle) NextRun(began Moment) Moment {
	if !slices.ContainsFunc(l.Rules, func(r LifecycleRule) bool { return r.Expires() || r.Aborts() || r.readsVersions() }) {
		return never
	}
	return AfterDays(began, 0)
}
