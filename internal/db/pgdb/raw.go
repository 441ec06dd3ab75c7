package pgdb

import (
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

	"holdfast/internal/db/rows"
)

// Dump uses COPY's binary format.
func (v *view) Dump(w io.Writer, t *rows.Table, owner int, span rows.Span) (int64, error) {
	sql := `COPY (SELECT ` + t.Names() + ` FROM ` + relation(t) + ` WHERE ` + whereLiteral(t, owner, span) + ` ORDER BY ` + t.KeyNames() +
		`) TO STDOUT (FORMAT binary)`
	tag, err := v.conn.PgConn().CopyTo(v.ctx, w, sql)
	return tag.RowsAffected(), err
}

func (u update) Load(r io.Reader, t *rows.Table) error { return u.copyFrom(t, r) }

// whereLiteral is like Table.Where, but with literals, because COPY has no parameters.
func whereLiteral(t *rows.Table, owner int, span rows.Span) string {
	where, args := t.Where(owner, span, parameter)
	return numbered.ReplaceAllStringFunc(where, func(p string) string {
		i, err := strconv.Atoi(p[1:])
		if err != nil {
			panic(err)
		}
		switch v := args[i-1].(type) {
		case int64:
			return `(` + strconv.FormatInt(v, 10) + `)`
		case string:
			return `E'` + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(v) + `'`
		default:
			panic(fmt.Sprintf("pgdb: an owner of type %T", v))
		}
	})
}

// Sum computes the hashes on the server, so rows are not sent to this process and, on Citus, not to the coordinator.
func (v *view) Sum(t *rows.Table, owner int, span rows.Span) (d rows.Digest, err error) {
	all := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = c.Name
		switch c.Kind {
		case rows.JSON, rows.RawJSON, rows.Map: // equal numbers may differ in digits; the other kinds are not hashed
			all[i] += `::text`
		case rows.Integer, rows.Text, rows.Bytes, rows.UUID, rows.Millis, rows.MillisUTC, rows.Micros,
			rows.Texts, rows.UUIDs, rows.Bool, rows.Date, rows.Real:
		}
	}
	where, args := t.Where(owner, span, parameter)
	var text string
	if err := v.tx.QueryRow(v.ctx, `SELECT count(*), coalesce(sum(hash_record_extended(ROW(`+strings.Join(all, ", ")+`), 0)), 0)::text FROM `+
		relation(t)+` WHERE `+where, args...).Scan(&d.Rows, &text); err != nil {
		return d, err
	}
	sum, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return d, fmt.Errorf("%s: a sum of hashes is not a whole number", t.Name)
	}
	const bits = 64
	d.Lo = new(big.Int).And(sum, new(big.Int).SetUint64(^uint64(0))).Uint64()
	d.Hi = uint64(sum.Rsh(sum, bits).Int64())
	return d, nil
}
