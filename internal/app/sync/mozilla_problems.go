package sync

import (
	"context"
	"fmt"

	"holdfast/internal/app/service"
	"holdfast/internal/db/rows"
	"holdfast/internal/syncstorage"
)

func (m *mozilla) Problems(ctx context.Context, report func(service.Problem)) error {
	return m.snapshot(ctx, func(v *mozillaView) error {
		for _, p := range v.unnamed {
			report(p)
		}
		if err := v.wrongCollections(report); err != nil {
			return err
		}
		if err := v.scan(rows.All, false, func(r *record, _ any, _ int64) error {
			name := fmt.Sprintf("user %d, %s, %q", r.user, v.nameOf(r.coll), r.id)
			if what := v.wrong(r); what != "" {
				report(service.Problem{Left: true, What: what, Row: name})
			} else if most := v.limits.For(v.names[r.coll]).MaxRecordPayloadBytes; r.length > most {
				report(service.Problem{
					What: "records above max_record_payload_bytes, which browsers can read but not write", Row: fmt.Sprintf("%s, %d bytes", name, r.length),
					Fix: "raise syncstorage.limits.max_record_payload_bytes before you start this server",
				})
			}
			return nil
		}); err != nil {
			return err
		}
		return v.openBatches(report)
	})
}

func (v *mozillaView) nameOf(coll int64) string {
	if name := v.names[coll]; name != "" {
		return name
	}
	return fmt.Sprintf("collection %d", coll)
}

func (v *mozillaView) wrongCollections(report func(service.Problem)) error {
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

func (v *mozillaView) openBatches(report func(service.Problem)) error {
	id := v.db.Bytes("b." + v.batch + "::text")
	if v.db.MySQL {
		id = "CAST(b." + v.batch + " AS CHAR)"
	}
	sql := `SELECT b.` + v.user + `, ` + v.db.Integer("b."+v.coll) + `, ` + id + `, count(i.` + v.user + `)
		FROM ` + v.batches + ` b LEFT JOIN ` + v.staged + ` i ON i.` + v.user + ` = b.` + v.user + ` AND i.` + v.batch + ` = b.` + v.batch + v.alsoOf() + `
		GROUP BY b.` + v.user + `, b.` + v.coll + `, b.` + v.batch + ` ORDER BY 1, 2, 3`
	return v.s.Each(sql, func(row []any) error {
		report(service.Problem{Left: true, What: "open batches, which browsers begin again", Row: fmt.Sprintf("user %d, %s, batch %s, %s",
			row[0], v.nameOf(number(row[1])), text(row[2]), service.Count(number(row[3]), "record"))})
		return nil
	})
}

func (v *mozillaView) alsoOf() string {
	if v.db.MySQL {
		return ""
	}
	return " AND i." + v.coll + " = b." + v.coll
}
