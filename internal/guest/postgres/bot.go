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
	sqlLogBotScore = pgdb.NewNamed(pgdb.Statement{Name: "guest.log_bot_score", SQL: `
		INSERT INTO bff_consumer.bot_score_log
			(id, guest_session_id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
		VALUES (@id, nullif(@session, ''), @fingerprint, @ip, @user_agent, @score, @verdict, @signals::jsonb, @action, clock_timestamp())`}, evaluation.args)
	sqlBotScores = pgdb.Statement{Name: "guest.bot_scores", SQL: `
		SELECT score::float8 FROM bff_consumer.bot_score_log
		WHERE fingerprint_hash = $1 AND ip_hash = $2 AND evaluated_at >= $3 ORDER BY evaluated_at DESC LIMIT $4`}
)

// LogBotScore implements bots.Store.
func (s *Store) LogBotScore(ctx context.Context, score bots.Evaluation, key string, e *guest.Event, trace guest.Trace) error {
	signals, err := bots.EncodeSignals(score.Signals)
	if err != nil {
		return err
	}
	args := sqlLogBotScore.Args(evaluation{score, signals})
	if e == nil {
		_, err := s.db.Exec(ctx, sqlLogBotScore.Statement, args...)
		return err
	}
	err = s.db.Tx(ctx, "guest.log_bot_score", func(t *pgdb.Tx) error {
		event := *e
		if event.At, err = takeTurn(t, guest.ID(key)); err != nil {
			return err
		}
		if _, err := t.Exec(sqlLogBotScore.Statement, args...); err != nil {
			return err
		}
		return appendEvents(t, sqlAppend.Statement, []telemetry.SessionEvent{{Session: guest.ID(key), Trace: trace, Event: event}})
	})
	if err == nil {
		s.waker.Wake(key, "")
	}
	return err
}

// evaluation holds the parameters for LogBotScore.
type evaluation struct {
	bots.Evaluation
	signals string
}

// args names and orders the parameters for pgdb.
func (e evaluation) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "id", Value: string(e.ID)},
		{Param: "session text", Value: string(e.Session)},
		{Param: "fingerprint", Value: e.Fingerprint},
		{Param: "ip", Value: e.IP},
		{Param: "user_agent", Value: e.UserAgent},
		{Param: "score", Value: float32(e.Score)},
		{Param: "verdict", Value: string(e.Verdict)},
		{Param: "signals text", Value: e.signals},
		{Param: "action", Value: string(e.Action)},
	}
}

// BotScores implements bots.Store.
func (s *Store) BotScores(ctx context.Context, fingerprint, ip []byte, since time.Time, limit int) (all []float64, err error) {
	var score float64
	err = s.db.ForEach(ctx, sqlBotScores, []any{fingerprint, ip, since, limit}, func() { all = nil }, func() error {
		all = append(all, score)
		return nil
	}, &score)
	return all, err
}
