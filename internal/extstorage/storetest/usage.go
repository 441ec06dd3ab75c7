package storetest

import (
	"errors"
	"fmt"
	"testing"

	ext "holdfast/internal/extstorage"
)

func usageChecks() []check {
	return []check{
		{"LiveRecords", usageLive},
		{"EveryMoment", usageEveryMoment},
		{"Ping", ping},
	}
}

// usageLive: a client sees what is there; quotas are held against what is stored.
func usageLive(t *testing.T, u *user) {
	equal(t, "a new install", u.usage(), ext.Usage{})
	op := put("b", "a", `"é"`)
	op.Metadata = `{"m":1}`
	u.apply(op, put("a", "a", `1`), mortal("a", "b", `12`, u.now+minute), mortal("c", "c", `123`, u.now+minute))
	equal(t, "usage", u.usage(), ext.Usage{
		Counters:   ext.Counters{Bytes: 23, Keys: 4, Namespaces: 3},
		Namespaces: []ext.NamespaceUsage{{Namespace: "a", Keys: 2, Bytes: 7}, {Namespace: "b", Keys: 1, Bytes: 11}, {Namespace: "c", Keys: 1, Bytes: 5}},
	})
	u.now += minute
	equal(t, "usage after two have expired", u.usage(), ext.Usage{
		Counters:   ext.Counters{Bytes: 23, Keys: 4, Namespaces: 3},
		Namespaces: []ext.NamespaceUsage{{Namespace: "a", Keys: 1, Bytes: 3}, {Namespace: "b", Keys: 1, Bytes: 11}},
	})
	u.state()
}

// usageEveryMoment: whoever counts while others write, delete and reclaim finds
// the counters right.
func usageEveryMoment(t *testing.T, u *user) {
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			a, err := u.h.Store.Audit(t.Context(), u.owner)
			if err == nil && !a.Right() {
				err = fmt.Errorf("the counters are wrong: %+v", a)
			}
			select {
			case <-stop:
				done <- err
				return
			default:
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	errs := together(8, func(i int) (err error) {
		for j := 0; j < 20 && err == nil; j++ {
			at := u.at(u.now + ext.Moment(j)*second)
			at.quota.Keys = 6
			switch (i + j) % 4 {
			case 0:
				_, err = at.try(del("s", fmt.Sprint(j%7)), del("t", fmt.Sprint(i)))
			case 1:
				_, err = u.h.Store.Reclaim(t.Context(), u.owner, at.now, 3)
			default:
				_, err = at.try(mortal("s", fmt.Sprint(j%7), fmt.Sprint(i*j*j), at.now+3*second), put(fmt.Sprint("t", j%3), fmt.Sprint(i), `"x"`))
			}
			if isQuota(err) {
				err = nil
			}
		}
		return err
	})
	close(stop)
	must(t, "counting", <-done)
	must(t, "writers", errors.Join(errs...))
	u.now += hour
	u.state()
}

func ping(t *testing.T, u *user) { must(t, "Ping", u.h.Store.Ping(t.Context())) }
