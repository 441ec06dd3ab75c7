package sync

import (
	"context"
	"fmt"

	"holdfast/internal/app/service"
	"holdfast/internal/db/rows"
	"holdfast/internal/syncstorage"
)

// Problems reports rows in the order of the tables, so that the operator reads why a collection is skipped before its
// records.
func (m *mozilla) Problems(ctx context.Context, report func(service.Problem)) error {
	return m.snapshot(ctx, func(v *mozillaView) error {
		for _, p := range v.unnamed {
			report(p)
		}
		if err := v.invalidCollections(report); err != nil {
			return err
		}
		now := syncstorage.At(v.clock())
		used := &quotaUse{quota: v.quota, report: report, nameOf: v.nameOf}
		if err := v.scan(rows.All, false, func(r *record, sortindex any, expiry int64) error {
			name := fmt.Sprintf("user %d, %s, %q", r.user, v.nameOf(r.coll), r.id)
			if what := v.defect(r); what != "" {
				report(service.Problem{Left: true, What: what, Row: name})
				return nil
			}
			v.caveats(r, sortindex, name, now, report)
			if at, ok := expiryOf(expiry).(int64); !ok || at > int64(now) {
				used.add(r)
			}
			return nil
		}); err != nil {
			return err
		}
		used.end()
		return v.openBatches(report)
	})
}

// caveats reports rows that are imported although a browser could not write them. They hold a user's data, which must
// not be lost because another server allowed more, and browsers can read and replace them.
func (v *mozillaView) caveats(r *record, sortindex any, name string, now syncstorage.Timestamp, report func(service.Problem)) {
	if limit := v.limits.For(v.names[r.coll]).MaxRecordPayloadBytes; r.length > limit {
		report(service.Problem{
			What: "records above max_record_payload_bytes, which browsers can read but not write", Row: fmt.Sprintf("%s, %d bytes", name, r.length),
			Fix: "raise syncstorage.limits.max_record_payload_bytes before you start this server",
		})
	}
	if n, ok := sortindex.(int64); ok && sortindexOf(n) != n {
		report(service.Problem{What: fmt.Sprintf("records with a sortindex beyond %d, which is lowered to that", syncstorage.MaxSortIndex), Row: fmt.Sprintf("%s, %d", name, n)})
	}
	if r.modified > int64(now)+syncstorage.MaxStampAhead {
		report(service.Problem{
			What: "records modified more than a day in the future, which makes all later writes of their user later still", Row: name,
			Fix: "check the clock of this machine before you start this server; the old server's clock was wrong if this one is right",
		})
	}
}

// sortindexOf returns the nearest index that the protocol allows.
func sortindexOf(n int64) int64 {
	return min(max(n, -syncstorage.MaxSortIndex), syncstorage.MaxSortIndex)
}

// quotaUse adds up the records of a user, which come in order, and reports users above an enforced quota: they can read
// and delete, but not write.
type quotaUse struct {
	quota  syncstorage.Quota
	report func(service.Problem)
	nameOf func(coll int64) string

	user, coll int64
	used       syncstorage.Used
}

// add counts a record.
func (q *quotaUse) add(r *record) {
	if r.user != q.user {
		q.end()
		q.user, q.coll, q.used = r.user, r.coll, syncstorage.Used{}
	} else if r.coll != q.coll {
		q.endCollection()
		q.coll, q.used.Collection = r.coll, 0
	}
	q.used = q.used.Add(r.length)
}

const quotaFix = "raise syncstorage.limits.max_quota_limit or max_user_quota before you start this server, or set a quota for the user later (holdfast tokenserver accounts quota)"

// endCollection reports the collection if it is above its limit.
func (q *quotaUse) endCollection() {
	if limit := q.quota.Collection; q.quota.Enforce && limit > 0 && q.used.Collection > limit {
		q.report(service.Problem{
			What: "collections above max_quota_limit, to which browsers cannot add", Row: fmt.Sprintf("user %d, %s, %d bytes", q.user, q.nameOf(q.coll), q.used.Collection), Fix: quotaFix,
		})
	}
}

// end reports the last user.
func (q *quotaUse) end() {
	q.endCollection()
	if limit := q.quota.User; q.quota.Enforce && limit > 0 && q.used.User > limit {
		q.report(service.Problem{What: "users above max_user_quota, whose browsers cannot add records", Row: fmt.Sprintf("user %d, %d bytes", q.user, q.used.User), Fix: quotaFix})
	}
}

// nameOf returns a collection's name, or its ID for a collection without a valid name.
func (v *mozillaView) nameOf(coll int64) string {
	if name := v.names[coll]; name != "" {
		return name
	}
	return fmt.Sprintf("collection %d", coll)
}

// invalidCollections reports rows of user_collections that are skipped. A collection without a time is not reported:
// Mozilla's server hides it, too.
func (v *mozillaView) invalidCollections(report func(service.Problem)) error {
	return v.s.Each(`SELECT `+v.user+`, `+v.db.Integer(v.coll)+`, `+v.millis(v.stamp)+` FROM user_collections ORDER BY 1, 2`, func(row []any) error {
		user, coll, stamp := number(row[0]), number(row[1]), number(row[2])
		p := service.Problem{Left: true, Row: fmt.Sprintf("user %d, %s", user, v.nameOf(coll))}
		switch {
		case user <= 0:
			p.What = "collections of a user without a positive ID"
		case !isTime(stamp) && stamp > 0:
			p.What = "collections with an invalid modification time"
		case coll != syncstorage.TombstoneID && v.names[coll] == "" && stamp > 0:
			p.What = "user collections without a valid name in the table collections"
		default:
			return nil
		}
		report(p)
		return nil
	})
}

// openBatches reports uploads that were not committed. The count joins their staged records.
func (v *mozillaView) openBatches(report func(service.Problem)) error {
	id := v.db.Bytes("b." + v.batch + "::text")
	if v.db.MySQL {
		id = "CAST(b." + v.batch + " AS CHAR)"
	}
	sql := `SELECT b.` + v.user + `, ` + v.db.Integer("b."+v.coll) + `, ` + id + `, count(i.` + v.user + `)
		FROM ` + v.batches + ` b LEFT JOIN ` + v.staged + ` i ON i.` + v.user + ` = b.` + v.user + ` AND i.` + v.batch + ` = b.` + v.batch + v.alsoOf() + `
		GROUP BY b.` + v.user + `, b.` + v.coll + `, b.` + v.batch + ` ORDER BY 1, 2, 3`
	return v.s.Each(sql, func(row []any) error {
		report(service.Problem{Left: true, Usual: true, What: "open batches, which browsers begin again", Row: fmt.Sprintf("user %d, %s, batch %s, %s",
			row[0], v.nameOf(number(row[1])), text(row[2]), service.Count(number(row[3]), "record"))})
		return nil
	})
}

// alsoOf returns a further condition for PostgreSQL, where a batch's key includes the collection.
func (v *mozillaView) alsoOf() string {
	if v.db.MySQL {
		return ""
	}
	return " AND i." + v.coll + " = b." + v.coll
}
