package backup

import (
	"errors"
	"io/fs"

	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

type (
	// Signer is the public key that proves who wrote a repository.
	Signer = replica.PublicKey
	Trust  = replica.Trust
	// Expected is a restore point that a repository must have, or a later one.
	Expected = replica.Expected
)

// Trusting is an operator's choice of signers.
type Trusting struct {
	SignedBy []string // public keys, or files with public keys
	Identity string   // private key file, which may name signers, or ""
	Unsigned bool     // accept repositories although nothing proves who wrote them
	Data     string   // data folder whose server's signers are trusted, too, or ""
}

// Trust returns the chosen signers. Without Unsigned, there may be none.
func (t Trusting) Trust() (trust Trust, err error) {
	if t.Unsigned && len(t.SignedBy) > 0 {
		return trust, errcode.New(errcode.Invalid, "--unsigned and --signed-by exclude each other")
	}
	if t.Unsigned {
		return Trust{Unproven: true}, nil
	}
	trust.Signers, err = location.Signers(t.SignedBy, t.Identity)
	if err != nil || t.Data == "" {
		return trust, err
	}
	own, err := location.Own(t.Data)
	if errors.Is(err, fs.ErrPermission) { // the data folder belongs to the server's user
		return trust, nil
	}
	trust.Signers = append(trust.Signers, own.Signers...)
	return trust, err
}

// KnownSigner returns a data folder's signer, or zero if it has no signer yet or this user may not read it.
func KnownSigner(data string) (Signer, error) {
	k, err := location.KnownSigner(data)
	if errors.Is(err, fs.ErrPermission) {
		return k, nil
	}
	return k, err
}
