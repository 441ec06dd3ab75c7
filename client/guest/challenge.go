package guest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strconv"
)

// looksAtContext is after how many hashes solve looks whether ctx has ended.
const looksAtContext = 4096

// solve solves a challenge: it finds a text after which the SHA-256 of the challenge, a dot and the
// text begins with so many zero bits.
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
