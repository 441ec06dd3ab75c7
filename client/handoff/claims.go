package handoff

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Claims are the content of a token.
type Claims struct {
	ID       string // handoff: "bhd_" and a ULID
	Session  string // guest session: "gms_" and a ULID
	Tenant   string // UUID in lower case
	Property string // UUID in lower case, or with a payload an item ID, e.g. sku-4711
	CheckIn  string // YYYY-MM-DD
	CheckOut string // YYYY-MM-DD, after CheckIn
	Adults   int    // 1 to 99
	Children int    // 0 to 99
	Rooms    int    // 1 to 99
	Currency string // ISO 4217, e.g. EUR
	Locale   string // BCP 47, e.g. de-AT

	// Payload is the SHA-256 of the payload, which the server stores and compares when the handoff is consumed. A
	// handoff contains either a payload or a stay (CheckIn to Rooms).
	Payload []byte

	// Campaign, Fingerprint and IP are 32-byte digests, keyed by the issuer. Campaign may be nil.
	Campaign    []byte
	Fingerprint []byte
	IP          []byte

	Minted  time.Time // to the millisecond
	Expires time.Time // at most MaxLife after Minted
}

// Limits.
const (
	MaxLife  = 30 * time.Minute
	MaxToken = 1024 // bytes

	maxText   = 64  // characters in a text claim
	maxItem   = 256 // an item ID's bytes in UTF-8
	maxPeople = 99  // guests or rooms
	digest    = 32  // bytes
	dateForm  = time.DateOnly
)

// Check returns an error that names the first invalid claim.
func (c *Claims) Check() error {
	texts := []struct{ name, value string }{
		{"ID", c.ID}, {"session", c.Session}, {"tenant", c.Tenant}, {"currency", c.Currency}, {"locale", c.Locale},
	}
	for _, t := range texts {
		if !isText(t.value) {
			return fmt.Errorf("%s: expected 1 to %d printable ASCII characters without spaces", t.name, maxText)
		}
	}
	if err := c.checkStay(); err != nil {
		return err
	}
	switch {
	case len(c.Campaign) != 0 && len(c.Campaign) != digest:
		return errors.New("campaign: expected a digest of 32 bytes, or none")
	case len(c.Fingerprint) != digest:
		return errors.New("fingerprint: expected a digest of 32 bytes")
	case len(c.IP) != digest:
		return errors.New("IP: expected a digest of 32 bytes")
	case c.Minted.UnixMilli() <= 0:
		return errors.New("minted: expected a time after 1970")
	case !c.Expires.After(c.Minted) || c.Expires.Sub(c.Minted) > MaxLife:
		return fmt.Errorf("expires: expected at most %v after minted", MaxLife)
	}
	return nil
}

// checkStay requires either a payload or a stay.
func (c *Claims) checkStay() error {
	if len(c.Payload) != 0 {
		switch {
		case !isItem(c.Property):
			return fmt.Errorf("property: expected 1 to %d bytes of UTF-8 without control characters", maxItem)
		case len(c.Payload) != digest:
			return errors.New("payload: expected a digest of 32 bytes, or none")
		case c.CheckIn != "" || c.CheckOut != "" || c.Adults != 0 || c.Children != 0 || c.Rooms != 0:
			return errors.New("payload: expected no stay beside it")
		}
		return nil
	}
	if !isText(c.Property) {
		return fmt.Errorf("property: expected 1 to %d printable ASCII characters without spaces", maxText)
	}
	in, err1 := parseDate(c.CheckIn)
	out, err2 := parseDate(c.CheckOut)
	switch {
	case err1 != nil:
		return fmt.Errorf("check-in: %w", err1)
	case err2 != nil:
		return fmt.Errorf("check-out: %w", err2)
	case !out.After(in):
		return errors.New("check-out: expected a day after check-in")
	case c.Adults < 1 || c.Adults > maxPeople:
		return fmt.Errorf("adults: expected 1 to %d", maxPeople)
	case c.Children < 0 || c.Children > maxPeople:
		return fmt.Errorf("children: expected 0 to %d", maxPeople)
	case c.Rooms < 1 || c.Rooms > maxPeople:
		return fmt.Errorf("rooms: expected 1 to %d", maxPeople)
	}
	return nil
}

