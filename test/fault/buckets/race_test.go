package buckets

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"holdfast/internal/workload/buckets"
	"holdfast/test/fault/harness"
)

const racers = 100

// TestBucketsRaces lets many clients overwrite, delete and create a key at once, on PostgreSQL through two servers. A
// single conditional create succeeds. Afterwards all servers return the same object with a matching MD5, and no
// unreferenced body remains.
func TestBucketsRaces(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, append([]harness.Engine{harness.OnSQLite}, harness.InSoak(harness.OnPostgres)...), func(t *testing.T, e harness.Engine, data string, vars ...string) {
		h, b := newBuckets(t, nodeFolders(t), data, vars...)
		h.Server = h.Serve()
		if e.Servers() > 1 {
			h.Second = h.Serve()
		}
		b.open(h)
		for round := range harness.Number(t, "FAULT_ROUNDS", 1) {
			r := &race{Workload: b, h: h, key: fmt.Sprintf("race-%d", round)}
			r.create()
			r.overwrite()
			r.mix()
			b.audited(h, r.bodies())
			r.linear()
			b.want(h, http.StatusNoContent, http.MethodDelete, "/fault/"+r.key, "")
			b.audited(h, 0)
			if t.Failed() {
				return
			}
		}
	})
}

type race struct {
	*Workload
	h   *harness.Harness
	key string
}

func (r *race) body(i int) string {
	return buckets.Body(i, 1, 100+i%2*(buckets.Inline+1000))
}

func (r *race) all(request func(i int) (method, body string, headers []string)) (answers [racers]int) {
	r.h.T.Helper()
	var clients sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		method, body, headers := request(i)
		clients.Go(func() {
			<-start
			a, err := r.send(r.h, r.h.ServerOf(i), method, "/fault/"+r.key, body, headers...)
			if err != nil || a.Status >= http.StatusInternalServerError {
				r.h.T.Errorf("client %d: %s: %d %s %v", i, method, a.Status, a.Body, err)
			}
			answers[i] = a.Status
		})
	}
	close(start)
	clients.Wait()
	return answers
}

// current returns the object's MD5, which must be equal on all servers, or "" if the object does not exist.
func (r *race) current() (sum string) {
	r.h.T.Helper()
	for n := range 2 {
		a, err := r.send(r.h, r.h.ServerOf(n), http.MethodGet, "/fault/"+r.key, "")
		got := buckets.MD5Of(a)
		if err != nil || n > 0 && got != sum || got != "" && a.Header.Get("ETag") != `"`+got+`"` {
			r.h.T.Errorf("server %d: MD5 %q with the ETag %s, another server: MD5 %q: %v", n, got, a.Header.Get("ETag"), sum, err)
		}
		sum = got
	}
	return sum
}

func (r *race) bodies() int {
	sum := r.current()
	for i := range racers {
		if i%2 == 1 && buckets.MD5(r.body(i)) == sum {
			return 1
		}
	}
	return 0
}

var noObject = []string{"If-None-Match: *"}

// create requires exactly one success.
func (r *race) create() {
	r.h.T.Helper()
	answers := r.all(func(i int) (string, string, []string) { return http.MethodPut, r.body(i), noObject })
	winner := slices.Index(answers[:], http.StatusOK)
	lost := 0
	for _, status := range answers {
		if status == http.StatusPreconditionFailed {
			lost++
		}
	}
	if winner < 0 || lost != racers-1 {
		r.h.T.Fatalf("%d of %d clients lost: %v", lost, racers, answers)
	}
	if sum := r.current(); sum != buckets.MD5(r.body(winner)) {
		r.h.T.Errorf("client %d created the object, which has the MD5 %q", winner, sum)
	}
}

// overwrite requires that all succeed.
func (r *race) overwrite() {
	r.h.T.Helper()
	answers := r.all(func(i int) (string, string, []string) { return http.MethodPut, r.body(i), nil })
	for i, status := range answers {
		if status != http.StatusOK {
			r.h.T.Errorf("client %d: %d", i, status)
		}
	}
	r.isOne(answers, true)
}

func (r *race) isOne(answers [racers]int, exists bool) {
	r.h.T.Helper()
	sum := r.current()
	if sum == "" && !exists {
		return
	}
	for i, status := range answers {
		if status == http.StatusOK && sum == buckets.MD5(r.body(i)) {
			return
		}
	}
	r.h.T.Errorf("the object has the MD5 %q, which no client wrote", sum)
}

