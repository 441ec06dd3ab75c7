package spanner

import (
	"context"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
)

type named struct {
	N   int64  `spanner:"n"`
	UID string `spanner:"uid"`
	KID string `spanner:"kid"`
}

// Totals implements syncstorage.AdminStore.
func (s *Store) Totals(ctx context.Context, owners []ss.Owner) ([]ss.Total, error) {
	all := make([]named, len(owners))
	totals := make([]ss.Total, len(owners))
	for i, o := range owners {
		if err := checkOwner(o); err != nil {
			return nil, err
		}
		all[i], totals[i].Counted = named{int64(i), o.FxAUID, o.FxAKID}, true
	}
	err := s.db.ForEach(ctx, sqlTotals, spannerdb.Params{"owners": all, "epoch": epoch}, func(r *spanner.Row) error {
		var (
			n                     int64
			modified              spanner.NullTime
			records, bytes, quota spanner.NullInt64
			uncounted             spanner.NullBool
		)
		if err := r.Columns(&n, &modified, &records, &bytes, &uncounted, &quota); err != nil {
			return err
		}
		t := ss.Total{Modified: stamp(modified.Time), Counted: !uncounted.Bool, Quota: optional(quota)}
		if t.Counted {
			t.Records, t.Bytes = records.Int64, bytes.Int64
		}
		totals[n] = t
		return nil
	})
	if err != nil {
		return nil, err
	}
	return totals, nil
}

// Owners returns users without their UIDs, which Spanner does not store.
func (s *Store) Owners(ctx context.Context, after ss.Owner, n int) (all []ss.Owner, err error) {
	err = s.db.ForEach(ctx, sqlOwners, of(after, spannerdb.Params{"n": int64(n), "epoch": epoch}), func(r *spanner.Row) error {
		var o ss.Owner
		if err := r.Columns(&o.FxAUID, &o.FxAKID); err != nil {
			return err
		}
		all = append(all, o)
		return nil
	})
	return all, err
}

// SetQuota implements syncstorage.AdminStore.
func (s *Store) SetQuota(ctx context.Context, o ss.Owner, bytes ss.Optional[int64]) error {
	if err := ss.CheckOwnQuota(bytes); err != nil {
		return err
	}
	return s.write(ctx, kind{name: "sync.set_quota", reads: readUser}, o, ss.Write{}, func(st *writeState) error {
		w, columns, values := spanner.Update, []string{"quota"}, append(keyOf(o, ss.TombstoneID), number(bytes))
		if !st.rows[ss.TombstoneID].row {
			if !bytes.Set {
				return nil
			}
			w, columns, values = spanner.Insert, append(columns, "modified"), append(values, epoch)
		}
		st.change(w, "user_collections", userKey(), columns, values...)
		return nil
	})
}
