package sourcedb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

func openPostgres(address string) (*DB, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("not a URL of a database: expected " + examples)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = dialTimeout
	}
	cfg.RuntimeParams["application_name"] = "holdfast import"
	host := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	if cfg.Host == "" || cfg.Host[0] == '/' {
		host = ""
	}
	db := &DB{Where: where("postgres", cfg.User, host, cfg.Database)}
	db.connect = func(ctx context.Context) (connection, error) { return connectPostgres(ctx, cfg.Copy()) }
	return db, nil
}

type pgConn struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

func connectPostgres(ctx context.Context, cfg *pgx.ConnConfig) (connection, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c := pgConn{conn: conn}
	c.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil {
		_, err = c.tx.Exec(ctx, `SET LOCAL statement_timeout = 0`)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close ends the transaction with the connection: nothing was written.
func (c pgConn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx) // the server notices in any case
}

func (c pgConn) each(ctx context.Context, sql string, fn func([]any) error) error {
	found, err := c.tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			return err
		}
		for i, v := range values {
			switch v := v.(type) {
			case nil, int64:
			case []byte:
				if v == nil {
					values[i] = []byte{}
				}
			default:
				return fmt.Errorf("a column has the unexpected type %T", v)
			}
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	return found.Err()
}
