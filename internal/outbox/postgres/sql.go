package postgres

import (
	"strconv"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/outbox"
)

// Outbox holds a table's statements; see New.
type Outbox struct {
	ddl     string
	byTopic bool

	backlog, countDeadOf           pgdb.Statement
	next, nextOnCitus, nextOfOwner pgdb.Statement
	done, doneStream               pgdb.Statement
	claim, release                 pgdb.Statement

	attempts, remove, refuse                pgdb.Statement
	countDead, listDead, takeDead, putEvent pgdb.Statement
}

// New returns the statements for a table. Make it once, as a package variable.
func New(t outbox.Table) *Outbox {
	id := t.Owner + `, ` + t.Stream + `, seq`
	event := id + `, topic, key, payload, created_at`
	values := `($1::` + t.Type + `, $2::` + t.Type + `, $3::bigint, $4::text, $5::text, $6::text::json, $7::timestamptz`
	byID := ` WHERE ` + t.Owner + ` = $1::` + t.Type + ` AND ` + t.Stream + ` = $2::` + t.Type + ` AND seq = $3::bigint`
	read := `e.` + t.Owner + `::text, e.` + t.Stream + `::text, e.seq, e.topic, e.key, e.payload::text, e.created_at`
	inOrder := ` ORDER BY e.part, e.` + t.Owner + `, e.` + t.Stream + `, e.seq`
	columns := `e.` + t.Owner + `, e.` + t.Stream + `, e.seq, e.topic, e.key, e.payload, e.created_at, e.part`
	topics := topicSQL(t)
	ready := ` AND NOT EXISTS (SELECT 1 FROM ` + t.Name + `_refused r
				WHERE r.` + t.Owner + ` = e.` + t.Owner + ` AND r.` + t.Stream + ` = e.` + t.Stream + ` AND r.seq <= e.seq AND r.next_at > $3::timestamptz)`
	return &Outbox{
		byTopic: t.ByTopic, ddl: ddl(t, id),
		backlog: pgdb.Statement{Name: "outbox.backlog", Wide: true, SQL: `
			SELECT count(*), min(created_at) FROM (SELECT created_at FROM ` + t.Name + ` WHERE topic = $1::text LIMIT ` + strconv.Itoa(outbox.MaxBacklog) + `) e`},
		countDeadOf: pgdb.Statement{Name: "outbox.count_dead", Wide: true, SQL: `
			SELECT count(*) FROM (SELECT 1 FROM ` + t.Name + `_refused WHERE next_at IS NULL AND topic = $1::text LIMIT ` + strconv.Itoa(outbox.MaxDead) + `) e`},
		next: pgdb.Statement{Name: "outbox.next", Wide: true, SQL: `
			SELECT ` + read + `, e.part FROM unnest($1::smallint[]) p (part), LATERAL (
				SELECT ` + columns + ` FROM ` + t.Name + ` e WHERE e.part = p.part` + topics.next + ready + inOrder + ` LIMIT $2::bigint) e`},
		// Each shard sorts its rows, because PostgreSQL before 17 cannot read an index in order for several values of
		// its first column.
		nextOnCitus: pgdb.Statement{Name: "outbox.next_citus", Wide: true, SQL: `
			SELECT ` + read + `, e.part FROM ` + t.Name + ` e WHERE e.part = ANY ($1::smallint[])` + topics.next + ready + inOrder + ` LIMIT $2::bigint`},
		nextOfOwner: pgdb.Statement{Name: "outbox.next_owner", Key: 4, SQL: `
			SELECT ` + read + `, e.part FROM ` + t.Name + ` e
			WHERE e.` + t.Owner + ` = $4::` + t.Type + ` AND e.part = ANY ($1::smallint[])` + topics.nextOfOwner + ready + inOrder + ` LIMIT $2::bigint`},
		// OFFSET prevents a join, which would read the whole table of a long backlog. The same statement releases the
		// leases.
		done: pgdb.Statement{Name: "outbox.done", Wide: true, SQL: `
			WITH released AS (UPDATE ` + t.Name + `_relay SET held_until = '-infinity' WHERE holder = $5::text AND part = ANY ($6::smallint[])` + topics.done + `)
			DELETE FROM ` + t.Name + ` WHERE ctid = ANY (ARRAY(
				SELECT e.ctid FROM unnest($1::text[], $2::text[], $3::bigint[], $4::smallint[]) p (owner, stream, seq, part), LATERAL (
					SELECT ctid FROM ` + t.Name + ` WHERE part = p.part AND ` + t.Owner + ` = p.owner::` + t.Type + ` AND ` + t.Stream + ` = p.stream::` + t.Type + `
					AND ` + t.Name + `.seq = p.seq OFFSET 0) e))`},
		doneStream: pgdb.Statement{Name: "outbox.done_stream", Key: 1, SQL: `
			DELETE FROM ` + t.Name + ` WHERE ` + t.Owner + ` = $1::` + t.Type + ` AND ` + t.Stream + ` = $2::` + t.Type + ` AND seq = ANY ($3::bigint[])
			AND part = $4::smallint`},
		// Use the database server's clock. If a lease ends later than a new lease would, it was granted before the clock
		// was set back. A claim that waited for a lock checks the new row at the new time. The order prevents deadlocks.
		claim: pgdb.Statement{Name: "outbox.claim", SQL: topics.claim},
		release: pgdb.Statement{Name: "outbox.release", SQL: `
			UPDATE ` + t.Name + `_relay SET held_until = '-infinity' WHERE holder = $1::text AND part = ANY ($2::smallint[])` + topics.release},

		attempts: pgdb.Statement{Name: "outbox.attempts", Key: 1, SQL: `SELECT attempts FROM ` + t.Name + `_refused` + byID},
		remove:   pgdb.Statement{Name: "outbox.remove", Key: 1, SQL: `DELETE FROM ` + t.Name + byID + ` AND part = $4::smallint`},
		refuse: pgdb.Statement{Name: "outbox.refuse", Key: 1, SQL: `
			INSERT INTO ` + t.Name + `_refused (` + event + `, attempts, reason, refused_at, next_at)
			VALUES ` + values + `, $8::integer, $9::text, $10::timestamptz, $11::timestamptz)
			ON CONFLICT (` + id + `) DO UPDATE SET attempts = EXCLUDED.attempts, reason = EXCLUDED.reason,
				refused_at = EXCLUDED.refused_at, next_at = EXCLUDED.next_at`},
		countDead: pgdb.Statement{Name: "outbox.count_dead", Wide: true, SQL: `SELECT count(*) FROM (SELECT 1 FROM ` + t.Name + `_refused WHERE next_at IS NULL LIMIT ` + strconv.Itoa(outbox.MaxDead) + `) e`},
		listDead: pgdb.Statement{Name: "outbox.list_dead", Wide: true, SQL: `
			SELECT ` + read + `, e.attempts, e.reason, e.refused_at FROM ` + t.Name + `_refused e
			WHERE e.next_at IS NULL AND (NOT $1::boolean OR (e.` + t.Owner + `, e.` + t.Stream + `, e.seq) > ($2::text::` + t.Type + `, $3::text::` + t.Type + `, $4::bigint))
			ORDER BY e.` + t.Owner + `, e.` + t.Stream + `, e.seq LIMIT $5::bigint`},
		takeDead: pgdb.Statement{Name: "outbox.take_dead", Key: 1, SQL: `
			DELETE FROM ` + t.Name + `_refused e` + byID + ` AND next_at IS NULL RETURNING topic, key, payload::text, created_at`},
		putEvent: pgdb.Statement{Name: "outbox.put", Key: 1, SQL: `INSERT INTO ` + t.Name + ` (` + event + `) VALUES ` + values + `)`},
	}
}

