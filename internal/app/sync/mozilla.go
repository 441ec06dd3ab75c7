package sync

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sourcedb"
	"holdfast/internal/syncstorage"
)

// mozilla reads syncstorage-rs tables in MySQL, MariaDB or PostgreSQL.
type mozilla struct {
	db *sourcedb.DB
	// limits are this server's, to report records that browsers could not write again.
	limits syncstorage.Limits
	quota  syncstorage.Quota
	clock  clock.Clock

	// Table and column names, which differ between engines.
	records, user, coll, id, expiry, stamp, nameID string
	// batches are not imported, only reported.
	batches, batch, staged string
}

// openMozilla parses the URL and chooses the names of its engine. It does not connect.
func (s *Storage) openMozilla(url string, _ service.Server) (service.Source, error) {
	db, err := sourcedb.Open(url)
	if err != nil {
		return nil, err
	}
	m := &mozilla{
		db: db, limits: s.cfg.Limits, quota: s.cfg.Quota(), clock: s.deps.Clock,
		records: "bsos", user: "user_id", coll: "collection_id", id: "bso_id", expiry: "expiry", stamp: "modified", nameID: "collection_id",
		batches: "batches", batch: "batch_id", staged: "batch_bsos",
	}
	if db.MySQL {
		m.records, m.user, m.coll, m.id, m.expiry, m.stamp, m.nameID = "bso", "userid", "collection", "id", "ttl", "last_modified", "id"
		m.batches, m.batch, m.staged = "batch_uploads", "batch", "batch_upload_items"
	}
	return m, nil
}

func (m *mozilla) Where() string { return m.db.Where }

// Check requires all tables and columns that are read, so that another schema is refused before anything is written.
func (m *mozilla) Check(ctx context.Context) error {
	return m.db.Snapshot(ctx, func(s *sourcedb.Snapshot) error {
		return cmp.Or(
			s.Check("collections", m.nameID, "name"),
			s.Check("user_collections", m.user, m.coll, m.stamp),
			s.Check(m.records, m.user, m.coll, m.id, "sortindex", "payload", "modified", m.expiry),
			s.Check(m.batches, m.user, m.coll, m.batch),
			s.Check(m.staged, m.user, m.batch),
		)
	})
}

// Advice returns nothing: the advice comes from the accounts' import, which is part of this import.
func (m *mozilla) Advice(context.Context) ([]string, error) { return nil, nil }

// View connects, and ends the snapshot when fn returns.
func (m *mozilla) View(ctx context.Context, fn func(rows.View) error) error {
	return m.snapshot(ctx, func(v *mozillaView) error { return fn(v) })
}

// snapshot reads the collections' names first, because every other row refers to them.
func (m *mozilla) snapshot(ctx context.Context, fn func(*mozillaView) error) error {
	return m.db.Snapshot(ctx, func(s *sourcedb.Snapshot) (err error) {
		v := &mozillaView{mozilla: m, s: s}
		if v.names, v.unnamed, err = v.readNames(); err != nil {
			return err
		}
		if v.rawPayload, err = s.Raw(m.records, "payload"); err != nil {
			return err
		}
		return fn(v)
	})
}

// millis returns an expression that reads a time column in Unix milliseconds. PostgreSQL's infinity becomes the
// greatest number, and -infinity the smallest; both are out of range for modification times, and expiryOf accepts both.
func (m *mozilla) millis(column string) string {
	if m.db.MySQL {
		return column // already in milliseconds
	}
	return `CASE WHEN isfinite(` + column + `) THEN floor(extract(epoch FROM ` + column + `) * 1000)::bigint
		WHEN ` + column + ` > 'epoch' THEN 9223372036854775807 ELSE -9223372036854775808 END`
}

// mozillaView is a snapshot without the rows that cannot be imported.
type mozillaView struct {
	rows.View // nil: only needed for change logs
	*mozilla
	s *sourcedb.Snapshot
	// names are the valid collection names by ID.
	names map[int64]string
	// unnamed are the rows of collections that are skipped. Their records are skipped, too.
	unnamed    []service.Problem
	rawPayload bool // payloads may not be UTF-8
}

// placeholder is the ID of a row in collections that reserves the IDs below it. Its name is empty.
const placeholder = 100

