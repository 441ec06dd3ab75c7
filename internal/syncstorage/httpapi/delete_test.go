package httpapi_test

import (
	"strings"
	"testing"
	"time"
)

func TestDeleteAll(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/storage"} {
		u := newUser(t)
		other := u.server.user(t)
		other.put("/storage/toys/a", `{}`).is(200)
		u.post("/storage/toys", bsos("a", "b")).is(200)
		u.put("/storage/own-name/a", `{}`).is(200)
		u.delete("/storage/own-name").is(200) // leaves a tombstone
		id := u.open("toys", bsos("c"))
		u.delete(path).is(200, "null").has("X-Last-Modified", "0.00")
		u.get("/info/collections").is(200, "{}").has("X-Last-Modified", "0.00").has("X-Weave-Records", "0")
		u.get("/storage/toys").is(200, "[]").has("X-Last-Modified", "0.00")
		u.get("/info/quota").is(200, "[0,null]")
		u.post("/storage/toys?batch="+id, "[]").is(400, "0")
		u.delete(path).is(200, "null")
		other.get("/storage/toys").is(200, `["a"]`)
		u.put("/storage/toys/a", `{}`, unless+"0").is(200)
	}
}

func TestDeleteCollection(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.post("/storage/toys", bsos("a", "b")).is(200)
	u.later(time.Second)
	u.post("/storage/games", bsos("a")).is(200)
	u.later(time.Second)
	const gone = "1790000002.12"
	u.delete("/storage/toys").is(200, gone).has("X-Last-Modified", aStamp).has("X-Weave-Timestamp", gone)
	u.get("/info/collections").is(200, `{"games":1790000001.12}`).has("X-Last-Modified", gone).has("X-Weave-Records", "1")
	u.get("/info/collection_counts").is(200, `{"games":1}`)
	u.get("/storage/toys").is(200, "[]").has("X-Last-Modified", "0.00")
	// Deleting nothing succeeds with the storage's stamp.
	u.later(time.Second)
	u.delete("/storage/toys").is(200, gone).has("X-Last-Modified", "0.00")
	u.delete("/storage/nothing").is(200, gone)
	u.get("/info/collections").is(200).has("X-Last-Modified", gone)
	u.delete("/storage/games?limit=1&sort=x").is(200)
	u.get("/info/collections").is(200, `{}`)

	fresh := u.server.user(t)
	fresh.delete("/storage/toys").is(200, "0.00")
	u.clock.Set(t0)
	if got := u.put("/storage/toys/a", `{}`).is(200).body; seconds(t, got) <= seconds(t, gone) {
		t.Errorf("the stamp %s comes after %s", got, gone)
	}
}

func TestDeleteByIDs(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.post("/storage/toys", bsos("a", "b", "{c}", "d e")).is(200)
	u.later(time.Second)
	const first = "1790000001.12"
	u.delete("/storage/toys?ids=a,%7Bc%7D,%20d%20e%20,nobody").is(200, first).has("X-Last-Modified", first).has("X-Weave-Timestamp", first)
	u.get("/storage/toys").is(200, `["b"]`).has("X-Last-Modified", first)
	u.later(time.Second)
	u.delete("/storage/toys?ids=nobody").is(200, "1790000002.12")
	u.get("/info/collections").is(200, `{"toys":1790000002.12}`)
	u.delete("/storage/toys?ids=b").is(200)
	u.get("/storage/toys").is(200, "[]")
	u.get("/info/collections").is(200).has("X-Weave-Records", "1") // empty but existing
	u.delete("/storage/nothing?ids=a").is(200)
	u.get("/info/collections").is(200).has("X-Weave-Records", "1")
}

func TestDeleteByNoIDs(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.post("/storage/toys", bsos("a", "b")).is(200)
	for _, query := range []string{
		"ids=", "ids", "ids=,", "ids=,,%20,", "ids=&ids=a", "ids=" + strings.Repeat("a", 65), "ids=a,%00", "ids=%C3%A9", "ids=" + strings.Repeat("a,", 101),
		"ids=%zz", "ids=%", "ids=a;b", "%zz", "x=%f",
	} {
		u.delete("/storage/toys?"+query).is(400, "0")
	}
	u.get("/storage/toys").is(200, `["b","a"]`).has("X-Last-Modified", aStamp)
	u.delete("/storage/toys?ids=" + strings.Repeat("a,", 100)).is(200)
	u.get("/storage/toys").is(200, `["b"]`)
}

func TestDeleteBSO(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.post("/storage/toys", bsos("a", "b")).is(200)
	u.put("/storage/toys/brief", `{"ttl":0}`).is(200)
	u.later(time.Second)
	const gone = "1790000001.12"
	u.delete("/storage/toys/a").is(200, `{"modified":`+gone+`}`).has("X-Last-Modified", gone).has("X-Weave-Timestamp", gone)
	u.get("/storage/toys/a").is(404, "0")
	u.get("/storage/toys").is(200, `["b"]`).has("X-Last-Modified", gone)
	u.delete("/storage/toys/a").is(404, "0")
	u.delete("/storage/toys/brief").is(404, "0") // expired
	u.delete("/storage/nothing/a").is(404, "0")
	u.get("/info/collections").is(200, `{"toys":`+gone+`}`)
	// The body is ignored.
	u.do("DELETE", "/storage/toys/b", `{"not":`).is(200)
}