// byTopic are the parts of statements that depend on Table.ByTopic.
type byTopic struct{ next, nextOfOwner, done, release, claim string }

func topicSQL(t outbox.Table) byTopic {
	const until = `clock_timestamp() + $2::bigint * interval '1 microsecond'`
	if t.ByTopic {
		return byTopic{` AND e.topic = $4::text`, ` AND e.topic = $5::text`, ` AND topic = $7::text`, ` AND topic = $3::text`, `
			INSERT INTO ` + t.Name + `_relay AS r (topic, part, holder, held_until)
			SELECT $4::text, p, $1::text, ` + until + ` FROM unnest($3::smallint[]) p ORDER BY p
			ON CONFLICT (topic, part) DO UPDATE SET holder = EXCLUDED.holder, held_until = ` + until + `
				WHERE r.holder = EXCLUDED.holder OR r.held_until <= clock_timestamp() OR r.held_until > ` + until + `
			RETURNING r.part`}
	}
	return byTopic{claim: `
			UPDATE ` + t.Name + `_relay r SET holder = $1::text, held_until = ` + until + `
			FROM (SELECT part FROM ` + t.Name + `_relay
				WHERE part = ANY ($3::smallint[]) AND (holder = $1::text OR held_until <= clock_timestamp() OR held_until > ` + until + `)
				ORDER BY part FOR UPDATE) free
			WHERE r.part = free.part RETURNING r.part`}
}

