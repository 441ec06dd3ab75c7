package buckets

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
	"holdfast/test/fault/harness/brokers"
)

// describeObject returns an event's object, and its ETag or operation.
func describeObject(t *testing.T) brokers.Describe {
	return func(header func(string) string, data []byte) (key, what string) {
		var body struct {
			Event, Bucket string
			Records       []struct {
				EventName string
				S3        struct{ Object struct{ Key, ETag string } }
			}
		}
		err := json.Unmarshal(data, &body)
		if body.Event != "" {
			if kind := header("ce-type"); kind != body.Event {
				t.Errorf("event %s has the body %s", kind, data)
			}
			return body.Bucket, body.Event
		}
		if err != nil || len(body.Records) != 1 {
			t.Errorf("%v: %s", err, data)
			return "", ""
		}
		r := body.Records[0]
		if kind, subject := header("ce-type"), header("ce-subject"); kind != "s3:"+r.EventName || subject != "box/"+r.S3.Object.Key || header("ce-partitionkey") == "" {
			t.Errorf("event %s of %s has the record %s", kind, subject, data)
		}
		what = r.S3.Object.ETag
		if what == "" {
			what = r.EventName
		}
		return r.S3.Object.Key, what
	}
}

type notified struct {
	t    *testing.T
	s    *binary.Server
	c    *buckets.Client
	n    int
	want map[string][]string
}

func newNotified(t *testing.T, database, url string, vars ...string) *notified {
	t.Helper()
	return notifiedIn(t, testdb.SQLite(t), database, url, vars...)
}

func notifiedIn(t *testing.T, data, database, url string, vars ...string) *notified {
	t.Helper()
	vars = append(vars, "HOLDFAST_BUCKETS__DATABASE_URL="+database, "HOLDFAST_BUCKETS__DESTINATIONS__MQ__URL="+url)
	binary.Migrate(t, data, vars...)
	s := binary.Start(t, data, vars...)
	n := &notified{t: t, s: s, c: s.S3(t), want: map[string][]string{}}
	kind, _, _ := strings.Cut(url, ":")
	n.send(http.StatusOK, http.MethodPut, "/box", "")
	n.send(http.StatusOK, http.MethodPut, "/box?notification", `<NotificationConfiguration><TopicConfiguration><Topic>arn:holdfast:`+kind+
		`:::mq</Topic><Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event></TopicConfiguration></NotificationConfiguration>`)
	n.want["box"] = []string{"s3:TestEvent"}
	return n
}

func (n *notified) send(status int, method, target, body string) {
	n.t.Helper()
	a, err := n.c.Send(n.t.Context(), method, target, body)
	if err != nil || a.Status != status {
		n.t.Fatalf("%s %s: %d %s %v", method, target, a.Status, a.Body, err)
	}
}

func (n *notified) write(times int) {
	n.t.Helper()
	for range times {
		for _, key := range []string{"a", "b", "c"} {
			n.n++
			body := fmt.Sprint(n.n)
			n.send(http.StatusOK, http.MethodPut, "/box/"+key, body)
			n.want[key] = append(n.want[key], fmt.Sprintf("%x", md5.Sum([]byte(body))))
		}
		n.send(http.StatusNoContent, http.MethodDelete, "/box/c", "")
		n.want["c"] = append(n.want["c"], "ObjectRemoved:Delete")
	}
}

func (n *notified) awaitPublished(least int) (count int) {
	n.t.Helper()
	// The relay waits up to a minute after a failure.
	n.s.AwaitLong(3*time.Minute, "/metrics", func(_ int, text string) bool {
		if found := publishedEvents.FindStringSubmatch(text); found != nil {
			count, _ = strconv.Atoi(found[1])
		}
		return count >= least
	})
	return count
}

var publishedEvents = regexp.MustCompile(`(?m)^holdfast_outbox_events_total\{service="buckets/mq"\} (\d+)$`)