// readNames returns the valid names by ID, and a problem for every other row. If a name occurs twice, the lower ID
// counts.
func (v *mozillaView) readNames() (names map[int64]string, problems []service.Problem, err error) {
	names, used := map[int64]string{}, map[string]bool{}
	err = v.s.Each(`SELECT `+v.db.Integer(v.nameID)+`, `+v.db.Bytes("name")+` FROM collections ORDER BY 1`, func(row []any) error {
		id, name := number(row[0]), text(row[1])
		switch {
		case name == "" && id == placeholder:
		case id <= 0 || id > math.MaxInt32 || !syncstorage.ValidCollection(name) || used[name]:
			problems = append(problems, service.Problem{Left: true, What: "collections with an invalid name, with their records", Row: fmt.Sprintf("collection %d, %q", id, name)})
		default:
			names[id], used[name] = name, true
		}
		return nil
	})
	return names, problems, err
}

// number returns an integer. For NULL and other types, it returns an integer that is never valid.
func number(v any) int64 {
	if n, ok := v.(int64); ok {
		return n
	}
	return math.MinInt64
}

// text returns a text that was selected with DB.Bytes; NULL becomes "".
func text(v any) string {
	b, _ := v.([]byte)
	return string(b)
}

// Each passes only rows that can be imported. Each table reads user_collections and the records together, so all of
// them skip the same rows.
func (v *mozillaView) Each(t *rows.Table, _ int, span rows.Span, each func(rows.Packed) error) error {
	fn := rows.Packing(each)
	switch t.Name {
	case "collections":
		return v.eachName(fn)
	case "user_collections":
		return v.eachCollection(span, fn)
	case "bsos":
		return v.eachRecord(span, fn)
	}
	return nil // open batches are omitted
}

