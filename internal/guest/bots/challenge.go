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

// Challenges makes and checks challenges: a browser must find a text after which the
// SHA-256 of the challenge, a dot and the text begins with so many zero bits. That costs a
// human nothing that is noticed, and a bot much for many requests. Challenges are signed
// and not stored; one belongs to a session of a browser. It is safe for concurrent use.
type Challenges struct {
	keys [][]byte // the first one signs
	bits int
}

// challengeLife is how long a challenge may be solved.
const challengeLife = 5 * time.Minute

// maxSolution is the length of the longest solution.
const maxSolution = 256

// NewChallenges returns challenges with the secrets of the configuration, the current one
// first.
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

// New returns a challenge: hc1, when it expires, its difficulty and its signature.
func (c *Challenges) New(browser string, session guest.ID, now time.Time) string {
	text := "hc1." + strconv.FormatInt(now.Add(challengeLife).Unix(), 10) + "." + strconv.Itoa(c.bits)
	return text + "." + signChallenge(c.keys[0], text, browser, session)
}

func signChallenge(key []byte, text, browser string, session guest.ID) string {
	return base64.RawURLEncoding.EncodeToString(guest.SumOf(key, text, browser, string(session)))
}

// Solved reports whether a solution, which is a challenge of the session, a dot and a text,
// is valid.
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

// LeadingZeros returns the number of zero bits at the beginning of the SHA-256 of a text,
// at most 64.
func LeadingZeros(text string) int {
	sum := sha256.Sum256([]byte(text))
	return bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:8]))
}

// SolveChallenge returns a solution, as browsers find it.
func SolveChallenge(challenge string, zeros int) string {
	for n := 0; ; n++ {
		if solution := challenge + "." + strconv.Itoa(n); LeadingZeros(solution) >= zeros {
			return solution
		}
	}
}
