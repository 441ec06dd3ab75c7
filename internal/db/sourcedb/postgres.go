package sourcedb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// openPostgres accepts a URL as libpq does.
func openPostgres(address string) (*DB, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, parseReason(address, err)
	}
	if cfg.Database == "" {
		return nil, errors.New("no name of a database: expected " + examples)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	cfg.RuntimeParams["application_name"] = "holdfast import"
	host := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	if cfg.Host == "" || cfg.Host[0] == '/' {
		host = ""
	}
	db := &DB{Where: where("postgres", cfg.User, host, cfg.Database), tls: cfg.TLSConfig}
	db.connect = func(ctx context.Context) (connection, error) { return connectPostgres(ctx, cfg.Copy()) }
	return db, nil
}

var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// parseReason explains a rejected URL without the driver's text, which may contain the password.
func parseReason(address string, err error) error {
	if missing, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("sslrootcert, sslcert, sslkey: cannot read %s: %w", missing.Path, missing.Err)
	}
	u, badURL := url.Parse(address)
	if badURL == nil {
		query := u.Query()
		switch mode := query.Get("sslmode"); {
		case mode != "" && !slices.Contains(sslModes, mode):
			return fmt.Errorf("sslmode: expected one of %s", strings.Join(sslModes, ", "))
		case query.Get("sslcert") == "" != (query.Get("sslkey") == ""):
			return errors.New("sslcert, sslkey: expected both, or none of them")
		case query.Has("sslrootcert") || query.Has("sslcert"):
			return errors.New("sslrootcert, sslcert, sslkey: expected PEM files, and the key of the certificate")
		}
	}
	return errors.New("not a URL of a database: expected " + examples)
}

// pgConn is a connection in a read-only transaction.
type pgConn struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

// connectPostgres signs in and begins a snapshot.
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

// close does not wait for a silent server.
func (c pgConn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
}

// each runs a query; see connection.
func (c pgConn) each(ctx context.Context, sql string, fn func([]any) error) error {
	result, err := c.tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer result.Close()
	for result.Next() {
		values, err := result.Values()
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
	return result.Err()
}