// Stamps relies on Mozilla's server: every write changes the collection's time or deletes its row. The cleanup of
// expired records changes their number.
func (v *mozillaView) Stamps(g *rows.Group) (stamps map[string]rows.Digest, ok bool, err error) {
	if g.Owner == 0 {
		return nil, false, nil
	}
	users := map[int64]*rows.Digest{}
	stamp := func(user int64, values ...any) {
		if users[user] == nil {
			users[user] = &rows.Digest{}
		}
		users[user].Add(rows.Row(values).Pack(nil))
	}
	err = v.s.Each(`SELECT `+v.user+`, `+v.db.Integer(v.coll)+`, `+v.millis(v.stamp)+` FROM user_collections`, func(row []any) error {
		stamp(number(row[0]), row[1], row[2])
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	err = v.s.Each(`SELECT `+v.user+`, count(*) FROM `+v.records+` GROUP BY `+v.user, func(row []any) error {
		stamp(number(row[0]), row[1])
		return nil
	})
	stamps = make(map[string]rows.Digest, len(users))
	for user, d := range users {
		stamps[rows.Row{user}.Text()] = *d
	}
	return stamps, true, err
}

// Count includes rows that are skipped, because it only scales a progress bar.
func (v *mozillaView) Count(t *rows.Table, _ int64) (int64, error) {
	switch t.Name {
	case "collections":
		return int64(len(v.names)), nil
	case "user_collections":
		return v.s.Int(`SELECT count(*) FROM user_collections`)
	case "bsos":
		return v.s.Int(`SELECT count(*) FROM ` + v.records)
	}
	return 0, nil
}

// NthOwner returns nil for tables without users, and for those that are imported empty.
func (v *mozillaView) NthOwner(t *rows.Table, _ int, after rows.Row, n int) (bound rows.Row, err error) {
	from := map[string]string{"user_collections": "user_collections", "bsos": v.records}[t.Name]
	if from == "" {
		return nil, nil
	}
	return bound, v.s.Each(`SELECT `+v.user+` FROM `+from+sourcedb.Where(v.user, rows.Span{After: after})+` ORDER BY `+v.user+` LIMIT 1 OFFSET `+strconv.Itoa(n),
		func(row []any) error { bound = rows.Row{row[0]}; return nil })
}

// Last keeps IDs below syncstorage.FirstCustomID free for standard collections.
func (v *mozillaView) Last(*rows.Table) (int64, error) {
	n, err := v.s.Last("collections", v.nameID)
	return max(n, syncstorage.FirstCustomID-1), err
}

// eachName includes standard collections missing on the other server.
func (v *mozillaView) eachName(fn func(rows.Row) error) error {
	all, used := map[int64]string{}, map[string]bool{}
	var last int64
	for id, name := range v.names {
		all[id], used[name], last = name, true, max(last, id)
	}
	for _, c := range syncstorage.StandardCollections() {
		if id := int64(c.ID); all[id] == "" && !used[c.Name] {
			all[id], last = c.Name, max(last, id)
		}
	}
	for id := int64(1); id <= last; id++ {
		if all[id] == "" {
			continue
		}
		if err := fn(rows.Row{id, all[id]}); err != nil {
			return err
		}
	}
	return nil
}

// Times in milliseconds. Mozilla's server stores "no expiry" as 2,100,000,000 s after the write or, by column default,
// as never. Clients can set at most 999,999,999 s, so times after latestExpiry mean never. Its predecessor stored
// seconds, which fall in the first weeks of 1970 when read as milliseconds.
const (
	latestExpiry   = 3_400_000_000_000 // in 2077
	never          = 3_153_600_000_000
	neverInSeconds = 2_100_000_000
	leastMillis    = 100_000_000_000
)

// expiryOf converts a stored expiry; nil means never. A negative time, e.g. from -infinity, becomes 0: the record has
// expired.
func expiryOf(stored int64) any {
	switch {
	case stored == never, stored >= latestExpiry, stored == neverInSeconds:
		return nil
	case stored < 0:
		return int64(0)
	case stored < leastMillis:
		return stored * 1000
	}
	return stored
}

// tick rounds down to the protocol's resolution, so that clients see the same digits as before.
func tick(millis int64) int64 { return millis - millis%syncstorage.Tick }

// isTime reports whether a modification time can be stored.
func isTime(millis int64) bool { return millis >= 0 && millis <= int64(syncstorage.MaxTimestamp) }

// maxPayload is the largest imported payload: a MEDIUMTEXT.
const maxPayload = 1<<24 - 1

// record is a row that is checked for import. user and coll are IDs; modified, and stamp, the collection's time, are in
// milliseconds; length is the payload's in bytes.
type record struct {
	user, coll, modified, length, stamp int64
	// listed says that user_collections has a row for the collection.
	listed bool
	id     string
	// payload is nil if only the length was read, if it is NULL, or if it is too large.
	payload []byte
}

// defect returns why a record cannot be imported, in the plural for service.Problem, or "" if it can.
func (v *mozillaView) defect(r *record) string {
	switch {
	case !v.listed(r.user, r.coll, r.stamp) || !r.listed:
		return "records without a valid row in user_collections for their collection"
	case !syncstorage.ValidID(r.id):
		return "records whose ID is not 1 to 64 printable ASCII characters"
	case !isTime(r.modified):
		return "records with an invalid modification time"
	case r.length > maxPayload:
		return "records with a payload of 16 MiB or more"
	case v.rawPayload && !utf8.Valid(r.payload):
		return "records whose payload is not UTF-8"
	}
	return ""
}

// listed rejects collections without a time, which Mozilla's server hides.
func (v *mozillaView) listed(user, coll, stamp int64) bool {
	return user > 0 && v.names[coll] != "" && isTime(stamp) && tick(stamp) > 0
}

// payload returns an expression that reads a payload, but NULL instead of one that is too large, so that it does not
// fill the memory.
func (v *mozillaView) payload() string {
	return `CASE WHEN ` + v.db.Length("b.payload", v.rawPayload) + ` <= ` + strconv.Itoa(maxPayload) + ` THEN ` + v.db.Bytes("b.payload") + ` END`
}

// eachStamped skips users with only hidden collections.
func eachStamped(all []rows.Row, fn func(rows.Row) error) error {
	for _, row := range all {
		if row[2].(int64) > 0 {
			if err := fn(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachCollection counts each collection's records. A row 0 with the user's last time comes first.
func (v *mozillaView) eachCollection(span rows.Span, fn func(rows.Row) error) error {
	payload := "NULL"
	if v.rawPayload {
		payload = v.payload()
	}
	sql := `SELECT u.` + v.user + `, ` + v.db.Integer("u."+v.coll) + `, ` + v.millis("u."+v.stamp) + `, ` + v.db.Bytes("b."+v.id) + `, ` + v.millis("b.modified") + `,
			` + v.db.Length("b.payload", v.rawPayload) + `, ` + payload + `
		FROM user_collections u LEFT JOIN ` + v.records + ` b ON b.` + v.user + ` = u.` + v.user + ` AND b.` + v.coll + ` = u.` + v.coll +
		sourcedb.Where("u."+v.user, span) + ` ORDER BY u.` + v.user + `, u.` + v.coll
	var all []rows.Row
	flush := func() error {
		err := eachStamped(all, fn)
		all = all[:0]
		return err
	}
	err := v.s.Each(sql, func(row []any) error {
		user, coll, stamp := number(row[0]), number(row[1]), number(row[2])
		if len(all) > 0 && all[0][0] != user {
			if err := flush(); err != nil {
				return err
			}
		}
		if user <= 0 {
			return nil
		}
		if len(all) == 0 {
			all = append(all, rows.Row{user, int64(syncstorage.TombstoneID), int64(0), int64(0), int64(0), nil})
		}
		if isTime(stamp) {
			all[0][2] = max(all[0][2].(int64), tick(stamp))
		}
		if !v.listed(user, coll, stamp) {
			return nil
		}
		last := all[len(all)-1]
		if last[1] != coll {
			last = rows.Row{user, coll, tick(stamp), int64(0), int64(0), nil}
			all = append(all, last)
		}
		if row[3] == nil {
			return nil // collection without records
		}
		r := record{user: user, coll: coll, stamp: stamp, listed: true, id: text(row[3]), modified: number(row[4]), length: length(row[5])}
		r.payload, _ = row[6].([]byte)
		if v.defect(&r) == "" {
			last[3], last[4] = last[3].(int64)+1, last[4].(int64)+r.length
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// length returns the payload's length; NULL is stored as an empty payload.
func length(v any) int64 {
	n, _ := v.(int64)
	return n
}

// scan calls fn for each record in a span, ordered by user and collection, also for records with a defect. Payloads are
// read if payloads is set, or if they must be checked for UTF-8. expiry is as stored, or never.
func (v *mozillaView) scan(span rows.Span, payloads bool, fn func(r *record, sortindex any, expiry int64) error) error {
	payload := "NULL"
	if payloads || v.rawPayload {
		payload = v.payload()
	}
	sql := `SELECT b.` + v.user + `, ` + v.db.Integer("b."+v.coll) + `, ` + v.db.Bytes("b."+v.id) + `, ` + v.db.Integer("b.sortindex") + `, ` + v.millis("b.modified") + `,
			` + v.millis("b."+v.expiry) + `, ` + v.db.Length("b.payload", v.rawPayload) + `, ` + payload + `, ` + v.millis("u."+v.stamp) + `
		FROM ` + v.records + ` b LEFT JOIN user_collections u ON u.` + v.user + ` = b.` + v.user + ` AND u.` + v.coll + ` = b.` + v.coll +
		sourcedb.Where("b."+v.user, span) + ` ORDER BY b.` + v.user + `, b.` + v.coll
	return v.s.Each(sql, func(row []any) error {
		r := record{user: number(row[0]), coll: number(row[1]), id: text(row[2]), modified: number(row[4]), length: length(row[6])}
		r.payload, _ = row[7].([]byte)
		r.stamp, r.listed = row[8].(int64)
		expiry, known := row[5].(int64)
		if !known {
			expiry = never
		}
		return fn(&r, row[3], expiry)
	})
}

// eachRecord converts the records that can be imported to rows of bsos.
func (v *mozillaView) eachRecord(span rows.Span, fn func(rows.Row) error) error {
	return v.scan(span, true, func(r *record, sortindex any, expiry int64) error {
		if v.defect(r) != "" {
			return nil
		}
		payload := r.payload
		if payload == nil {
			payload = []byte{} // NULL, which the tables do not allow
		}
		if n, ok := sortindex.(int64); ok {
			sortindex = sortindexOf(n)
		}
		return fn(rows.Row{r.user, r.coll, r.id, sortindex, tick(r.modified), expiryOf(expiry), payload})
	})
}
