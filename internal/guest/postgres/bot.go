package postgres

import (
	"context"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/telemetry"
)

var (
	sqlLogBotScore = pgdb.Statement{Name: "guest.log_bot_score", SQL: `
		INSERT INTO bff_consumer.bot_score_log
			(id, guest_session_id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
		VALUES ($1, nullif($2::text, ''), $3, $4, $5, $6, $7, $8::text::jsonb, $9, clock_timestamp())`}
	sqlBotScores = pgdb.Statement{Name: "guest.bot_scores", SQL: `
		SELECT score::float8 FROM bff_consumer.bot_score_log
		WHERE fingerprint_hash = $1 AND ip_hash = $2 AND evaluated_at >= $3 ORDER BY evaluated_at DESC LIMIT $4`}
)

// LogBotScore implements backend.Store.
func (s *Store) LogBotScore(ctx context.Context, score bots.Evaluation, key string, e *guest.Event, trace guest.Trace) error {
	signals, err := bots.EncodeSignals(score.Signals)
	if err != nil {
		return err
	}
	args := []any{
		string(score.ID), string(score.Session), score.Fingerprint, score.IP, score.UserAgent, float32(score.Score), string(score.Verdict), signals, string(score.Action),
	}
	if e == nil {
		_, err := s.db.Exec(ctx, sqlLogBotScore, args...)
		return err
	}
	err = s.db.Tx(ctx, "guest.log_bot_score", func(t *pgdb.Tx) error {
		event := *e
		if event.At, err = takeTurn(t, guest.ID(key)); err != nil {
			return err
		}
		if _, err := t.Exec(sqlLogBotScore, args...); err != nil {
			return err
		}
		return appendEvents(t, sqlAppend, []telemetry.SessionEvent{{Session: guest.ID(key), Trace: trace, Event: event}})
	})
	if err == nil {
		s.waker.Wake(key, "")
	}
	return err
}

// BotScores implements backend.Store.
func (s *Store) BotScores(ctx context.Context, fingerprint, ip []byte, since time.Time, limit int) (all []float64, err error) {
	var score float64
	err = s.db.ForEach(ctx, sqlBotScores, []any{fingerprint, ip, since, limit}, func() { all = nil }, func() error {
		all = append(all, score)
		return nil
	}, &score)
	return all, err
}