func (r *race) mix() {
	r.h.T.Helper()
	answers := r.all(func(i int) (string, string, []string) {
		switch i / 2 % 3 {
		case 0:
			return http.MethodDelete, "", nil
		case 1:
			return http.MethodPut, r.body(i), noObject
		}
		return http.MethodPut, r.body(i), nil
	})
	for i, status := range answers {
		want := [][]int{{http.StatusNoContent}, {http.StatusOK, http.StatusPreconditionFailed}, {http.StatusOK}}[i/2%3]
		if !slices.Contains(want, status) {
			r.h.T.Errorf("client %d: %d, want one of %d", i, status, want)
		}
	}
	r.isOne(answers, false)
}

// raceInput and raceOutput are a request and its response. The value is a body's MD5, or "".
type (
	raceInput struct {
		method, value string
		create        bool
	}
	raceOutput struct {
		status int
		value  string
	}
)

func raceModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			in, out := input.(raceInput), output.(raceOutput)
			switch {
			case in.method == http.MethodGet:
				return out.value == state, state
			case in.create && state != "":
				return out.status == http.StatusPreconditionFailed, state
			case in.method == http.MethodDelete:
				return out.status == http.StatusNoContent, ""
			}
			return out.status == http.StatusOK, in.value
		},
	}
}

// linear checks that the history from a few busy clients is linearizable.
func (r *race) linear() {
	r.h.T.Helper()
	const clients, requests = 8, 12
	r.want(r.h, http.StatusNoContent, http.MethodDelete, "/fault/"+r.key, "")
	var (
		all    harness.History
		mu     sync.Mutex
		done   sync.WaitGroup
		serial atomic.Int64
	)
	start := time.Now()
	for client := range clients {
		choose := r.h.Random(0, uint64(client))
		done.Go(func() {
			for range requests {
				n := int(serial.Add(1))
				in, body := raceInput{method: http.MethodGet}, ""
				var headers []string
				switch choose.IntN(4) {
				case 0:
					in.method = http.MethodDelete
				case 1:
					in.create, headers = true, noObject
					fallthrough
				case 2:
					in.method, body = http.MethodPut, r.body(racers+n)
					in.value = buckets.MD5(body)
				}
				o := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(start)), Metadata: n}
				a, err := r.send(r.h, r.h.ServerOf(client), in.method, "/fault/"+r.key, body, headers...)
				out := raceOutput{status: a.Status}
				if in.method == http.MethodGet {
					out.value = buckets.MD5Of(a)
				}
				o.Output, o.Return = out, int64(time.Since(start))
				if err != nil {
					r.h.T.Errorf("%+v: %v", in, err)
					return
				}
				mu.Lock()
				all = append(all, o)
				mu.Unlock()
			}
		})
	}
	done.Wait()
	if why := harness.Disorder(raceModel(), all); why != "" && !r.h.T.Failed() {
		r.h.T.Error(why)
	}
}

// TestBucketsRaceModel checks that the model rejects a second winner and an outdated value.
func TestBucketsRaceModel(t *testing.T) {
	t.Parallel()
	put := func(value string, create bool, status int, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: raceInput{http.MethodPut, value, create}, Output: raceOutput{status: status}, Call: call, Return: end, Metadata: call}
	}
	get := func(value string, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: raceInput{method: http.MethodGet}, Output: raceOutput{http.StatusOK, value}, Call: call, Return: end, Metadata: call}
	}
	for name, c := range map[string]struct {
		all   harness.History
		right bool
	}{
		"one winner":   {harness.History{put("a", true, 200, 0, 10), put("b", true, 412, 1, 9), get("a", 11, 12)}, true},
		"two winners":  {harness.History{put("a", true, 200, 0, 10), put("b", true, 200, 1, 9)}, false},
		"an old value": {harness.History{put("a", false, 200, 0, 1), put("b", false, 200, 2, 3), get("a", 4, 5)}, false},
	} {
		if why := harness.Disorder(raceModel(), c.all); (why == "") != c.right {
			t.Errorf("%s: %q", name, why)
		}
	}
}
