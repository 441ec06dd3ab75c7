package rate

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"holdfast/internal/clock"
)

// guessLimit is for wrong secrets of one client network. A secret of 32 characters needs no limit; this one protects
// short secrets, and bounds the cost and the log lines of guesses.
var guessLimit = Limit{Events: 10, Per: time.Minute, Burst: 10}

// maxGuessers is the number of addresses and networks whose wrong secrets are counted, about 3 MB.
const maxGuessers = 10_000

// Guesses limits guesses of secrets that an operator may choose, such as the admin token. All places that compare such
// a secret share one Guesses, so that a client gains nothing from trying several of them. Secrets that are always
// random, such as session cookies and one-time links, need no limit. Safe for concurrent use. A nil *Guesses has no
// limit.
type Guesses struct{ wrong *Buckets }

// NewGuesses returns the limiter that the whole server shares.
func NewGuesses(now clock.Clock) (*Guesses, error) {
	guesses, err := New(guessLimit, maxGuessers, now)
	if err != nil {
		return nil, err
	}
	return &Guesses{guesses}, nil
}

// Guesser is a client that sent a secret.
type Guesser struct {
	Address string // IP address; see web.Resolver.Address
	Network string // its IPv6 network (/64), which one client may own; for IPv4 the address; see web.Resolver.Network
}

// Allow reports whether the answer to a secret may depend on it; right says whether it was correct. Otherwise the answer
// is 429 with the headers of the state, for correct and wrong secrets alike.
//
// A correct secret is refused only because of wrong ones from the same address, so that neighbors in the network lock
// nobody out. A wrong secret counts against the whole network.
func (g *Guesses) Allow(by Guesser, right bool) (ok bool, s State) {
	switch {
	case g == nil:
		return true, State{}
	case right:
		return g.wrong.Check(by.Address, 1)
	}
	if ok, s = g.wrong.Allow(by.Network, 1); ok && by.Address != by.Network {
		g.wrong.Allow(by.Address, 1)
	}
	return ok, s
}

// Same compares a secret that a client sent with the expected one. Its time depends on neither the expected secret nor
// its length. No secret equals an empty text, which stands for a missing secret.
func Same(sent, want string) bool {
	x, y := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1 && want != ""
}
