package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/telemetry"
)

const (
	sqlLogBotScore = `INSERT INTO bff_consumer_bot_score_log
		(id, guest_session_id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlBotScores = `SELECT score FROM bff_consumer_bot_score_log
		WHERE fingerprint_hash = ? AND ip_hash = ? AND evaluated_at >= ? ORDER BY evaluated_at DESC LIMIT ?`
)

// LogBotScore implements bots.Store.
func (s *Store) LogBotScore(ctx context.Context, score bots.Evaluation, key string, e *guest.Event, trace guest.Trace) error {
	signals, err := bots.EncodeSignals(score.Signals)
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, "log_bot_score", func(c *sqlite.Conn) error {
		now := s.time()
		err := sqlitedb.Exec(c, sqlLogBotScore, string(score.ID), orNull(string(score.Session)), score.Fingerprint, score.IP, score.UserAgent,
			score.Score, string(score.Verdict), signals, string(score.Action), now.UnixMicro())
		if err != nil || e == nil {
			return err
		}
		event := telemetry.SessionEvent{Session: guest.ID(key), Trace: trace, Event: *e}
		event.At = now
		return appendEvent(c, sqlAppend, &event)
	})
	if err == nil && e != nil {
		s.waker.Wake(key, "")
	}
	return err
}

// BotScores implements bots.Store.
func (s *Store) BotScores(ctx context.Context, fingerprint, ip []byte, since time.Time, limit int) (all []float64, err error) {
	err = s.db.Read(ctx, "bot_scores", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlBotScores, func(r *sqlite.Stmt) float64 { return r.ColumnFloat(0) }, fingerprint, ip, since.UnixMicro(), limit)
		return err
	})
	return all, err
}
