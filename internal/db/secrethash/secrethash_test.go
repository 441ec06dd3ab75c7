//test:unraced its goroutines share nothing

package secrethash

import (
	"strings"
	"testing"
	"time"

	"holdfast/internal/ident"
)

func TestHash(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"correct horse", ident.Hex(32), strings.Repeat("01", 32)} {
		checkHash(t, secret)
	}
}

func checkHash(t *testing.T, secret string) {
	t.Helper()
	text := New(secret)
	if again := New(secret); again == text || strings.Contains(text, secret) {
		t.Errorf("not salted, or it shows the secret: %s, %s", text, again)
	}
	h, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"", secret + " ", secret[1:], strings.ToUpper(secret[:1]) + "x" + secret[2:], strings.Repeat(secret, 100), ident.Hex(32)} {
		if h.Matches(other) {
			t.Errorf("the hash of %q matches %q", secret, other)
		}
	}
	if !h.Matches(secret) {
		t.Error("the hash does not match its secret")
	}
}

// TestGenerated checks that only secrets with 256 random bits get a fast hash.
func TestGenerated(t *testing.T) {
	t.Parallel()
	const random = "6f1d0c27b8a94e53d1f07a2c9be4863510fd7e2a4c8b963d05e1f7a8b2c4d690"
	for secret, fast := range map[string]bool{
		random: true, ident.Hex(32): true,
		random[1:]: false, random + "0": false, random[:63] + "g": false, strings.ToUpper(random): false,
		strings.Repeat("01234567", 8): false, strings.Repeat("0", 64): false, "": false, "correct horse": false,
	} {
		if got := strings.HasPrefix(New(secret), "$hmac-sha256$"); got != fast {
			t.Errorf("%q has a fast hash: %t", secret, got)
		}
	}
}

// TestKnown checks that hashes from earlier releases, also with another cost, stay valid.
func TestKnown(t *testing.T) {
	t.Parallel()
	for secret, text := range map[string]string{
		"known":   "$argon2id$v=19$m=8192,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$vxWR1q71r7M9csxT7L6RZSd//FZi/9AuHlhSjaZEZwI",
		"cheaper": "$argon2id$v=19$m=64,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$WEOBCh/QSzBfZU7SyM1Pn0q5hYJFd0OHovb+UAwKB2k",
		"fast":    "$hmac-sha256$$$MDEyMzQ1Njc4OWFiY2RlZg$0Y8lXJf8Qsy8ajCY59coMwldAxgTl9BxKEFYaB1Yp1M",
	} {
		if h, err := Parse(text); err != nil || !h.Matches(secret) {
			t.Errorf("%s: %v", secret, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	good := New("x")
	for _, text := range []string{
		"", "x", strings.TrimPrefix(good, "$"), good + "$", good[:len(good)-4],
		strings.Replace(good, "argon2id", "scrypt", 1),
		strings.Replace(good, "v=19", "v=16", 1),
		strings.Replace(good, "m=4096", "m=99999999", 1),
		strings.Replace(good, "m=4096", "m=-1", 1),
		strings.Replace(good, "t=3", "t=999999", 1),
		strings.Replace(good, "t=3", "t=0", 1),
		strings.Replace(good, "p=1", "p=4", 1),
		strings.Replace(good, "argon2id", "hmac-sha256", 1),
		strings.Replace(New(ident.Hex(32)), "hmac-sha256", "argon2id", 1),
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestCost checks that a hash is slow enough to hinder guessing and fast enough for a start.
//
//nolint:paralleltest // it is timed
func TestCost(t *testing.T) {
	h, err := Parse(New("x"))
	if err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour
	for range 5 {
		start := time.Now()
		h.Matches("x")
		fastest = min(fastest, time.Since(start))
	}
	t.Logf("a hash takes %v", fastest)
	if fastest < time.Millisecond {
		t.Errorf("a hash takes %v: guessing is cheap", fastest)
	}
}
