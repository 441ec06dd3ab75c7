package guest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strconv"
)

// looksAtContext is the number of hashes between checks of ctx.
const looksAtContext = 4096

// solve finds a text for which the SHA-256 of challenge, a dot and the text begins with the given number of zero
// bits.
func solve(ctx context.Context, challenge string, zeros int) (string, error) {
	for n := 0; ; n++ {
		if n%looksAtContext == 0 && ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		solution := challenge + "." + strconv.Itoa(n)
		if sum := sha256.Sum256([]byte(solution)); bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:8])) >= zeros {
			return solution, nil
		}
	}
}