// isText reports whether s is a valid text claim.
func isText(s string) bool { return isPrintable(s, maxText) }

// isItem reports whether s is a valid item ID. The server's rule is stricter: it knows which characters are printable.
func isItem(s string) bool {
	return s != "" && len(s) <= maxItem && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// isPrintable reports whether s is 1 to maxLength printable ASCII characters without spaces.
func isPrintable(s string, maxLength int) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxLength
}

// parseDate accepts only the canonical form.
func parseDate(s string) (time.Time, error) {
	t, err := time.Parse(dateForm, s)
	if err != nil || t.Format(dateForm) != s {
		return t, errors.New("expected a date such as 2026-12-31")
	}
	return t, nil
}

// encode returns the claims as length-prefixed fields in a fixed order, so that a set of claims has a single encoding.
// The payload comes last and only if there is any.
func (c *Claims) encode() []byte {
	var b []byte
	add := func(v []byte) { b = append(binary.AppendUvarint(b, uint64(len(v))), v...) }
	text := func(s string) { add([]byte(s)) }
	number := func(n int64) { add(strconv.AppendInt(nil, n, 10)) }
	text(c.ID)
	text(c.Session)
	text(c.Tenant)
	text(c.Property)
	text(c.CheckIn)
	text(c.CheckOut)
	number(int64(c.Adults))
	number(int64(c.Children))
	number(int64(c.Rooms))
	text(c.Currency)
	text(c.Locale)
	add(c.Campaign)
	add(c.Fingerprint)
	add(c.IP)
	number(c.Minted.UnixMilli())
	number(c.Expires.UnixMilli())
	if len(c.Payload) > 0 {
		add(c.Payload)
	}
	return b
}

// decode rejects encodings that encode does not return.
func decode(payload []byte) (c Claims, err error) {
	rest := payload
	next := func() []byte {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			err = ErrMalformed
			rest = nil
			return nil
		}
		v := rest[size : size+int(n)]
		rest = rest[size+int(n):]
		return v
	}
	text := func() string { return string(next()) }
	number := func() int64 {
		n, e := strconv.ParseInt(text(), 10, 64)
		if e != nil {
			err = ErrMalformed
		}
		return n
	}
	sum := func() []byte {
		v := next()
		if len(v) == 0 {
			return nil
		}
		return bytes.Clone(v)
	}
	c = Claims{
		ID: text(), Session: text(), Tenant: text(), Property: text(), CheckIn: text(), CheckOut: text(),
		Adults: int(number()), Children: int(number()), Rooms: int(number()), Currency: text(), Locale: text(),
		Campaign: sum(), Fingerprint: sum(), IP: sum(),
		Minted: time.UnixMilli(number()).UTC(), Expires: time.UnixMilli(number()).UTC(),
	}
	if len(rest) > 0 {
		c.Payload = sum()
	}
	if err == nil && (c.Check() != nil || !bytes.Equal(c.encode(), payload)) {
		err = ErrMalformed
	}
	return c, err
}

// split cuts a token VERSION.KEY.PAYLOAD.MAC. signed is the part that the MAC covers.
func split(token string) (key, signed, payload, mac string, ok bool) {
	if len(token) > MaxToken {
		return "", "", "", "", false
	}
	fields := strings.Split(token, ".")
	if len(fields) != 4 || fields[0] != version || !isKeyID(fields[1]) {
		return "", "", "", "", false
	}
	return fields[1], token[:len(token)-len(fields[3])-1], fields[2], fields[3], true
}
