package bots

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/guest"
)

// Challenges makes and checks proof-of-work challenges: find a text for which the SHA-256 of challenge, a dot and the
// text starts with some zero bits. Challenges are signed, not stored, and bound to a browser's session. It is safe
// for concurrent use.
type Challenges struct {
	// HMAC keys: New signs with the first, Solved accepts them all. Derived from [guest.bots] secrets, never stored.
	keys [][]byte
	// leading zero bits that a solution needs; each bit doubles the browser's work
	bits int
}

// A browser solves a challenge in seconds; five minutes also cover a tab in the background.
const challengeLife = 5 * time.Minute

// Longest accepted solution in bytes. A challenge takes about 60; a counter follows it.
const maxSolution = 256

// NewChallenges takes the configured secrets, the current one first.
func NewChallenges(secret string, old []string, bits int) (*Challenges, error) {
	c := &Challenges{bits: bits}
	for _, s := range append([]string{secret}, old...) {
		key, err := hkdf.Key(sha256.New, []byte(s), nil, "guest challenges", sha256.Size)
		if err != nil {
			return nil, err
		}
		c.keys = append(c.keys, key)
	}
	return c, nil
}

// New returns a challenge for a session in a browser, as "hc1.<expiry, Unix seconds>.<bits>.<signature>". Nothing is
// stored: Solved verifies the signature. Until it expires, the same solution may be sent again; the service remembers
// solutions for SolvedLife anyway.
func (c *Challenges) New(browser string, session guest.ID, now time.Time) string {
	text := "hc1." + strconv.FormatInt(now.Add(challengeLife).Unix(), 10) + "." + strconv.Itoa(c.bits)
	return text + "." + signChallenge(c.keys[0], text, browser, session)
}

// signChallenge returns the signature over the challenge's text, the browser (see browserOf) and its session, in
// unpadded base64url: a solution for another browser or session fails.
func signChallenge(key []byte, text, browser string, session guest.ID) string {
	return base64.RawURLEncoding.EncodeToString(guest.SumOf(key, text, browser, string(session)))
}

// Solved validates a solution: a challenge for the session, a dot and a text.
func (c *Challenges) Solved(solution, browser string, session guest.ID, now time.Time) bool {
	parts := strings.Split(solution, ".")
	if len(parts) != 5 || parts[0] != "hc1" || len(solution) > maxSolution {
		return false
	}
	expires, err1 := strconv.ParseInt(parts[1], 10, 64)
	zeros, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || now.Unix() >= expires || LeadingZeros(solution) < zeros {
		return false
	}
	for _, key := range c.keys {
		if hmac.Equal([]byte(signChallenge(key, strings.Join(parts[:3], "."), browser, session)), []byte(parts[3])) {
			return true
		}
	}
	return false
}

// LeadingZeros counts the leading zero bits in the SHA-256 of text, up to 64.
func LeadingZeros(text string) int {
	sum := sha256.Sum256([]byte(text))
	return bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:8]))
}

// SolveChallenge solves a challenge as browsers do.
func SolveChallenge(challenge string, zeros int) string {
	for n := 0; ; n++ {
		if solution := challenge + "." + strconv.Itoa(n); LeadingZeros(solution) >= zeros {
			return solution
		}
	}
}
