package tokenserver

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/internal/app/service"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sourcedb"
	"holdfast/internal/tokenserver"
)

// mozilla reads Mozilla's tokenserver tables, which use the same columns in MySQL, MariaDB and PostgreSQL.
type mozilla struct {
	db *sourcedb.DB
	// domain is tokenserver.fxa_email_domain, which ends the emails of users that can sign in here.
	domain string
	public string // this server's URL; may be ""
}

// openMozilla parses the URL of a tokenserver-rs or syncserver-py database. It does not connect.
func (s *Accounts) openMozilla(url string, server service.Server) (service.Source, error) {
	db, err := sourcedb.Open(url)
	if err != nil {
		return nil, err
	}
	return &mozilla{db: db, domain: s.cfg.FxAEmailDomain, public: server.PublicURL}, nil
}

func (m *mozilla) Where() string { return m.db.Where }

// Check requires all columns that are imported, so that an older schema is refused before anything is written.
func (m *mozilla) Check(ctx context.Context) error {
	return m.db.Snapshot(ctx, func(s *sourcedb.Snapshot) error {
		for _, g := range tables {
			for _, t := range g.Tables {
				if !isMozillas(t) {
					continue
				}
				var columns []string
				for _, c := range t.Columns {
					columns = append(columns, c.Name)
				}
				if err := s.Check(t.Name, columns...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// View connects, and ends the snapshot when fn returns.
func (m *mozilla) View(ctx context.Context, fn func(rows.View) error) error {
	return m.db.Snapshot(ctx, func(s *sourcedb.Snapshot) error { return fn(&mozillaView{mozilla: m, s: s}) })
}

// mozillaView is a snapshot without the rows that cannot be imported.
type mozillaView struct {
	rows.View // nil: only needed for change logs
	*mozilla
	s *sourcedb.Snapshot
}

// isMozillas reports whether the other database has the table; our other tables are imported empty.
func isMozillas(t *rows.Table) bool {
	return t.Name == "services" || t.Name == "nodes" || t.Name == "users"
}

// Each skips rows with a defect, and adds the service row that Holdfast needs if the other database lacks it.
func (v *mozillaView) Each(t *rows.Table, _ int, span rows.Span, each func(rows.Packed) error) error {
	if !isMozillas(t) {
		return nil
	}
	fn := rows.Packing(each)
	named, last := false, int64(0)
	err := v.each(t, span, func(row rows.Row) error {
		if defect(t, row) != "" {
			return nil
		}
		named, last = named || row[1] == tokenserver.ServiceName, row[0].(int64)
		return fn(row)
	})
	if err == nil && t.Name == "services" && !named {
		return fn(rows.Row{last + 1, tokenserver.ServiceName, "{node}/1.5/{uid}"})
	}
	return err
}

// each reads all rows of a span, ordered by the first column, with texts as strings.
func (v *mozillaView) each(t *rows.Table, span rows.Span, fn func(rows.Row) error) error {
	columns := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		if columns[i] = v.db.Integer(c.Name); c.Kind == rows.Text {
			columns[i] = v.db.Bytes(c.Name)
		}
	}
	sql := `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + t.Name + sourcedb.Where(t.Columns[0].Name, span) + ` ORDER BY ` + t.Columns[0].Name
	return v.s.Each(sql, func(row []any) error {
		for i, value := range row {
			if b, ok := value.([]byte); ok {
				row[i] = string(b)
			}
		}
		return fn(row)
	})
}

// colNodeURL is a column of nodes; the following columns are numbers and states.
const colNodeURL = 2

// isClientState reports whether a browser can send the state, which is the hash of its keys in hex; "" means that it
// never sent any.
func isClientState(v any) bool {
	s, _ := v.(string)
	raw, err := hex.DecodeString(s)
	return err == nil && hex.EncodeToString(raw) == s
}

// Columns of users.
const (
	colEmail = 2 + iota
	colGeneration
	colClientState
	colCreatedAt
	colReplacedAt
	colNode
)

// lengths are the columns' maximum lengths in Mozilla's MySQL schema, in characters. PostgreSQL has no such limit.
var lengths = map[string]int{"service": 30, "pattern": 128, "node": 64, "email": 255, "client_state": 32}

// optionalColumns may be NULL in Holdfast's tables.
var optionalColumns = map[string]bool{"services.service": true, "services.pattern": true, "users.replaced_at": true, "users.keys_changed_at": true}

// defect returns why a row cannot be imported, in the plural for service.Problem, or "" if it can. Row IDs must be
// below the greatest number, because the next ID follows them.
func defect(t *rows.Table, row rows.Row) string {
	if id, _ := row[0].(int64); id <= 0 || id == math.MaxInt64 {
		return t.Name + " without a positive ID"
	}
	for i, c := range t.Columns {
		if s, isText := row[i].(string); isText && (!utf8.ValidString(s) || strings.ContainsRune(s, 0) || utf8.RuneCountInString(s) > lengths[c.Name]) {
			return fmt.Sprintf("%s whose %s is not a text with at most %d characters", t.Name, c.Name, lengths[c.Name])
		}
		if row[i] == nil && !optionalColumns[t.Name+"."+c.Name] {
			return t.Name + " without " + c.Name
		}
	}
	if t.Name == "users" && row[colGeneration].(int64) < 0 {
		return "users with a negative generation"
	}
	return ""
}

// Count includes rows with a defect, because it only scales a progress bar.
func (v *mozillaView) Count(t *rows.Table, _ int64) (int64, error) {
	if !isMozillas(t) {
		return 0, nil
	}
	return v.s.Int(`SELECT count(*) FROM ` + t.Name)
}

// NthOwner divides users into parts; other tables have no owner.
func (v *mozillaView) NthOwner(t *rows.Table, _ int, after rows.Row, n int) (bound rows.Row, err error) {
	if t.Name != "users" {
		return nil, nil
	}
	return bound, v.s.Each(`SELECT uid FROM users`+sourcedb.Where("uid", rows.Span{After: after})+` ORDER BY uid LIMIT 1 OFFSET `+strconv.Itoa(n), func(row []any) error {
		bound = rows.Row{row[0]}
		return nil
	})
}

func (v *mozillaView) Last(t *rows.Table) (int64, error) { return v.s.Last(t.Name, t.Columns[0].Name) }

// table returns the table with this name in tables, or nil.
func table(name string) *rows.Table {
	for _, g := range tables {
		for _, t := range g.Tables {
			if t.Name == name {
				return t
			}
		}
	}
	return nil
}

// nodes returns the URLs of importable nodes by ID. The key is an int64.
func (v *mozillaView) nodes() (nodes map[any]string, err error) {
	nodes = map[any]string{}
	t := table("nodes")
	return nodes, v.each(t, rows.All, func(row rows.Row) error {
		if defect(t, row) == "" {
			nodes[row[0]], _ = row[2].(string)
		}
		return nil
	})
}

// Problems reports rows that are left out, and users whose import has a consequence for them.
func (m *mozilla) Problems(ctx context.Context, report func(service.Problem)) error {
	return m.db.Snapshot(ctx, func(s *sourcedb.Snapshot) error {
		v := &mozillaView{mozilla: m, s: s}
		nodes, err := v.nodes()
		if err != nil {
			return err
		}
		for _, name := range []string{"services", "nodes", "users"} {
			t := table(name)
			if err := v.each(t, rows.All, func(row rows.Row) error {
				p := service.Problem{What: defect(t, row), Row: fmt.Sprintf("%s %d", strings.TrimSuffix(name, "s"), row[0])}
				p.Left = p.What != ""
				switch {
				case p.Left:
				case name == "users":
					p.What, p.Fix = m.notice(row, nodes)
					p.Usual = row[colReplacedAt] != nil
				case name == "nodes":
					p.What, p.Fix = nodeNotice(row)
				}
				if p.What != "" {
					report(p)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// nodeNotice names nodes that an operator could not add. They are imported, because without its node a user would get a
// new user ID and upload everything again.
func nodeNotice(row rows.Row) (what, fix string) {
	url, _ := row[colNodeURL].(string)
	if stored, err := tokenserver.CheckNodeURL(url); err != nil || stored != url {
		return "nodes whose URL is not an http or https URL without a path of a protocol, a query and a slash at its end",
			"correct the URL in the old server's table nodes, and import into empty databases again"
	}
	for _, n := range row[colNodeURL+1:] {
		if n, ok := n.(int64); ok && n < 0 {
			return "nodes with a negative number of accounts or a negative state", "correct the row in the old server's table nodes, and import into empty databases again"
		}
	}
	return "", ""
}

// notice returns the consequence for an imported user whose browsers will not find their data, with a remedy. Both are ""
// for a user without such a consequence.
func (m *mozilla) notice(row rows.Row, nodes map[any]string) (what, fix string) {
	email, _ := row[colEmail].(string)
	switch id, found := strings.CutSuffix(email, "@"+m.domain); {
	case row[colReplacedAt] != nil:
		return "replaced users, whose storage is deleted after tokenserver.replaced_user_grace", ""
	case !found:
		return "users whose domain is not tokenserver.fxa_email_domain, who get a new user ID and upload again",
			"if they should keep their data, set tokenserver.fxa_email_domain to the domain of the old server before you start this server"
	case !tokenserver.IsAccountID(id):
		return "users whose email is not an account ID at tokenserver.fxa_email_domain", ""
	case !isClientState(row[colClientState]):
		return "users whose client_state is not that of a browser's keys, who get a new user ID and upload again", ""
	case nodes[row[colNode]] == "":
		return "users with an unknown node, who get a new user ID and upload again", ""
	}
	return "", ""
}

// Advice compares each node's URL with server.public_url: browsers keep the URL from their last sign-in, so it must
// lead to this server.
func (m *mozilla) Advice(ctx context.Context) (all []string, err error) {
	err = m.db.Snapshot(ctx, func(s *sourcedb.Snapshot) error {
		return s.Each(`SELECT `+m.db.Bytes("n.node")+`, count(u.uid) FROM nodes n JOIN users u ON u.nodeid = n.id AND u.replaced_at IS NULL
			GROUP BY n.id, n.node ORDER BY n.id`, func(row []any) error {
			b, _ := row[0].([]byte)
			node, users := string(b), service.Count(row[1].(int64), "account")
			switch m.public {
			case node:
				all = append(all, fmt.Sprintf("Browsers for %s use %s, which is server.public_url.", users, node))
			case "":
				all = append(all, fmt.Sprintf("Browsers for %s use %s. It must lead to this server: set server.public_url = %q", users, node, node))
			default:
				all = append(all, fmt.Sprintf("Browsers for %s use %s, which is not server.public_url, %s.", users, node, m.public))
			}
			return nil
		})
	})
	return all, err
}