// TestBucketsBrokers disconnects a bucket's broker while clients write, and later deletes its topic. No write is
// refused, no event is set aside, and all events arrive in order per object.
func TestBucketsBrokers(t *testing.T) {
	t.Parallel()
	opens := map[string]func(*testing.T, brokers.Describe) *brokers.Broker{"nats": brokers.NATS, "pubsub": brokers.PubSub}
	databases := map[string]func(*testing.T) string{
		"sqlite": func(*testing.T) string { return "" }, "postgres": func(t *testing.T) string { return testdb.PostgresDatabase(t) },
	}
	for name, open := range opens {
		for engine, database := range databases {
			t.Run(name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				b := open(t, describeObject(t))
				n := newNotified(t, database(t), b.URL)
				n.write(5)
				b.Await("before", n.want)
				if name == "pubsub" {
					testdb.SoakOnly(t, "its client waits for a minute, and NATS shows the same")
				}
				b.Away()
				n.write(5 * int(harness.Number(t, "FAULT_ROUNDS", 1)))
				n.s.AwaitOutput("could not publish events")
				n.write(1)
				if dead := n.s.Verb("buckets", "dead-letters", "list", "--json"); dead != "" {
					t.Errorf("set aside while the broker was away: %s", dead)
				}
				b.Back()
				b.Await("after the broker was away", n.want)

				b.Lose(func() {
					before := n.awaitPublished(0)
					n.write(1) // makes the server notice the missing topic and create it
					n.awaitPublished(before + 4)
				})
				clear(n.want)
				b.Forget()
				n.write(5)
				b.Await("after the broker has lost its topic", n.want)
			})
		}
	}
}

// outage writes three objects before, during and after a fault, and waits until all events are published.
func (n *notified) outage(b *brokers.Broker, begin, end func()) {
	n.t.Helper()
	const writers = 3
	var (
		wrote             [writers][]brokers.Write
		writing           sync.WaitGroup
		stop              atomic.Bool
		accepted, refused = make(chan struct{}, 1<<16), make(chan struct{}, 1<<16)
	)
	for w := range writers {
		writing.Go(func() {
			for i := 0; !stop.Load(); i++ {
				body := fmt.Sprint("outage ", w, " ", i)
				a, err := n.c.Send(n.t.Context(), http.MethodPut, fmt.Sprint("/box/", w), body)
				ok := err == nil && a.Status == http.StatusOK
				wrote[w] = append(wrote[w], brokers.Write{What: fmt.Sprintf("%x", md5.Sum([]byte(body))), Acked: ok})
				if ok {
					accepted <- struct{}{}
					continue
				}
				if err != nil || !harness.Unavailable(a) {
					n.t.Errorf("PUT: %d %s %v", a.Status, a.Body, err)
				}
				refused <- struct{}{}
				harness.Pause(nil, 20*time.Millisecond)
			}
		})
	}
	await := func(what string, c chan struct{}, count int) {
		n.t.Helper()
		for deadline := time.After(harness.Bound); count > 0; count-- {
			select {
			case <-c:
			case <-deadline:
				stop.Store(true)
				n.t.Fatalf("no write was %s", what)
			}
		}
	}
	await("accepted", accepted, 30)
	begin()
	await("refused", refused, 3*writers)
	end()
	for len(accepted) > 0 {
		<-accepted
	}
	await("accepted afterwards", accepted, 30)
	stop.Store(true)
	writing.Wait()
	all := map[string][]brokers.Write{}
	for w := range writers {
		all[fmt.Sprint(w)] = wrote[w]
	}
	b.AwaitWrites(all)
	if dead := n.s.Verb("buckets", "dead-letters", "list", "--json"); dead != "" {
		n.t.Errorf("set aside: %s", dead)
	}
}

// TestBucketsEventsDatabaseStops stops the database while clients write. Each acknowledged write publishes its event
// later, in order per object.
func TestBucketsEventsDatabaseStops(t *testing.T) {
	t.Parallel()
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	b := brokers.NATS(t, describeObject(t))
	n := newNotified(t, db.URL(), b.URL, "HOLDFAST_LOG__ACCESS=false")
	n.outage(b, func() { harness.Must(t, db.Stop()) }, func() { harness.Must(t, db.Start()) })
}