func ddl(t outbox.Table, id string) string {
	column := t.Type
	if column == "text" {
		column = `text COLLATE "C"`
	}
	columns := `
	` + t.Owner + ` ` + column + ` NOT NULL,
	` + t.Stream + ` ` + column + ` NOT NULL,
	seq bigint NOT NULL CHECK (seq > 0),
	topic text NOT NULL,
	key text NOT NULL,
	payload json NOT NULL,
	created_at timestamptz NOT NULL,
`
	leases := `	part smallint PRIMARY KEY,
	holder text NOT NULL,
	held_until timestamptz NOT NULL
);
INSERT INTO ` + t.Name + `_relay SELECT n, '', '-infinity' FROM generate_series(0, ` + strconv.Itoa(outbox.Leases-1) + `) n;
`
	if t.ByTopic {
		leases = `	topic text COLLATE "C" NOT NULL,
	part smallint NOT NULL,
	holder text NOT NULL,
	held_until timestamptz NOT NULL,
	PRIMARY KEY (topic, part)
);
CREATE INDEX ` + t.Name + `_topic_idx ON ` + t.Name + ` (topic, part, ` + id + `);
`
	}
	return `CREATE TABLE ` + t.Name + ` (` + columns + `	part smallint NOT NULL GENERATED ALWAYS AS ((` + digit(t.Owner) + ` + ` + digit(t.Stream) + `) % ` +
		strconv.Itoa(outbox.Partitions) + `) STORED,
	PRIMARY KEY (part, ` + id + `)
);

-- Events that the sink has refused. An event and its successors wait until next_at.
-- An event whose next_at is NULL was set aside, and exists only here.
CREATE TABLE ` + t.Name + `_refused (` + columns + `	attempts integer NOT NULL,
	reason text NOT NULL,
	refused_at timestamptz NOT NULL,
	next_at timestamptz,
	PRIMARY KEY (` + id + `)
);

-- A lease for each partition, and one for polling.
CREATE TABLE ` + t.Name + `_relay (
` + leases + `
-- Keeps the relay from reading events that were set aside.
CREATE INDEX ` + t.Name + `_refused_next_idx ON ` + t.Name + `_refused (` + id + `) WHERE next_at IS NOT NULL;
`
}

// digit is outbox.Partition's digit in SQL.
func digit(column string) string {
	last := `ascii(right(` + column + `::text, 1))`
	return `(` + last + ` & 15) + 9 * (` + last + ` >> 6)`
}
