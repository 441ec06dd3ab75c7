package buckets

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/durations"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// termsInput are a key's name, limits and expiry. Each may be omitted, which means unlimited for a new key and
// unchanged for an existing key; "none" removes a limit.
type termsInput struct {
	Name     string   `flag:"name" names:"-" doc:"display name, e.g. backup"`
	Buckets  []string `flag:"bucket" value:"NAME" names:"bucket,*" doc:"limit to bucket NAME, or with NAME* to a name prefix; repeatable" title:"Buckets"`
	Begins   string   `flag:"bucket-prefix" value:"NAME" doc:"limit to buckets whose names begin with NAME" title:"Buckets that begin with"`
	Prefix   string   `flag:"prefix" doc:"limit to objects with this name prefix" title:"Objects that begin with"`
	Rights   []string `flag:"right" value:"RIGHT" names:"right" doc:"limit to RIGHT: read, write, delete, list, manage (buckets), policy (amounts to all rights), bypass (locks); repeatable" title:"Rights"`
	Networks []string `flag:"network" value:"CIDR" doc:"limit to clients in network CIDR, e.g. 10.0.0.0/8; repeatable" title:"Networks"`
	Version2 string   `flag:"signature-v2" value:"allow" doc:"allow lets the key sign links and forms with Signature Version 2 although it has limits, none ends it" title:"Signature Version 2"`
	Expires  string   `flag:"expires-in" value:"DURATION" doc:"DURATION until the key expires, e.g. 30d" title:"Expires in"`
	Until    string   `flag:"expires-on" value:"DATE" doc:"DATE (UTC) on which the key expires, e.g. 2030-12-31" title:"Expires on"`
}

// noLimit removes a limit.
const noLimit = "none"

// Check checks each input alone, so that the error names it.
func (in termsInput) Check() error {
	for _, of := range []struct {
		input string
		alone termsInput
	}{
		{"name", termsInput{Name: in.Name}}, {"bucket", termsInput{Buckets: in.Buckets}}, {"prefix", termsInput{Prefix: in.Prefix}},
		{"right", termsInput{Rights: in.Rights}}, {"network", termsInput{Networks: in.Networks}}, {"signature-v2", termsInput{Version2: in.Version2}},
		{"expires-in", termsInput{Expires: in.Expires}}, {"expires-on", termsInput{Until: in.Until}}, {"bucket-prefix", termsInput{Begins: in.Begins}},
	} {
		t, err := of.alone.apply(buckets.KeyTerms{}, 0)
		if err == nil {
			err = t.Check()
		}
		if err != nil {
			return &operate.InputError{Input: of.input, Reason: err.Error()}
		}
	}
	return nil
}

// apply returns t with the terms that are given. The expiry counts from now.
func (in termsInput) apply(t buckets.KeyTerms, now buckets.Moment) (buckets.KeyTerms, error) {
	if in.Name != "" {
		t.Name = given(in.Name)
	}
	if in.Prefix != "" {
		t.Limits.Prefix = given(in.Prefix)
	}
	if len(in.Buckets) > 0 {
		t.Limits.Buckets = givenList(in.Buckets)
	}
	if in.Begins != "" {
		if len(in.Buckets) == 0 {
			t.Limits.Buckets = nil
		}
		t.Limits.Buckets = append(t.Limits.Buckets, in.Begins+"*")
	}
	if len(in.Rights) > 0 {
		t.Limits.Rights = nil
		for _, r := range givenList(in.Rights) {
			t.Limits.Rights = append(t.Limits.Rights, buckets.Right(r))
		}
	}
	if len(in.Networks) > 0 {
		t.Limits.Networks = nil
		for _, text := range givenList(in.Networks) {
			n, err := parseNetwork(text)
			if err != nil {
				return t, err
			}
			t.Limits.Networks = append(t.Limits.Networks, n)
		}
	}
	switch in.Version2 {
	case "":
	case "allow", noLimit:
		t.Limits.Version2 = in.Version2 != noLimit
	default:
		return t, errcode.New(errcode.Invalid, "expected allow or none")
	}
	switch in.Expires {
	case "":
	case noLimit:
		t.Expires = 0
	default:
		life, err := durations.Parse(in.Expires)
		if err != nil || life < time.Second {
			return t, errcode.New(errcode.Invalid, "expected a duration of at least 1s, e.g. 30d, or none")
		}
		t.Expires = now.Add(life)
	}
	if in.Until != "" {
		end, err := time.Parse(time.DateOnly, in.Until)
		if err != nil {
			return t, errcode.New(errcode.Invalid, "expected a date, e.g. 2030-12-31")
		}
		if t.Expires = buckets.At(end); t.Expires <= now {
			return t, errcode.New(errcode.Invalid, "the date has passed")
		}
		if in.Expires != "" {
			return t, errcode.New(errcode.Invalid, "give either a duration or a date")
		}
	}
	return t, nil
}

// given returns "" for noLimit.
func given(text string) string {
	if text == noLimit {
		return ""
	}
	return text
}

// givenList returns nil for noLimit alone.
func givenList(all []string) []string {
	if len(all) == 1 && all[0] == noLimit {
		return nil
	}
	return all
}

// parseNetwork accepts a network or an address. It masks the bits after the prefix, and refuses IPv4 addresses in IPv6
// form, which no client has.
func parseNetwork(text string) (netip.Prefix, error) {
	if n, err := netip.ParsePrefix(text); err == nil && !n.Addr().Is4In6() {
		return n.Masked(), nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	return netip.Prefix{}, errcode.New(errcode.Invalid, "expected a network, e.g. 10.0.0.0/8 or 2001:db8::/32, or none")
}

// limitKeyInput names a key and its changes.
type limitKeyInput struct {
	keyInput
	termsInput
}

// limitKey applies the change to the stored terms, and again if they were changed in between, so that no change is
// lost.
func (s *Buckets) limitKey(ctx context.Context, in limitKeyInput) (k keyDetail, err error) {
	key, err := s.keys.Change(ctx, in.Key, func(t buckets.KeyTerms) (buckets.KeyTerms, error) { return in.apply(t, s.opened.Now()) })
	if err != nil {
		return k, about(in.Key, err)
	}
	return s.detail(&key), nil
}

// words are shown separated by commas.
type words []string

func (w words) String() string { return strings.Join(w, ", ") }

// wordsOf returns nil for an empty list, which JSON omits.
func wordsOf[T any](all []T, text func(T) string) (w words) {
	for _, v := range all {
		w = append(w, text(v))
	}
	return w
}
